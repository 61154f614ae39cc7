"""The objectives that a model can be pre-trained with, by name, and what each goes with."""

from collections.abc import Mapping
from typing import Any

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.model.architecture import Architecture
from bertcore.model.config import ARCHITECTURES, build_discriminator, build_pretraining
from bertcore.model.encoder import EncoderModule
from bertcore.model.encoder_config import EncoderConfig
from bertcore.objectives import (
    causal,
    displaced,
    distillation,
    masked_language_modeling,
    repeats,
    replaced_tokens,
    span_boundary,
)
from bertcore.objectives.objective import Objective, ObjectiveRow, freeze_pair_head

# `pretrain.objective` of params.yaml -> all about it.
OBJECTIVES: dict[str, ObjectiveRow] = {
    "mlm": masked_language_modeling.MLM,
    "mlm_nsp": masked_language_modeling.MLM_NSP,
    "mlm_sop": masked_language_modeling.MLM_SOP,
    "mlm_clm": causal.MLM_CLM,
    "mlm_sbo": span_boundary.MLM_SBO,
    "mlm_repeats": repeats.MLM_REPEATS,
    "mlm_repeats_displaced": displaced.MLM_REPEATS_DISPLACED,
    "distillation": distillation.DISTILLATION,
    "replaced_tokens": replaced_tokens.REPLACED_TOKENS,
}


def build_model(objective: str, config: EncoderConfig) -> EncoderModule:
    """The encoder with the heads that `objective` trains, with initial weights."""
    return (build_discriminator if OBJECTIVES[objective].needs_discriminator else build_pretraining)(config)


def build_objective(name: str, model: EncoderModule, options: Mapping[str, Any] | None = None) -> Objective:
    """The objective `name` for `model`, of which it may change the initial weights and freeze what no gradient will
    reach; `ConfigError` for options that it has not."""
    row = OBJECTIVES[name]
    if not row.needs_pair_head:
        freeze_pair_head(model)
    return row.build(model, parse(row.options, options or {}, "pretrain.objective_options"))


def models_of(name: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Option -> directory, for those of `ObjectiveRow.models` that `options` give."""
    return {option: options[option] for option in OBJECTIVES[name].models if options.get(option) is not None}


def check_packing(objective: str, packing: str, architecture: str = "bert") -> None:
    """Raise `ConfigError` where the instances have not the labels that the objective asks for."""
    if packing not in (fitting := OBJECTIVES[objective].packings):
        others = [name for name, row in OBJECTIVES.items() if packing in row.packings]
        others = [name for name in others if _missing(OBJECTIVES[name], ARCHITECTURES[architecture]) is None]
        raise ConfigError(
            f"params.yaml: mask.packing: found {packing!r} with pretrain.objective {objective!r}, which expects "
            f"{' or '.join(map(repr, fitting))}; change it"
            + (f", or set pretrain.objective to {others[0]!r}" if others else "")
        )


def check_architecture(objective: str, architecture: str) -> None:
    """Raise `ValueError`, naming the key of section `pretrain`, where `architecture` has not what the objective
    trains."""
    row = ARCHITECTURES[architecture]
    if (missing := _missing(OBJECTIVES[objective], row)) is None:
        return
    fitting = [name for name, each in OBJECTIVES.items() if _missing(each, row) is None]
    raise ValueError(
        f"objective: found {objective!r}, but {architecture} has {missing}; expected "
        f"{' or '.join(map(repr, fitting))} (and mask.packing {OBJECTIVES[fitting[0]].packings[0]!r})"
    )


def _missing(objective: ObjectiveRow, architecture: Architecture) -> str | None:
    if objective.needs_discriminator and architecture.discriminator is None:
        return "no head for replaced tokens"
    if objective.needs_pair_head and not architecture.pair_head:
        return "no head for pairs of sentences"
    return None
