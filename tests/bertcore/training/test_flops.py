"""Model FLOPs against a counter of the products that the model really makes."""

import dataclasses

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertcore.model.config import ModelConfig
from bertcore.objectives.pretraining import build_model, build_objective
from bertcore.training.flops import peak_flops, training_flops
from tests.bertcore.model.references import random_batch


@pytest.mark.parametrize(
    ("architecture", "objective"),
    [
        ("albert", "mlm_repeats"),
        ("albert", "mlm_sop"),
        ("bert", "mlm"),
        ("bert", "mlm_clm"),
        ("bert", "mlm_nsp"),
        ("bert", "mlm_repeats"),
        ("bert", "mlm_sbo"),
        ("deberta-v2", "mlm"),
        ("deberta-v2", "replaced_tokens"),
        ("distilbert", "mlm"),
        ("electra", "mlm"),
        ("electra", "replaced_tokens"),
        ("modernbert", "mlm"),
        ("modernbert", "mlm_clm"),
        ("modernbert", "mlm_repeats"),
        ("modernbert", "mlm_repeats_displaced"),
        ("modernbert", "mlm_sbo"),
        ("roberta", "mlm"),
    ],
)
def test_they_are_the_products_of_a_forward_and_a_backward_pass(
    architecture: str, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertcore.model.layout.GROUP_AREA", 1)  # every sequence by itself: nothing is padded
    monkeypatch.setattr("bertcore.model.layout.rounded_up", lambda number: number)  # nor filled up for the CPU
    # No sequence exceeds a window: the CPU computes what lies beyond, too.
    fields = {"local_attention": 128} if architecture == "modernbert" else {}
    config = ModelConfig(architecture=architecture, preset="tiny", fields=fields).build(500)
    model = build_model(objective, config).train()
    # So many tokens that DeBERTa's distances, which are not counted, are few.
    batch = random_batch(config, 80 * [64] if architecture == "deberta-v2" else [17, 64, 39])
    batch = dataclasses.replace(
        batch,
        masked_draws=torch.rand(len(batch.masked_labels), dtype=torch.float64),
        sequence_draws=torch.arange(batch.layout.batch_size, dtype=torch.float64) / batch.layout.batch_size,
    )
    trained = build_objective(objective, model).train()
    batch = trained.arranged(batch)  # of `mlm_clm` the first sequence is causal
    with FlopCounterMode(display=False) as counter:
        sums = trained(model, batch)
        sum(part.loss_sum for part in sums.values()).backward()
    assert training_flops(config, batch, trained) == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_the_peak_is_a_speed_that_products_reach() -> None:
    assert 1e9 < peak_flops(torch.device("cpu"), torch.float32) < 1e14
