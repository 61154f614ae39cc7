"""Distillation of a pre-trained encoder into a smaller one (Sanh et al. 2019, DistilBERT).

Three terms: `kl`, how far the student's predictions are from the teacher's; `mlm`, the masked tokens themselves;
`cosine`, how far the directions of the last hidden states are apart. The weights and the temperature are those of the
published code, where `kl` and `cosine` are taken at all tokens, masked or not. The student begins with layers of the
teacher.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import Parameter, functional

from bertcore.config import within
from bertcore.errors import ArtifactError
from bertcore.model.config import architecture_of, build_pretraining
from bertcore.model.encoder import EncoderModule
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import Loaded, load_config, load_pretrained, look_at_pretrained
from bertcore.model.layers import EncoderLayer
from bertcore.model.layout import by_rounded_rows, filled
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.kl_divergence import kl_divergence, wide
from bertcore.objectives.masked_language_modeling import class_sums
from bertcore.objectives.objective import Objective, ObjectiveRow, Sums, require_weights


@dataclass(frozen=True, kw_only=True)
class DistillationOptions:
    """`pretrain.objective_options` of objective `distillation`."""

    teacher: str | None = None
    """A Hugging Face directory of any architecture here, with a head for masked tokens and the same vocabulary: a
    published model, or a copy of what an earlier run left in models/pretrained."""
    layers: list[int] | None = None
    """The teacher's layers, counted from 0, that the student's begin with, from below; with them come embeddings and
    head, where the shapes are equal. None = evenly spaced: of 12 for 6 every other one. [] = nothing is taken over."""
    temperature: float = 2.0
    """Divides the logits of both in term `kl`."""
    kl_weight: float = 5.0
    """Of the divergence from the teacher's predictions in the loss, which is multiplied by the temperature squared."""
    mlm_weight: float = 2.0
    """Of the masked tokens in the loss."""
    cosine_weight: float = 1.0
    """Of 1 - the cosine between the last hidden states; above 0 both must be equally wide."""
    positions: Literal["all", "masked"] = "all"
    """Tokens at which the teacher is imitated in term `kl`."""

    def __post_init__(self) -> None:
        require_weights(self, "kl_weight", "mlm_weight", "cosine_weight")
        if not self.kl_weight + self.cosine_weight > 0:
            raise ValueError("kl_weight: found 0 beside cosine_weight 0, expected something to learn from the teacher")
        if not self.kl_weight + self.mlm_weight > 0:
            raise ValueError(
                "mlm_weight: found 0 beside kl_weight 0, expected something that the head for masked tokens learns from"
            )
        within(self, "temperature", "more than 0, such as 2.0", above=0)


class Distillation(Objective):
    """The model learns from a frozen teacher, which computes in the same type what a term compares, and no more."""

    def __init__(self, model: EncoderModule, options: DistillationOptions) -> None:
        super().__init__()
        self._options = options
        assert options.teacher is not None, "distillation without a teacher, which the checks let nobody begin"
        self._config = model.config
        self._teacher = (load_teacher(Path(options.teacher), options.teacher),)  # in a tuple: no module of this one
        weights = {"kl": options.kl_weight, "mlm": options.mlm_weight, "cosine": options.cosine_weight}
        # The masked LM is measured whatever it weighs: all encoders are compared by it.
        self.weights = {term: weight for term, weight in weights.items() if weight or term == "mlm"}
        if layers := chosen_layers(options, model.config, self._teacher[0].config):
            take_over(model, self._teacher[0], layers)

    @property
    def teacher(self) -> EncoderModule:
        return self._teacher[0]

    def counts(self, batch: PreTrainingBatch) -> dict[str, int]:
        tokens, masked = batch.layout.total, batch.num_predictions
        counts = {"kl": tokens if self._options.positions == "all" else masked, "mlm": masked, "cosine": tokens}
        return {term: counts[term] for term in self.weights}

    def forward(self, model: EncoderModule, batch: PreTrainingBatch) -> dict[str, Sums]:
        counts, masked = self.counts(batch), batch.masked_positions
        rows = None
        if not self.of_every_token:  # of the last layer, the masked tokens alone
            rows, masked = masked, torch.arange(len(masked), device=masked.device)
        inputs = batch.input_ids, batch.token_type_ids, batch.layout, rows
        teacher = self._teacher[0].to(batch.input_ids.device)
        states = model.base_model.hidden_states(*inputs)
        with torch.no_grad():
            expected = teacher.base_model.hidden_states(*inputs)
        terms: dict[str, Sums] = {}
        if "cosine" in counts:
            apart = 1 - functional.cosine_similarity(wide(states), wide(expected), dim=1)
            terms["cosine"] = Sums(loss_sum=apart.sum(), count=counts["cosine"], correct=None)
        # Both terms use their logits up.
        logits = model.token_logits(filled(states if self._everywhere else states.index_select(0, masked)))
        mlm_logits = logits.index_select(0, masked) if self._everywhere else logits.clone()
        if "kl" in counts:
            imitated = expected if self._everywhere else expected.index_select(0, masked[: counts["kl"]])
            loss_sum, same = kl_divergence(logits, self._predicted, imitated, self._options.temperature)
            terms["kl"] = Sums(loss_sum=loss_sum, count=counts["kl"], correct=same)
        terms["mlm"] = class_sums(mlm_logits, batch.masked_labels)
        return {term: terms[term] for term in counts}

    def _predicted(self, states: Tensor) -> Tensor:
        """The teacher's logits; published tables may have rows beyond the vocabulary."""
        return by_rounded_rows(self._teacher[0].token_logits, states)[:, : self._config.vocab_size]

    def logit_rows(self, tokens: int, masked: int) -> int:
        """Where all tokens have logits, the gradient of the masked ones stands in an array as large."""
        return 2 * tokens + masked if self._everywhere else 2 * masked

    @property
    def of_every_token(self) -> bool:
        return self._everywhere or "cosine" in self.weights

    @property
    def _everywhere(self) -> bool:
        """Whether the teacher's predictions are asked for at every token."""
        return "kl" in self.weights and self._options.positions == "all"

    def further_flops(self, batch: PreTrainingBatch) -> int:
        """Of the student's last layer and head, at the tokens that are not masked, where they are imitated."""
        return self._flops(self._config, batch, self._everywhere) - self._flops(self._config, batch, False)

    def frozen_flops(self, batch: PreTrainingBatch) -> int:
        """The teacher's forward pass."""
        return self._flops(self._teacher[0].config, batch, self._everywhere)

    @staticmethod
    def _flops(config: EncoderConfig, batch: PreTrainingBatch, everywhere: bool) -> int:
        predicted = batch.layout.total if everywhere else batch.num_predictions
        return architecture_of(config).flops(config, batch.layout.lengths.cpu(), predicted)


def load_teacher(directory: Path, name: str) -> EncoderModule:
    """The frozen model in `directory`, which the user calls `name`, for evaluation. `ArtifactError` where it has no
    head for masked tokens."""
    with torch.random.fork_rng(devices=[]):  # the weights that are replaced cost no draws of the training
        teacher = build_pretraining(load_config(directory))
    _require_head(load_pretrained(teacher, directory), teacher, name)
    return teacher.eval().requires_grad_(False)


def _require_head(found: Loaded, teacher: EncoderModule, name: str) -> None:
    pair_head = architecture_of(teacher.config).pair_head
    if missing := [each for each in found.missing if not each.startswith(pair_head)]:
        raise ArtifactError(
            f"{name}: found no tensor for {missing[0]!r}, expected the head for masked tokens, whose predictions a "
            "student learns; give the directory of a pre-trained model, such as one that stage pretrain has saved"
        )


def chosen_layers(options: DistillationOptions, student: EncoderConfig, teacher: EncoderConfig) -> list[int]:
    """The teacher's layers that the student's begin with, from below; empty where nothing is taken over."""
    if options.layers is not None:
        return options.layers
    return [
        index * teacher.num_hidden_layers // student.num_hidden_layers for index in range(student.num_hidden_layers)
    ]


@torch.no_grad()
def take_over(student: EncoderModule, teacher: EncoderModule, layers: Sequence[int]) -> None:
    """Give the student the weights of the teacher's `layers`, in that order, and all others beside the layers (of
    embeddings and heads) that have the same name and shape; of tables with more entries, the rows of its own."""
    for own, index in zip(student.base_model.layers, layers, strict=True):
        own.load_state_dict(teacher.base_model.layers[index].state_dict())
    theirs = _beside_layers(teacher)
    for name, parameter in _beside_layers(student).items():
        # A head's name may begin with that of a module which the other architecture has not.
        fitting = [each for each in theirs if each == name or each.endswith(f".{name}") or name.endswith(f".{each}")]
        if fitting and (given := _of_vocabulary(theirs[fitting[0]], teacher, student)).shape == parameter.shape:
            parameter.copy_(given)


def _of_vocabulary(theirs: Parameter, teacher: EncoderModule, student: EncoderModule) -> Tensor:
    """Without the rows of a published table that are beyond the vocabulary."""
    is_table = len(theirs) == teacher.config.vocab_size
    return theirs[: student.config.vocab_size] if is_table else theirs


def _beside_layers(model: EncoderModule) -> dict[str, Parameter]:
    """By their names in the encoder, or in the model where they are those of a head."""
    layers = {parameter for layer in model.base_model.layers for parameter in layer.parameters()}
    named = ((name, each) for name, each in model.named_parameters() if each not in layers)
    return {name.removeprefix(f"{model.prefix}."): parameter for name, parameter in named}


def check(config: EncoderConfig, options: DistillationOptions, longest: int) -> None:
    """See `ObjectiveRow.check`."""
    if options.teacher is None:
        raise ValueError(
            "teacher: found nothing (null), expected the directory of a pre-trained model; to take one of your own, "
            "copy it first: cp -rL models/pretrained TEACHER"
        )
    with torch.device("meta"):
        teacher = build_pretraining(load_config(Path(options.teacher)))
    _require_head(look_at_pretrained(teacher, Path(options.teacher)), teacher, options.teacher)
    theirs = teacher.config
    if theirs.vocab_size < config.vocab_size:
        raise ValueError(
            f"teacher: found a model with vocab_size {theirs.vocab_size}, expected at least {config.vocab_size}; set "
            "tokenizer.vocab_file to the teacher's"
        )
    if theirs.max_sequence_length < longest:
        raise ValueError(
            f"teacher: found a model of {theirs.max_sequence_length} positions, expected at least "
            f"mask.sequence_length ({longest}); lower that"
        )
    if options.cosine_weight and theirs.hidden_size != config.hidden_size:
        raise ValueError(
            f"cosine_weight: found {options.cosine_weight} with hidden_size {config.hidden_size}, but the teacher's is "
            f"{theirs.hidden_size}; set it to 0 and layers to [], or pretrain.model.hidden_size to the teacher's"
        )
    _check_layers(config, options, teacher)


def _check_layers(config: EncoderConfig, options: DistillationOptions, teacher: EncoderModule) -> None:
    layers, there = chosen_layers(options, config, teacher.config), teacher.config.num_hidden_layers
    if not layers:
        return
    if absent := [index for index in layers if not 0 <= index < there]:
        raise ValueError(f"layers: found {absent[0]}, expected layers of the teacher, 0 to {there - 1}; correct it")
    if len(layers) != config.num_hidden_layers:
        raise ValueError(
            f"layers: found {len(layers)} of them, expected one for each of the {config.num_hidden_layers} layers of "
            "the model; correct it, or pretrain.model.num_hidden_layers"
        )
    with torch.device("meta"):
        student = build_pretraining(config)
    taken: dict[EncoderLayer, int] = {}
    for own, index in zip(student.base_model.layers, layers, strict=True):
        if taken.setdefault(own, index) != index:
            raise ValueError(
                f"layers: found {taken[own]} and {index} for layers of the model that share their weights, expected "
                f"the same one for all of them, such as {[layers[0]] * len(layers)}; or set layers to []"
            )
    for place, (own, index) in enumerate(zip(student.base_model.layers, layers, strict=True)):
        wanted, found = _shapes(own), _shapes(teacher.base_model.layers[index])
        if wanted != found:
            name = next(each for each in sorted(wanted.keys() | found.keys()) if wanted.get(each) != found.get(each))
            raise ValueError(
                f"layers: found {index} for layer {place}, whose {name} has shape {wanted.get(name)}, but the "
                f"teacher's {found.get(name)}; set layers to [] to begin with random weights, or take a model of the "
                "teacher's sizes"
            )


def _shapes(layer: EncoderLayer) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in layer.state_dict().items()}


DISTILLATION = ObjectiveRow(
    options=DistillationOptions,
    build=Distillation,
    packings=("full_sentences", "doc_sentences"),
    models=("teacher",),
    check=check,
)
