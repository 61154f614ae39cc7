"""Verify a saved model directory: config, tensors, tokenizer and outputs; by transformers too where it is installed.

The stages start it in a fresh process for every model they save (bertcore/export/gate.py), with a probe: inputs, and
what the model in memory said about them. Without a probe the directory is verified for itself.
"""

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from bertcore.errors import ArtifactError, BertcoreError
from bertcore.export.directory import Saved, check_tokenizer, read_config, read_model
from bertcore.export.gate import ACCEPTED, REJECTED
from bertcore.export.kinds import ROWS, TOKEN, kind_of_class, outputs_of_class
from bertcore.export.probe import Expected, Probe, require_equal
from bertcore.finetune.encoder_tokenizer import SAMPLE
from bertcore.model.config import architecture_of
from bertcore.model.encoder import Kind
from bertcore.tokens.tokenizer import load_tokenizer

TOLERANCE = 1e-5
"""Of an output, relative to its largest number. All is computed in float64: in float32, the order of sums alone makes
twice as much of a difference in a model that was trained well, a tenth of it in one with random weights. What is left
are transformers' angles of rotary positions, which it computes in float32."""


def verify(directory: Path, expected: Expected | None = None, tokenizer_directory: Path | None = None) -> str:
    """One line that says what was verified; `ArtifactError` if something is not as it must be."""
    saved = read_config(directory)
    if expected is not None:
        _same_config(saved, expected)
    model = read_model(saved).double()
    check_tokenizer(saved, tokenizer_directory)
    probe = expected.probe if expected else Probe.of(saved.config)
    outputs = run_padded(model, saved.architecture, probe)
    said = f"{directory}: {saved.architecture}, {len(model.state_dict())} tensors"
    if expected is not None:
        largest = require_equal(expected.outputs, outputs, TOLERANCE, str(directory))
        said += f", outputs as in memory (difference {largest:.1g} of the largest)"
        outputs = expected.outputs
    loaders = _verify_by_transformers(saved, model, probe, outputs)
    return said + (f"; transformers loads it by {', '.join(loaders)}" if loaders else "")


def run_padded(model: nn.Module, architecture: str, probe: Probe) -> dict[str, Tensor]:
    """The outputs that count of a model from `bertcore.export.padded`."""
    with torch.no_grad():
        results = model(*probe.padded())
    kinds = outputs_of_class(architecture, "the model")
    return {name: probe.select(kinds[name], result) for name, result in zip(kinds, results, strict=True)}


def _same_config(saved: Saved, expected: Expected) -> None:
    path = saved.directory / "config.json"
    if saved.architecture != expected.architecture:
        raise ArtifactError(
            f"{path}: architectures: found {saved.architecture!r}, expected {expected.architecture!r}; save it again"
        )
    for name, value in expected.config.items():
        found = getattr(saved.config, name)
        if name not in saved.config.unsaved and found != value:
            raise ArtifactError(f"{path}: {name}: found {found!r}, expected {value!r} as in memory; save it again")


def _verify_by_transformers(saved: Saved, model: nn.Module, probe: Probe, outputs: dict[str, Tensor]) -> list[str]:
    """The names of the classes that loaded the directory, that of the encoder where there is none with its head; none
    where transformers is not installed, and its tokenizer alone where it has no such architecture."""
    try:
        import transformers
    except ImportError:
        return []
    transformers.utils.logging.set_verbosity_error()
    kind, own = kind_of_class(saved.architecture, saved.directory), architecture_of(saved.config)
    loaders: list[str] = []
    if hasattr(transformers, saved.architecture):
        row = ROWS[kind]
        loaders = [row.auto_class, *row.parts]
        _load(saved, loaders[0], kind, (), probe, outputs, {name: name for name in outputs})
        for loader, names in row.parts.items():
            _load(saved, loader, kind, own.pair_head, probe, outputs, names)
    elif saved.config.model_type in transformers.CONFIG_MAPPING:
        row = ROWS["encoder"]
        loaders, (name,) = [row.auto_class], row.outputs
        heads = tuple(name for name, _ in model.named_children() if name != own.prefix)
        with torch.no_grad():
            states, *_ = model.get_submodule(own.prefix)(*probe.padded())
        _load(saved, loaders[0], "encoder", heads, probe, {name: probe.select(TOKEN, states)}, {name: name})
    tokenizer = transformers.AutoTokenizer.from_pretrained(saved.directory, local_files_only=True)
    theirs, ours = tokenizer(*SAMPLE)["input_ids"], load_tokenizer(saved.directory).encode(*SAMPLE).ids
    if theirs != ours:
        raise ArtifactError(
            f"{saved.directory}: found ids {theirs} from AutoTokenizer, expected {ours} from tokenizer.json; "
            "save the tokenizer again"
        )
    return [*loaders, "AutoTokenizer"]


def _load(
    saved: Saved,
    loader: str,
    kind: Kind,
    left: tuple[str, ...],
    probe: Probe,
    expected: dict[str, Tensor],
    names: Mapping[str, str],
) -> None:
    """Load by transformers' class `loader`, which is one of `kind` and leaves keys that begin with `left`, and compare
    the outputs `names` (ours -> its)."""
    import transformers

    model, report = getattr(transformers, loader).from_pretrained(
        saved.directory, output_loading_info=True, local_files_only=True
    )
    for reason in ("missing", "unexpected", "mismatched"):
        keys = sorted(str(key) for key in report[f"{reason}_keys"] if not str(key).startswith(left))
        if keys:
            raise ArtifactError(
                f"{saved.directory}: {loader}: found {len(keys)} {reason} keys ({', '.join(keys[:3])}), expected none; "
                f"save the model again as {saved.architecture}"
            )
    names_of_inputs = ("input_ids", "attention_mask", "token_type_ids")[: 3 if saved.config.segments else 2]
    with torch.no_grad():
        inputs = dict(zip(names_of_inputs, probe.for_transformers(kind), strict=False))
        results = model.double().eval()(**inputs, return_dict=True)
    found = {ours: probe.select(ROWS[kind].outputs[ours], results[theirs]) for ours, theirs in names.items()}
    require_equal({name: expected[name] for name in names}, found, TOLERANCE, f"{saved.directory}: {loader}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bertcore.export.verify",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m bertcore.export.verify models/pretrained\n"
        f"The exit status is {ACCEPTED}, or {REJECTED} with the reason in the last line.",
    )
    parser.add_argument("directory", type=Path, help="what a stage saved, such as models/pretrained")
    parser.add_argument("--probe", type=Path, help="file of inputs and outputs, as bertcore.export.gate writes it")
    parser.add_argument("--tokenizer", type=Path, help="directory of the tokenizer that the model was trained with")
    parser.add_argument("--import", dest="module", help="Python module that adds an architecture from outside")
    options = parser.parse_args(arguments)
    try:
        if options.module:
            importlib.import_module(options.module)
        expected = Expected.read(options.probe) if options.probe else None
        print(verify(options.directory, expected, options.tokenizer))
    except BertcoreError as error:
        print(error)
        return REJECTED
    return ACCEPTED


if __name__ == "__main__":
    sys.exit(main())
