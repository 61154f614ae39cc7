"""The objective about repeated tokens against a plain loop over pairs of places, in double precision."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.pretraining import build_objective
from bertcore.objectives.repeats import repeated, visible
from bertcore.training.flops import training_flops
from bertcore.training.loop import Pretraining
from tests.bertcore.model.references import LOSS_TOLERANCE, assert_close
from tests.small import assert_resumes, training_of_visible_tokens


def batch_of(sequences: list[list[int]], masked: list[int], seed: int = 0) -> PreTrainingBatch:
    """`masked` are flat positions; what they were is drawn."""
    ids = np.concatenate([np.asarray(sequence) for sequence in sequences])
    return PreTrainingBatch.from_numpy(
        input_ids=ids,
        token_type_ids=np.zeros_like(ids),
        lengths=np.asarray([len(sequence) for sequence in sequences]),
        masked_positions=np.asarray(masked, dtype=np.int64),
        masked_labels=np.random.default_rng(seed).integers(5, 90, len(masked)),
    )


def plain(sequences: list[list[int]], masked: list[int]) -> list[bool]:
    """Each place beside each other one of its sequence."""
    found, begin = [], 0
    for sequence in sequences:
        places = [place for place in range(len(sequence)) if begin + place not in masked]
        for place in range(len(sequence)):
            others = [sequence[other] for other in places if other != place]
            found.append(place in places and sequence[place] in others)
        begin += len(sequence)
    return found


@given(st.data())
def test_a_token_is_repeated_if_it_is_visible_twice_in_its_sequence(data: st.DataObject) -> None:
    sequences = data.draw(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=12), min_size=1, max_size=4))
    total = sum(map(len, sequences))
    masked = sorted(data.draw(st.sets(st.integers(0, total - 1))))
    given_batch = batch_of(sequences, masked)
    assert visible(given_batch).tolist() == [place not in masked for place in range(total)]
    assert repeated(given_batch, visible(given_batch)).tolist() == plain(sequences, masked)


SEQUENCES = [
    [2, *np.random.default_rng(seed).integers(5, 25, length).tolist(), 3] for seed, length in ((1, 30), (2, 38))
]
MASKED = [4, 7, 8, 20, 41, 42, 60]


@pytest.mark.parametrize("architecture", ["bert", "albert", "modernbert"])
def test_loss_and_gradients_are_those_of_a_plain_loop(architecture: str) -> None:
    config = ModelConfig(architecture=architecture, preset="tiny").build(90).with_dropout(0.0, 0.0)
    model: Any = build_pretraining(config).double()
    objective: Any = build_objective("mlm_repeats", model, {"repeats_weight": 0.5}).double()
    assert objective.weights == {"mlm": 1.0, "repeats": 0.5}
    with torch.no_grad():
        for parameter in [*model.parameters(), *objective.parameters()]:
            parameter += 0.1 * torch.randn(parameter.shape)
    given_batch = batch_of(SEQUENCES, MASKED)
    labels = plain(SEQUENCES, MASKED)
    asked = [place for place in range(len(labels)) if place not in MASKED]
    assert 10 < sum(labels[place] for place in asked) < len(asked) - 10
    hidden = model.base_model.hidden_states(given_batch.input_ids, given_batch.token_type_ids, given_batch.layout)
    logits = hidden @ objective.head.weight[0] + objective.head.bias
    signed = torch.stack([logits[place] if labels[place] else -logits[place] for place in asked])
    expected = {
        "mlm": functional.cross_entropy(model.token_logits(hidden[MASKED]), given_batch.masked_labels, reduction="sum"),
        "repeats": torch.log1p(torch.exp(-signed)).sum(),
    }
    parameters = [*model.named_parameters(), *objective.named_parameters()]
    sum(expected.values()).backward()  # type: ignore[union-attr]
    gradients = {name: parameter.grad for name, parameter in parameters}
    for _, parameter in parameters:
        parameter.grad = None

    found = objective(model, given_batch)
    counted = {term: sums.count for term, sums in found.items()}
    assert objective.counts(given_batch) == counted == {"mlm": 7, "repeats": 65}
    for term, sums in found.items():
        assert_close(sums.loss_sum, expected[term], term, LOSS_TOLERANCE)
    assert int(found["repeats"].correct) == int((signed > 0).sum())
    assert int(found["repeats"].majority) == sum(labels)
    sum(each.loss_sum for each in found.values()).backward()
    for name, parameter in parameters:
        assert (parameter.grad is None) == (gradients[name] is None), name
        if gradients[name] is not None:
            # A bias of the keys shifts all scores of a query alike: its true gradient is 0, what is seen is rounding.
            scale = float(gradients[name.replace("bias", "weight")].abs().max()) if "qkv" in name else None
            assert_close(parameter.grad, gradients[name], name, LOSS_TOLERANCE, scale)


@pytest.mark.parametrize("architecture", ["bert", "albert", "modernbert"])
def test_flops_are_the_products_that_are_made(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertcore.model.layout.GROUP_AREA", 1)  # every sequence by itself: nothing is padded
    config = ModelConfig(architecture=architecture, preset="tiny").build(500)
    model, given_batch = build_pretraining(config).train(), batch_of(SEQUENCES, MASKED)
    objective = build_objective("mlm_repeats", model)
    with FlopCounterMode(display=False) as counter:
        sum(sums.loss_sum for sums in objective(model, given_batch).values()).backward()
    assert training_flops(config, given_batch, objective) == pytest.approx(counter.get_total_flops(), rel=0.03)


def training(directory: Path) -> Pretraining:
    return training_of_visible_tokens(directory, "mlm_repeats")


def test_its_head_learns_is_resumed_and_is_not_saved(tmp_path: Path) -> None:
    whole = training(tmp_path / "whole")
    before, after = whole.evaluate(), whole.run()
    assert after["eval/repeats_loss"] < before["eval/repeats_loss"] - 0.05
    resumed = assert_resumes(partial(training, tmp_path / "stopped"), whole)
    assert any(name.startswith("objective.head.") for name in resumed._trained.state_dict())
    save_pretrained(whole.model, tmp_path / "model")
    saved = load_file(tmp_path / "model" / "model.safetensors")
    assert saved and not any("objective" in name for name in saved)
    assert (1, 32) not in [tuple(tensor.shape) for tensor in saved.values()], "its head"
