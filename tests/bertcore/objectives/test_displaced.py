"""Tokens that change places: which do, what is asked of them, and the loss against a plain one in double precision."""

from collections import Counter
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

from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.displaced import with_displaced
from bertcore.objectives.pretraining import build_objective
from bertcore.objectives.repeats import repeated, visible
from bertcore.training.config import PretrainConfig
from bertcore.training.flops import training_flops
from bertcore.training.loop import Pretraining
from tests.bertcore.model.references import LOSS_TOLERANCE, assert_close
from tests.small import assert_resumes, training_of_visible_tokens

CLS, SEP, MASK = 2, 3, 4


def batch_of(sequences: list[list[int]], masked: list[int], draws: list[float]) -> PreTrainingBatch:
    """Between [CLS] and [SEP] each; `masked` are flat positions, never of those."""
    ids = np.concatenate([np.asarray([CLS, *sequence, SEP]) for sequence in sequences])
    ids[masked] = MASK
    return PreTrainingBatch.from_numpy(
        input_ids=ids,
        token_type_ids=np.zeros_like(ids),
        lengths=np.asarray([len(sequence) + 2 for sequence in sequences]),
        masked_positions=np.asarray(masked, dtype=np.int64),
        masked_labels=np.full(len(masked), 7),
        sequence_draws=np.asarray(draws),
    )


@st.composite
def batches(draw: st.DrawFn) -> PreTrainingBatch:
    sequences = draw(st.lists(st.lists(st.integers(3, 12), min_size=1, max_size=20), min_size=1, max_size=4))
    begins = np.cumsum([0, *(len(sequence) + 2 for sequence in sequences)])
    inner = [begin + 1 + place for begin, each in zip(begins, sequences, strict=False) for place in range(len(each))]
    masked = sorted(draw(st.sets(st.sampled_from(inner))))
    unit = st.floats(0, 1, exclude_max=True)
    return batch_of(sequences, masked, draw(st.lists(unit, min_size=len(sequences), max_size=len(sequences))))


@given(batches(), st.floats(0.05, 0.5))
def test_visible_tokens_change_places_within_their_sequence_and_all_others_stay(
    before: PreTrainingBatch, share: float
) -> None:
    after = with_displaced(before, share)
    assert after.displaced is not None and after.sequence_draws is None
    assert torch.equal(after.displaced, after.input_ids != before.input_ids)
    stays = ~visible(before) | (before.input_ids == CLS) | (before.input_ids == SEP)  # an inner [SEP], too
    assert not after.displaced[stays].any()
    lengths = before.layout.lengths.tolist()
    for old, new in zip(before.input_ids.split(lengths), after.input_ids.split(lengths), strict=True):
        assert Counter(old.tolist()) == Counter(new.tolist())
    assert torch.equal(after.masked_positions, before.masked_positions)


@given(batches())
def test_what_moves_is_decided_by_the_sequences_own_draw(whole: PreTrainingBatch) -> None:
    assert whole.sequence_draws is not None
    alone = []
    begin = 0
    for index, length in enumerate(whole.layout.lengths.tolist()):
        ids = whole.input_ids[begin : begin + length]
        masked = [place for place in range(length) if int(ids[place]) == MASK and not visible(whole)[begin + place]]
        one = batch_of([ids[1:-1].tolist()], masked, [float(whole.sequence_draws[index])])
        alone.append(with_displaced(one, 0.4).input_ids)
        begin += length
    assert torch.equal(torch.cat(alone), with_displaced(whole, 0.4).input_ids)


def many(sequences: int, length: int = 126) -> PreTrainingBatch:
    source = np.random.default_rng(1)
    texts = [(10 + source.permutation(length)).tolist() for _ in range(sequences)]
    masked = [index * (length + 2) + place for index in range(sequences) for place in range(6, length, 7)]
    return batch_of(texts, masked, source.random(sequences).tolist())


@pytest.mark.parametrize("share", [0.05, 0.15, 0.4])
def test_as_many_move_as_asked_for_half_of_them_by_one_place(share: float) -> None:
    before = many(400)
    after = with_displaced(before, share)
    assert after.displaced is not None
    old, new = (each.input_ids.view(400, -1) for each in (before, after))
    moved = (new != old).nonzero()
    home = (old[moved[:, 0]] == new[moved[:, 0], moved[:, 1]][:, None]).int().argmax(1)
    distance = (home - moved[:, 1]).abs()
    visible_tokens = 400 * (128 - 18)
    # Neighbours of a masked token, and of one that moves, stay: fewer by a share of the share.
    assert share * (0.80 - share / 3) < len(moved) / visible_tokens < share
    assert 0.3 < float((distance == 1).float().mean()) < 0.55 and int(distance.max()) > 100
    assert len({tuple(row) for row in (new != old).tolist()}) > 300, "each sequence differently"


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_loss_and_gradients_are_those_of_plain_terms(architecture: str) -> None:
    config = ModelConfig(architecture=architecture, preset="tiny").build(200).with_dropout(0.0, 0.0)
    model: Any = build_pretraining(config).double()
    objective: Any = build_objective("mlm_repeats_displaced", model, {"displaced_weight": 2.0}).double()
    assert objective.weights == {"mlm": 1.0, "repeats": 1.0, "displaced": 2.0}
    before = many(2, 40)
    held_out = objective(model, before)
    assert held_out.keys() == objective.counts(before).keys() == {"mlm", "repeats"}, "held-out text stays as it is"
    arranged = objective.arranged(before)
    hidden = model.base_model.hidden_states(arranged.input_ids, arranged.token_type_ids, arranged.layout)
    seen = visible(arranged)
    logits = {name: (hidden @ head.weight[0] + head.bias)[seen] for name, head in _heads(objective).items()}
    labels = {"repeats": repeated(arranged, seen)[seen], "displaced": arranged.displaced[seen]}
    expected = {
        name: functional.binary_cross_entropy_with_logits(logits[name], labels[name].double(), reduction="sum")
        for name in labels
    }
    masked = hidden[arranged.counted_positions]
    expected["mlm"] = functional.cross_entropy(model.token_logits(masked), arranged.masked_labels, reduction="sum")
    found = objective(model, arranged)
    assert objective.counts(arranged) == {name: sums.count for name, sums in found.items()}
    assert found.keys() == expected.keys()
    for name, sums in found.items():
        assert_close(sums.loss_sum, expected[name], name, LOSS_TOLERANCE)
    head = objective.displaced_head.weight
    (plain,) = torch.autograd.grad(expected["displaced"], head, retain_graph=True)
    (own,) = torch.autograd.grad(found["displaced"].loss_sum, head)
    assert_close(own, plain, "its head", LOSS_TOLERANCE)


def _heads(objective: Any) -> dict[str, torch.nn.Linear]:
    return {"repeats": objective.head, "displaced": objective.displaced_head}


def test_its_head_is_among_the_flops() -> None:
    config = ModelConfig(architecture="modernbert", preset="tiny").build(500)
    objective = build_objective("mlm_repeats_displaced", build_pretraining(config))
    before = many(2, 40)
    flops = [training_flops(config, batch, objective) for batch in (before, objective.arranged(before))]
    assert flops[1] - flops[0] == 3 * 2 * before.layout.total * config.hidden_size


def test_shares_that_cannot_be_are_refused() -> None:
    for share in (0.0, 0.6):
        with pytest.raises(ValueError, match="displaced_share: found"):
            PretrainConfig(objective="mlm_repeats_displaced", objective_options={"displaced_share": share})


def training(directory: Path) -> Pretraining:
    return training_of_visible_tokens(directory, "mlm_repeats_displaced")


def test_a_stopped_training_is_resumed_and_parts_of_a_batch_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = training(tmp_path / "whole")
    whole.run()
    losses = [row["train/displaced_loss"] for row in whole.state.history.curves if "train/displaced_loss" in row]
    assert losses[-1] < losses[0] - 0.05
    resumed = assert_resumes(partial(training, tmp_path / "stopped"), whole)
    assert any(name.startswith("objective.displaced_head.") for name in resumed._trained.state_dict())
    save_pretrained(whole.model, tmp_path / "model")
    saved = load_file(tmp_path / "model" / "model.safetensors")
    assert saved and (1, 32) not in [tuple(tensor.shape) for tensor in saved.values()], "its head"
    monkeypatch.setenv("BERTCORE_MICRO_BATCH", "3")
    parts = training(tmp_path / "parts")
    parts.run()
    for (name, one), other in zip(whole.model.named_parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-3, msg=name)
