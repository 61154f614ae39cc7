"""Objectives and the packings of the instances that go with them."""

import dataclasses
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bertcore.errors import ConfigError
from bertcore.instances.packing import PACKINGS
from bertcore.model.config import ModelConfig
from bertcore.objectives.pretraining import OBJECTIVES, build_model, build_objective, check_packing
from tests.bertcore.model.references import random_batch


def test_every_objective_has_a_packing_and_every_packing_an_objective() -> None:
    assert {packing for row in OBJECTIVES.values() for packing in row.packings} == set(PACKINGS)
    for name, row in OBJECTIVES.items():
        for packing in row.packings:
            check_packing(name, packing)


@pytest.mark.parametrize(
    ("objective", "packing", "remedy"),
    [
        ("mlm_nsp", "sentence_order", "expects 'pairs'.*to 'mlm_sop'"),
        ("mlm_sop", "pairs", "expects 'sentence_order'.*to 'mlm_nsp'"),
        ("mlm_nsp", "full_sentences", "expects 'pairs'.*to 'mlm'"),
        ("mlm", "pairs", "expects 'full_sentences' or 'doc_sentences'.*to 'mlm_nsp'"),
    ],
)
def test_a_mismatch_names_both_and_the_remedy(objective: str, packing: str, remedy: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"mask.packing: found '{packing}' with pretrain.objective '{objective}'.*{remedy}"
    ):
        check_packing(objective, packing)


class IndexedSums(TorchDispatchMode):
    """Counts the sums at repeated places that a CPU adds with several threads at once, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.found = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "index_put" in func.name():
            self.found += (*args, *(kwargs or {}).values())[3:4] == (True,)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("architecture", "objective"),
    [
        ("albert", "mlm_sop"),
        ("bert", "mlm_nsp"),
        ("bert", "mlm_sbo"),
        ("deberta-v2", "mlm"),
        ("deberta-v2", "replaced_tokens"),
        ("distilbert", "mlm"),
        ("electra", "replaced_tokens"),
        ("modernbert", "mlm_repeats"),
        ("modernbert", "mlm_repeats_displaced"),
        ("roberta", "mlm_clm"),
    ],
)
def test_every_gradient_is_added_in_one_order(architecture: str, objective: str) -> None:
    """Or a training that goes on would not always have the bits of one that was never stopped."""
    config = ModelConfig(architecture=architecture, preset="tiny").build(500)
    model = build_model(objective, config).train()
    trained = build_objective(objective, model)
    batch = random_batch(config, [17, 64, 39])
    batch = dataclasses.replace(
        batch,
        masked_draws=torch.rand(len(batch.masked_labels), dtype=torch.float64),
        sequence_draws=torch.tensor([0.9, 0.0, 0.9], dtype=torch.float64),
    )
    with IndexedSums() as sums:
        terms = trained(model, trained.arranged(batch))
        sum(part.loss_sum for part in terms.values()).backward()  # type: ignore[union-attr]
    assert sums.found == 0


def test_an_indexed_sum_would_be_seen() -> None:
    states = torch.ones(3, 2, requires_grad=True)
    with IndexedSums() as sums:
        states[torch.tensor([0, 0, 2])].sum().backward()
    assert sums.found == 1
