"""Objectives and the packings of the instances that go with them."""

import pytest

from bertcore.errors import ConfigError
from bertcore.instances.packing import PACKINGS
from bertcore.objectives.packing import check_packing, packings_of
from bertcore.objectives.pretraining import OBJECTIVES


def test_every_objective_has_a_packing_and_every_packing_an_objective() -> None:
    found = {packing for objective in OBJECTIVES for packing in packings_of(objective)}
    assert found == set(PACKINGS)
    for objective in OBJECTIVES:
        for packing in packings_of(objective):
            check_packing(objective, packing)


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
