"""What every objective is: terms of a loss, over the predictions of a batch.

The loss of a global batch is the sum over the terms of `weight * loss_sum / count`, where both are first added over all
micro-batches and ranks. `counts` tells a batch's part of that divisor before the model has run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.model.config import architecture_of
from bertcore.model.encoder import EncoderModule
from bertcore.model.encoder_config import EncoderConfig
from bertcore.objectives.batch import PreTrainingBatch


@dataclass(frozen=True, kw_only=True)
class Sums:
    """What one term says about one micro-batch: sums, so that several micro-batches and ranks can be added up."""

    loss_sum: Tensor
    """Scalar, with gradient: the term's loss (cross entropy in nats), added over the predictions."""
    count: int
    """Predictions made."""
    correct: Tensor | None
    """Scalar int64: predictions whose most probable class was the right one; None where a term has no classes."""
    majority: Tensor | None = None
    """Scalar int64: what `correct` would be if one of two classes were always predicted, whichever it is; None where
    there are more, such as over a vocabulary."""


def binary_sums(logits: Tensor, labels: Tensor) -> Sums:
    """(N,) logits of yes and (N,) bool -> sums."""
    loss_sum = functional.binary_cross_entropy_with_logits(logits.float(), labels.float(), reduction="none")
    return Sums(
        loss_sum=loss_sum.sum(dtype=torch.float64).float(),
        count=len(labels),
        correct=((logits.detach() > 0) == labels).sum(),
        majority=labels.sum(),
    )


class Objective(nn.Module):
    """One objective for one model. It may own further modules: those that require gradients are trained and kept with
    the model, others are kept only. What a directory gives anew (a teacher) is held outside of the modules: no
    checkpoint has it, and no process divides it."""

    weights: Mapping[str, float]
    """Of the terms in the loss, by name."""

    def load(self, model: EncoderModule, directory: Path) -> list[str]:
        """Take over what the published `directory`, which `model` has its weights from, holds beside them: the names
        of the objective's own parameters that are new. All, by default."""
        return [name for name, _ in self.named_parameters()]

    @property
    def companions(self) -> dict[str, EncoderModule]:
        """Models that are trained beside the first one and saved with it, by their folder in its directory."""
        return {}

    @property
    def teacher(self) -> EncoderModule | None:
        """A frozen model, held outside of the modules, through which every batch passes."""
        return None

    def arranged(self, batch: PreTrainingBatch) -> PreTrainingBatch:
        """What a batch, on the CPU, becomes before a step of the training; held-out batches stay as they are."""
        return batch

    @property
    def of_every_token(self) -> bool:
        """Whether it asks something of all tokens, so that the last layer is computed and kept for all of them."""
        return False

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        """Term -> number of predictions in `batch`."""
        raise NotImplementedError

    def forward(self, model: EncoderModule, batch: PreTrainingBatch) -> dict[str, Sums]:
        """Term -> its sums over `batch`."""
        raise NotImplementedError

    def predictions(self, tokens: int, masked: int) -> int:
        """Tokens that are predicted, on average, in a training batch of so many and so many masked ones."""
        return masked

    def logit_rows(self, tokens: int, masked: int) -> int:
        """Rows over the vocabulary, logits and their gradients, that the model keeps at its peak in a batch of so many
        tokens and masked ones."""
        return self.predictions(tokens, masked)

    def model_flops(self, config: EncoderConfig, batch: PreTrainingBatch) -> int:
        """Of one forward pass through the model, of this config, with its head for masked tokens."""
        return architecture_of(config).flops(config, batch.layout.lengths, batch.num_predictions)

    def further_flops(self, batch: PreTrainingBatch) -> int:
        """Of one forward pass through what the objective computes, and trains, beside the model."""
        return 0

    def frozen_flops(self, batch: PreTrainingBatch) -> int:
        """Of one forward pass through what no gradient goes through."""
        return 0


def freeze_pair_head(model: EncoderModule) -> None:
    """Where nothing is asked about pairs, no gradient reaches the heads for them: they keep their weights."""
    if unused := architecture_of(model.config).pair_head:
        for name, parameter in model.named_parameters():
            if name.startswith(unused):
                parameter.requires_grad_(False)


def require_weights(options: Any, *names: str) -> None:
    """`ValueError` where the weight of a term in the loss, a field of `options`, is negative or no number, or where all
    are 0."""
    for name in names:
        if not getattr(options, name) >= 0:
            raise ValueError(f"{name}: found {getattr(options, name)}, expected 0 or more, such as 1.0")
    if not any(getattr(options, name) for name in names):
        others = "".join(f" beside {name} 0" for name in names[1:])
        raise ValueError(f"{names[0]}: found 0{others}, expected something to learn, such as 1.0")


def last_layer_flops(config: EncoderConfig, batch: PreTrainingBatch, count: int, table_width: int) -> int:
    """FLOPs of the last layer at `count` further tokens, without the head for masked ones, which `Architecture.flops`
    would add for them: that projects to `table_width`, the width of the embeddings, and from there to the
    vocabulary."""
    flops, lengths, masked = architecture_of(config).flops, batch.layout.lengths.cpu(), batch.num_predictions
    head = 2 * count * table_width * (config.hidden_size + config.vocab_size)
    return flops(config, lengths, masked + count) - flops(config, lengths, masked) - head


@dataclass(frozen=True, kw_only=True)
class ObjectiveRow:
    """All that the rest of the package knows of one objective."""

    options: type
    """A frozen dataclass: `pretrain.objective_options` of params.yaml."""
    build: Callable[[EncoderModule, Any], Objective]
    """The model to be trained and the options -> the objective."""
    packings: tuple[str, ...]
    """The values of `mask.packing` whose instances have the labels that it asks for."""
    needs_pair_head: bool = False
    """Whether it asks something about pairs, for which not every architecture has a head; without it that head is
    frozen."""
    needs_discriminator: bool = False
    """Whether it trains the `Discriminator` of an architecture, beside a generator."""
    models: tuple[str, ...] = ()
    """The options that name a Hugging Face directory each, of a model with the tokenizer of this one. DVC watches what
    is in them, and the objective is given their content, wherever it then lies."""
    check: Callable[[EncoderConfig, Any, int], None] = lambda config, options, longest: None
    """The encoder to be trained, the options and the tokens of the longest sequence -> `ValueError`, beginning with the
    name of an option, or `ArtifactError`, where they cannot go together."""
