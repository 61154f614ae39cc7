"""A saved model as one ONNX file, put in place only after ONNX Runtime has given the same outputs.

Inputs are Hugging Face's: input_ids, attention_mask and, where the model has segments, token_type_ids, int64 (batch,
sequence), both of any size up to the model's positions. Outputs are float32 with Hugging Face's names: logits
(classification, tagging, masked LM), prediction_logits and seq_relationship_logits (pre-training), start_logits and
end_logits (question answering), last_hidden_state and pooler_output (encoder). Tokenizer and names of labels stay in
the model's directory.
"""

import argparse
import importlib.util
import logging
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bertcore.errors import ArtifactError, BertcoreError, ConfigError
from bertcore.export.directory import Saved, read_config, read_model
from bertcore.export.probe import Probe, outputs_of, require_equal
from bertcore.export.verify import run_padded
from bertcore.files import replace_file

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OPSET = 18
"""Of 2022: the oldest that torch's exporter writes, so that older runtimes read the file too."""
TOLERANCE = 1e-4
"""Of an output, relative to its largest number: the runtime fuses layers, and sums in another order."""
PACKAGES = ("onnx", "onnxscript", "onnxruntime")

_LARGEST = 2**31 - 2**20
"""Bytes of one ONNX file, whose format ends at 2 GiB."""


def export(directory: Path, path: Path) -> str:
    """Write the model of `directory` as `path`; one line that says what was written and compared.

    `ConfigError` if a package is not installed, `ArtifactError` if the directory is not a complete model, or if
    ONNX Runtime gives other outputs; `path` is then as it was.
    """
    _require_packages(directory)
    saved = read_config(directory, forgive=True)
    model = read_model(saved)
    size = sum(4 * tensor.numel() for tensor in model.state_dict().values())
    if size > _LARGEST:
        raise ArtifactError(f"{directory}: found {size:,} bytes of weights, expected at most {_LARGEST:,} in ONNX")
    if path.is_dir():
        raise ConfigError(f"{path}: found a directory, expected the name of a file; say {path}/model.onnx")
    with replace_file(path) as beside:
        _write(saved, model, beside)
        largest = max(_compare(saved, model, beside, lengths) for lengths in _shapes(saved))
    return (
        f"{path}: {saved.architecture} of {directory}, opset {OPSET}, {path.stat().st_size:,} bytes; "
        f"ONNX Runtime gives equal outputs (difference {largest:.1g} of the largest)"
    )


def _require_packages(directory: Path) -> None:
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise ConfigError(
            f"{', '.join(missing)}: not installed, expected for ONNX; run `make onnx MODEL={directory}`, "
            "or install requirements-onnx.lock"
        )


def _write(saved: Saved, model: nn.Module, path: Path) -> None:
    import onnx

    longest, names = saved.config.max_position_embeddings, INPUTS[: 3 if saved.config.segments else 2]
    batch, sequence = torch.export.Dim("batch"), torch.export.Dim("sequence", max=longest)
    # torch says which of its own optional parts are absent, and warns of its own calls.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model,
            Probe.of(saved.config, (min(3, longest), min(5, longest))).padded()[: len(names)],
            dynamo=True,
            input_names=list(names),
            output_names=list(outputs_of(saved.architecture, saved.directory)),
            dynamic_shapes=[{0: batch, 1: sequence} for _ in names],
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None, "no program, although no file was asked for"
    proto = program.model_proto
    for part in (*proto.graph.node, *proto.graph.value_info):
        part.ClearField("metadata_props")  # paths and source lines of this machine
    onnx.checker.check_model(proto)
    onnx.save(proto, str(path))


def _shapes(saved: Saved) -> list[tuple[int, ...]]:
    """Lengths of the sequences of each batch that is compared: alone, as long as can be, padded."""
    longest = saved.config.max_position_embeddings
    return [(1,), (longest,), tuple(min(length, longest) for length in (2, 13, 40))]


def _compare(saved: Saved, model: nn.Module, path: Path, lengths: tuple[int, ...]) -> float:
    probe = Probe.of(saved.config, lengths)
    found = run_onnx(_session(path), saved.architecture, probe)
    where = f"{path.parent}: ONNX of {saved.directory}, lengths {lengths}"
    return require_equal(run_padded(model, saved.architecture, probe), found, TOLERANCE, where)


def _session(path: Path) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def run_onnx(session: Any, architecture: str, probe: Probe) -> dict[str, torch.Tensor]:
    """The outputs that count of an ONNX Runtime session."""
    kinds = outputs_of(architecture, "the model")
    known = {port.name for port in session.get_inputs()}
    arrays = {name: array.numpy() for name, array in zip(INPUTS, probe.padded(), strict=True) if name in known}
    results = zip(kinds, session.run(list(kinds), arrays), strict=True)
    return {name: probe.select(kinds[name], torch.from_numpy(result)) for name, result in results}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bertcore.export.onnx",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples: make onnx MODEL=models/finetuned/topic   (installs what is needed, writes MODEL.onnx)\n"
        "          python -m bertcore.export.onnx models/pretrained bert.onnx",
    )
    parser.add_argument("directory", type=Path, help="what a stage saved, such as models/pretrained")
    parser.add_argument("path", type=Path, metavar="OUT.onnx", help="the file to write; an old one is replaced")
    options = parser.parse_args(arguments)
    try:
        print(export(options.directory, options.path))
    except BertcoreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
