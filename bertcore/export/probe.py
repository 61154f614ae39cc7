"""A small batch that reaches every part of a model, and what the model says about it under Hugging Face's names."""

import copy
import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from bertcore.errors import ArtifactError
from bertcore.export.kinds import MASKED, ROWS, SEQUENCE
from bertcore.model.encoder import EncoderModule, Kind
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.layout import Layout

LONGEST = 1024
"""Tokens of a probe's sequence at most: beyond the windows of local attention, and quick to compute."""
_MASKED_TOKENS = 48
"""Tokens at which the masked-LM logits are compared; each has as many logits as the vocabulary has entries."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """B sequences, T tokens in all, end to end. The same sizes give the same probe."""

    input_ids: Tensor
    """(T,) int64, spread over the whole vocabulary."""
    token_type_ids: Tensor
    """(T,) int64: the second half of each sequence is of the last type."""
    lengths: Tensor
    """(B,) int64."""

    @classmethod
    def of(cls, config: EncoderConfig, lengths: tuple[int, ...] = ()) -> "Probe":
        """Sequences of `lengths` tokens; by default three short ones and one as long as the model reads."""
        longest = min(config.max_sequence_length, LONGEST)
        sizes = torch.tensor(lengths or [min(length, longest) for length in (2, 13, 40, longest)])
        total = int(sizes.sum())
        order = torch.randperm(total, generator=torch.Generator().manual_seed(1))
        spread = torch.linspace(0, config.vocab_size - 1, total, dtype=torch.float64).round().long()
        halves = [torch.arange(size) >= (size + 1) // 2 for size in sizes.tolist()]
        types = torch.cat(halves).long() * (max(config.segments, 1) - 1)
        return cls(input_ids=spread[order], token_type_ids=types, lengths=sizes)

    @property
    def layout(self) -> Layout:
        return Layout.from_lengths(self.lengths)

    @property
    def masked_positions(self) -> Tensor:
        """(M,) flat positions, the last token of all among them."""
        total = len(self.input_ids)
        return torch.linspace(0, total - 1, min(total, _MASKED_TOKENS), dtype=torch.float64).round().long()

    def padded(self) -> tuple[Tensor, Tensor, Tensor]:
        """`input_ids`, `attention_mask` and `token_type_ids`, each (B, L)."""
        layout = self.layout
        return layout.padded(self.input_ids), layout.key_mask().long(), layout.padded(self.token_type_ids)

    def for_transformers(self, kind: Kind) -> list[Tensor]:
        """The same as transformers' classes of `kind` take it: of multiple choice each sequence is the only choice of
        an example, (B, 1, L)."""
        return [each[:, None] if kind == "multiple_choice" else each for each in self.padded()]

    def select(self, kind: str, padded: Tensor) -> Tensor:
        """The rows of a (B, …) or (B, L, …) output that count: those of real tokens, or of masked ones."""
        if kind == SEQUENCE:
            return padded
        rows = padded.flatten(0, 1).index_select(0, self.layout.padded_index)
        return rows.index_select(0, self.masked_positions) if kind == MASKED else rows

    def outputs_of(self, model: EncoderModule) -> dict[str, Tensor]:
        """What `model` says, as it is saved: computed on the CPU, in float64, without dropout. The model itself is left
        as it is."""
        own = copy.deepcopy(model.published).to("cpu", torch.float64).eval()
        kinds = ROWS[model.kind].outputs
        positions = (self.masked_positions,) if MASKED in kinds.values() else ()
        with torch.no_grad():
            # The class's own forward: a launcher may have wrapped that of the object into an autocast.
            results = type(own).forward(own, self.input_ids, self.token_type_ids, self.layout, *positions)
        if isinstance(results, Tensor):
            results = results.unbind(-1) if len(kinds) > 1 else (results,)
        return dict(zip(kinds, results, strict=True))


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a saved model must be: the model in memory, as the gate's process reads it from a file."""

    architecture: str
    config: dict[str, Any]
    """The fields of its config."""
    probe: Probe
    outputs: dict[str, Tensor]

    @classmethod
    def of(cls, model: EncoderModule) -> "Expected":
        probe, config = Probe.of(model.config), dataclasses.asdict(model.config)
        outputs = probe.outputs_of(model)
        return cls(architecture=model.architecture, config=config, probe=probe, outputs=outputs)

    def write(self, path: Path) -> None:
        fields = {f"probe.{field.name}": getattr(self.probe, field.name) for field in dataclasses.fields(Probe)}
        outputs = {f"output.{name}": tensor.contiguous() for name, tensor in self.outputs.items()}
        metadata = {"architecture": self.architecture, "config": json.dumps(self.config)}
        save_file(fields | outputs, path, metadata=metadata)

    @classmethod
    def read(cls, path: Path) -> "Expected":
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            metadata = file.metadata()
        return cls(
            architecture=metadata["architecture"],
            config=json.loads(metadata["config"]),
            probe=Probe(**_below("probe.", tensors)),
            outputs=_below("output.", tensors),
        )


def difference(expected: Tensor, found: Tensor) -> float:
    """The largest difference, relative to the largest expected number; infinite where the shapes differ."""
    if expected.shape != found.shape:
        return math.inf
    return float((expected - found).abs().max() / expected.abs().max().clamp_min(1e-30))


def require_equal(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], tolerance: float, where: str) -> float:
    """The largest difference of all outputs; `ArtifactError` naming the output if one is above `tolerance`, or NaN."""
    differences = {name: difference(tensor, found[name]) for name, tensor in expected.items()}
    for name, value in differences.items():
        if not value <= tolerance:
            raise ArtifactError(
                f"{where}: {name}: found outputs that differ by {value:.2g} of the largest one (shape "
                f"{tuple(found[name].shape)}), expected at most {tolerance:g} (shape {tuple(expected[name].shape)}); "
                "save the model again, with the config that it was trained with"
            )
    return max(differences.values())


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
