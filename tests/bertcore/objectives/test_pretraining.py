"""Objectives and the packings of the instances that go with them."""

import pytest

from bertcore.errors import ConfigError
from bertcore.instances.packing import PACKINGS
from bertcore.objectives.pretraining import OBJECTIVES, check_packing


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
