"""The objectives that a model can be pre-trained with, by name, and what each goes with."""

from collections.abc import Mapping
from typing import Any

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.model.architecture import EncoderModule
from bertcore.model.config import ARCHITECTURES
from bertcore.objectives import masked_language_modeling
from bertcore.objectives.objective import Objective, ObjectiveRow

# `pretrain.objective` of params.yaml -> all about it.
OBJECTIVES: dict[str, ObjectiveRow] = {
    "mlm": masked_language_modeling.MLM,
    "mlm_nsp": masked_language_modeling.MLM_NSP,
    "mlm_sop": masked_language_modeling.MLM_SOP,
}


def build_objective(name: str, model: EncoderModule, options: Mapping[str, Any] | None = None) -> Objective:
    """The objective `name` for `model`, which it prepares; `ConfigError` for options that it has not."""
    row = OBJECTIVES[name]
    objective = row.build(model, parse(row.options, options or {}, "pretrain.objective_options"))
    objective.prepare(model)
    return objective


def check_packing(objective: str, packing: str) -> None:
    """Raise `ConfigError` where the instances have not the labels that the objective asks for."""
    if packing not in (fitting := OBJECTIVES[objective].packings):
        objectives = [name for name, row in OBJECTIVES.items() if packing in row.packings]
        raise ConfigError(
            f"params.yaml: mask.packing: found {packing!r} with pretrain.objective {objective!r}, which expects "
            f"{' or '.join(map(repr, fitting))}; change it, or set pretrain.objective to {objectives[0]!r}"
        )


def check_architecture(objective: str, architecture: str) -> None:
    """Raise `ValueError`, naming the key of section `pretrain`, where `architecture` has no head for the objective."""
    if OBJECTIVES[objective].needs_pair_head and not ARCHITECTURES[architecture].pair_head:
        fitting = [name for name, row in OBJECTIVES.items() if not row.needs_pair_head]
        raise ValueError(
            f"objective: found {objective!r}, but {architecture} has no head for pairs of sentences; expected "
            f"{' or '.join(map(repr, fitting))} (and mask.packing {OBJECTIVES[fitting[0]].packings[0]!r})"
        )
