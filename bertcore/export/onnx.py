"""A saved model as one ONNX file, in float32 or int8, put in place only after ONNX Runtime has given the same outputs.

Inputs are Hugging Face's: input_ids, attention_mask and, where the model has segments, token_type_ids, int64 (batch,
sequence), both of any size up to the model's positions. Outputs are float32 with Hugging Face's names: logits
(classification, tagging, masked LM), prediction_logits and seq_relationship_logits (pre-training), start_logits and
end_logits (question answering), last_hidden_state and pooler_output (encoder). Of multiple choice each choice with its
context is a row, and logits are (batch, 1). Tokenizer and names of labels stay in the model's directory.

In int8 the weights of matrix products and embeddings are kept as 8-bit numbers, one scale for each output channel, and
activations are rounded to 8 bits, by a scale that is found as they come (dynamic quantisation) or beforehand, from
batches of examples (calibrated): a quarter of the size, and other numbers, which are compared by their direction.
"""

import importlib.util
import logging
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bertcore.errors import ArtifactError, ConfigError
from bertcore.export.directory import Saved, read_config, read_model
from bertcore.export.kinds import outputs_of_class
from bertcore.export.probe import LONGEST, Probe, require_equal
from bertcore.export.verify import run_padded
from bertcore.files import replace_file

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
SUFFIX = ".onnx"
OPSET = 18
"""Of 2022: the oldest that torch's exporter writes, so that older runtimes read the file too."""
TOLERANCE = 1e-4
"""Of an output, relative to its largest number: the runtime fuses layers, and sums in another order."""
DIRECTION = 0.9
"""Cosine of an output in int8 with that in float32 at least; below, it is another model."""
PACKAGES = ("onnx", "onnxscript", "onnxruntime")

Fed = Mapping[str, NDArray[np.int64]]
"""A padded batch by the names of `INPUTS`, (batch, sequence) each."""

_LARGEST = 2**31 - 2**20
"""Bytes of one ONNX file, whose format ends at 2 GiB."""


def export(directory: Path, path: Path, *, int8: bool = False, examples: Iterable[Fed] | None = None) -> str:
    """Write the model of `directory` as `path`; one line that says what was written and compared.

    `examples`: with `int8`, batches on which it is calibrated; None leaves the scales of activations to each call.
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
    if path.suffix != SUFFIX:
        raise ConfigError(f"{path}: found a name that does not end in {SUFFIX}; say {path.with_suffix(SUFFIX)}")
    with replace_file(path) as beside:
        _write(saved, model, beside)
        largest = max(_compare(saved, model, beside, lengths) for lengths in _shapes(saved))
        said = f"ONNX Runtime gives equal outputs (difference {largest:.1g} of the largest)"
        if int8:
            _quantize(beside, examples)
            least = min(_compare_directions(saved, model, beside, lengths) for lengths in _shapes(saved))
            kind = "int8" if examples is None else "int8, calibrated"
            said = f"{kind}; outputs point where those in float32 do (cosine {least:.4f} or more)"
    return f"{path}: {saved.architecture} of {directory}, opset {OPSET}, {path.stat().st_size:,} bytes; {said}"


def _require_packages(directory: Path) -> None:
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise ConfigError(
            f"{', '.join(missing)}: not installed, expected for ONNX; run `make onnx MODEL={directory}`, "
            "or install requirements-onnx.lock"
        )


def _write(saved: Saved, model: nn.Module, path: Path) -> None:
    import onnx

    longest, names = saved.config.max_sequence_length, INPUTS[: 3 if saved.config.segments else 2]
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
            output_names=list(outputs_of_class(saved.architecture, saved.directory)),
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
    """Lengths of the sequences of each batch that is compared: alone, as long as a probe can be, padded."""
    longest = min(saved.config.max_sequence_length, LONGEST)
    return [(1,), (longest,), tuple(min(length, longest) for length in (2, 13, 40))]


def _compare(saved: Saved, model: nn.Module, path: Path, lengths: tuple[int, ...]) -> float:
    probe = Probe.of(saved.config, lengths)
    found = run_onnx(session_of(path), saved.architecture, probe)
    where = f"{path.parent}: ONNX of {saved.directory}, lengths {lengths}"
    return require_equal(run_padded(model, saved.architecture, probe), found, TOLERANCE, where)


def _quantize(path: Path, examples: Iterable[Fed] | None) -> None:
    """The file itself, in int8."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic, quantize_static

    proto = onnx.load(path)
    del proto.graph.value_info[:]  # the quantiser transposes weights, and would compare them with what is written here
    # Sums of two products of 8 bits overflow 16 bits on processors without VNNI: 7 bits are right everywhere.
    weights = {"per_channel": True, "reduce_range": True, "weight_type": QuantType.QInt8}
    with tempfile.TemporaryDirectory(prefix="bertcore-int8-", dir=path.parent) as folder, _quiet():
        made = Path(folder) / "int8.onnx"
        if examples is None:
            quantize_dynamic(proto, str(made), **weights)
        else:
            onnx.save(proto, plain := f"{folder}/float32.onnx")
            known = {port.name for port in proto.graph.input}
            reader = _Reader({name: batch[name] for name in known} for batch in examples)
            quantize_static(
                plain,
                str(made),
                reader,
                op_types_to_quantize=["Gather", "Gemm", "MatMul"],
                nodes_to_exclude=_without_weights(proto),
                **weights,
            )
        made.replace(path)


def _without_weights(proto: Any) -> list[str]:
    """The matrix products of two activations, in attention."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    products = (node for node in proto.graph.node if node.op_type == "MatMul")
    return [node.name for node in products if weights.isdisjoint(node.input)]


class _Reader:
    """What the quantiser asks for the next batch."""

    def __init__(self, batches: Iterable[Fed]) -> None:
        self._batches = iter(batches)

    def get_next(self) -> dict[str, NDArray[np.int64]] | None:
        batch = next(self._batches, None)
        return None if batch is None else dict(batch)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the quantiser's advice to every caller, which it logs at the root."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _compare_directions(saved: Saved, model: nn.Module, path: Path, lengths: tuple[int, ...]) -> float:
    """The smallest cosine between an output of the file and that of the model; `ArtifactError` below `DIRECTION`."""
    probe = Probe.of(saved.config, lengths)
    expected, found = (
        run_padded(model, saved.architecture, probe),
        run_onnx(session_of(path), saved.architecture, probe),
    )
    cosines = {
        name: float(torch.cosine_similarity(values.flatten(), found[name].flatten(), dim=0))
        for name, values in expected.items()
    }
    name = min(cosines, key=lambda name: cosines[name])
    if not cosines[name] >= DIRECTION:
        raise ArtifactError(
            f"{path.parent}: int8 of {saved.directory}, lengths {lengths}: {name}: found a cosine of "
            f"{cosines[name]:.3f} with the output in float32, expected at least {DIRECTION}; convert it without int8"
        )
    return cosines[name]


def session_of(path: Path, threads: int = 0) -> Any:
    """ONNX Runtime on the CPU, on `threads` threads, 0 = as many as it finds."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors: a file in int8 has initializers that no node reads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_onnx(session: Any, architecture: str, probe: Probe) -> dict[str, torch.Tensor]:
    """The outputs that count of an ONNX Runtime session."""
    kinds = outputs_of_class(architecture, "the model")
    known = {port.name for port in session.get_inputs()}
    arrays = {name: array.numpy() for name, array in zip(INPUTS, probe.padded(), strict=True) if name in known}
    results = zip(kinds, session.run(list(kinds), arrays), strict=True)
    return {name: probe.select(kinds[name], torch.from_numpy(result)) for name, result in results}
