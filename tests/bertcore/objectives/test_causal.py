"""Sequences that are read from left to right: what they see, what they predict, and both kinds in one batch."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from bertcore.instances.sources import MaskConfig
from bertcore.model.attention import attend_groups, attend_padded
from bertcore.model.config import ARCHITECTURES, ModelConfig, build_pretraining
from bertcore.model.layout import Layout
from bertcore.model.positions import PLAIN, Positions
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.causal import with_causal
from bertcore.objectives.pretraining import build_objective
from bertcore.training.config import PretrainConfig
from bertcore.training.loop import Pretraining
from tests.bertcore.model.references import LOSS_TOLERANCE, assert_close
from tests.small import FIELDS, assert_resumes, small_training

LENGTHS = (9, 30, 7, 30)
CAUSAL = torch.tensor([False, True, False, True])
MASKED = {3: 50, 5: 51, 12: 52, 40: 53, 50: 54}
"""Flat position -> the token that stood there; two of them in the sequences without masks."""


def batch(entries: int = 90) -> PreTrainingBatch:
    ids = torch.randint(5, entries, (sum(LENGTHS),), generator=torch.Generator().manual_seed(1))
    return PreTrainingBatch.from_numpy(
        input_ids=ids.numpy(),
        token_type_ids=torch.zeros_like(ids).numpy(),
        lengths=torch.tensor(LENGTHS).numpy(),
        masked_positions=torch.tensor(list(MASKED)).numpy(),
        masked_labels=torch.tensor(list(MASKED.values())).numpy(),
        sequence_draws=torch.where(CAUSAL, 0.1, 0.9).double().numpy(),
    )


def plain_attention(qkv: torch.Tensor, lengths: list[int], causal: list[bool], reach: int | None) -> torch.Tensor:
    """One sequence, head and mask after the other."""
    contexts = []
    for sequence, one_way in zip(qkv.split(lengths), causal, strict=True):
        query, key, value = sequence.unbind(1)
        distance = torch.arange(len(sequence)) - torch.arange(len(sequence))[:, None]
        hidden = distance > (0 if one_way else len(sequence))
        if reach is not None:
            hidden |= distance.abs() > reach
        scores = torch.einsum("qad,kad->aqk", query, key) / query.shape[-1] ** 0.5
        contexts.append(torch.einsum("aqk,kad->qad", scores.masked_fill(hidden, -torch.inf).softmax(-1), value))
    return torch.cat(contexts)


@pytest.mark.parametrize("attend", [attend_groups, attend_padded])
@pytest.mark.parametrize("reach", [None, 4])
@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("causal", [0, 1, 2, 4])
def test_attention_is_that_of_a_plain_mask(
    attend: Any, reach: int | None, windows: bool, causal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if windows:  # computed by blocks of 4 in sequences of more than 8 tokens
        monkeypatch.setattr("bertcore.model.group_attention._SHORTEST_BLOCK", 4)
        monkeypatch.setattr("bertcore.model.group_attention._BLOCKS", 2)
    lengths = [9, 30, 7, 20]
    layout = Layout.from_lengths(torch.tensor(lengths), causal=causal)
    positions = PLAIN if reach is None else Positions(reach=reach)
    values = torch.randn(sum(lengths), 3, 2, 6, dtype=torch.float64)
    one_way = [index >= len(lengths) - causal for index in range(len(lengths))]
    found, expected = values.clone().requires_grad_(), values.clone().requires_grad_()
    context = attend(found, layout, 0.0, positions)
    reference = plain_attention(expected, lengths, one_way, reach)
    torch.testing.assert_close(context, reference, rtol=0, atol=1e-12)
    weights = torch.randn(context.shape, dtype=torch.float64)
    (context * weights).sum().backward()
    (reference * weights).sum().backward()
    torch.testing.assert_close(found.grad, expected.grad, rtol=0, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(attend(values, layout, 0.0, positions), reference, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lengths", [[8], [5, 5]])
def test_a_layout_of_causal_sequences_alone_is_computed_as_one_block(lengths: list[int]) -> None:
    layout = Layout.from_lengths(torch.tensor(lengths), causal=len(lengths))
    qkv = torch.randn(sum(lengths), 3, 2, 6, dtype=torch.float64)
    assert layout.is_one_block
    with torch.no_grad():
        found = attend_groups(qkv, layout, 0.0)
    torch.testing.assert_close(found, plain_attention(qkv, lengths, [True] * len(lengths), None), rtol=0, atol=1e-12)


def test_causal_sequences_stand_last_without_masks_and_predict_every_next_token() -> None:
    given = batch()
    found = with_causal(given, CAUSAL)
    assert found.layout.lengths.tolist() == [9, 7, 30, 30] and (found.layout.causal, found.layout.causal_tokens) == (
        2,
        60,
    )
    before, after = given.input_ids.split(LENGTHS), found.input_ids.split([9, 7, 30, 30])
    assert torch.equal(after[0], before[0]) and torch.equal(after[1], before[2])
    original = given.input_ids.index_copy(0, torch.tensor(list(MASKED)), torch.tensor(list(MASKED.values()))).split(
        LENGTHS
    )
    assert torch.equal(after[2], original[1]) and torch.equal(after[3], original[3])
    masked = [(3, 50), (5, 51), (9 + 40 - 39, 53)]
    causal = [
        (start + place, int(ids[place + 1])) for start, ids in ((16, after[2]), (46, after[3])) for place in range(29)
    ]
    count = len(found.masked_labels)
    pairs = zip(found.masked_positions[:count].tolist(), found.masked_labels.tolist(), strict=True)
    assert list(pairs) == masked + causal and found.causal_predictions == 58
    assert with_causal(given, torch.ones(4, dtype=torch.bool)).causal_predictions == sum(LENGTHS) - 4


def plain_losses(model: Any, given: PreTrainingBatch) -> dict[str, torch.Tensor]:
    """Sequence by sequence, each alone in a batch of its own; a causal one token by token, each from its prefix."""
    ids = given.input_ids.index_copy(0, torch.tensor(list(MASKED)), torch.tensor(list(MASKED.values())))
    starts = [sum(LENGTHS[:index]) for index in range(len(LENGTHS))]
    losses: dict[str, list[torch.Tensor]] = {"mlm": [], "clm": []}
    for start, length, causal in zip(starts, LENGTHS, CAUSAL.tolist(), strict=True):
        if not causal:
            places = [place - start for place in MASKED if start <= place < start + length]
            logits = logits_of(model, given.input_ids[start : start + length])[places]
            labels = torch.tensor([MASKED[start + place] for place in places])
            losses["mlm"].append(functional.cross_entropy(logits, labels, reduction="sum"))
            continue
        for end in range(1, length):
            logits = logits_of(model, ids[start : start + end], causal=1)[-1]
            losses["clm"].append(functional.cross_entropy(logits, ids[start + end]))
    return {term: torch.stack(each).sum() for term, each in losses.items()}


def logits_of(model: Any, ids: torch.Tensor, causal: int = 0) -> torch.Tensor:
    layout = Layout.from_lengths(torch.tensor([len(ids)]), causal=causal)
    return model.token_logits(model.base_model.hidden_states(ids, torch.zeros_like(ids), layout))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_loss_and_gradients_are_those_of_every_prefix_by_itself(architecture: str) -> None:
    """That a prefix alone gives the same is what causal means: no state depends on a later token."""
    torch.manual_seed(0)
    config = ModelConfig(architecture=architecture, preset="tiny").build(90).with_dropout(0.0, 0.0)
    model = build_pretraining(config).double()
    objective: Any = build_objective("mlm_clm", model, {"causal_share": 0.5}).double()
    expected = plain_losses(model, batch())
    sum(expected.values()).backward()  # type: ignore[union-attr]
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    given = objective.arranged(batch())
    assert objective.counts(given) == {"mlm": 3, "clm": 58} and objective.counts(batch()) == {"mlm": 5, "clm": 0}
    found = objective(model, given)
    assert {term: sums.count for term, sums in found.items()} == {"mlm": 3, "clm": 58}
    for term, sums in found.items():
        assert_close(sums.loss_sum, expected[term], term, LOSS_TOLERANCE)
    sum(sums.loss_sum for sums in found.values()).backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == (gradients[name] is None), name
        if gradients[name] is not None:
            scale = float(gradients[name.replace("bias", "weight")].abs().max()) if "qkv" in name else None
            assert_close(parameter.grad, gradients[name], name, LOSS_TOLERANCE, scale)


def test_all_processes_have_the_same_terms_and_held_out_text_is_masked() -> None:
    model = build_pretraining(ModelConfig(preset="tiny").build(90))
    objective = build_objective("mlm_clm", model, {"causal_share": 0.2})
    assert objective.weights == {"mlm": 1.0, "clm": 0.25}
    without = batch()
    found = objective(model, without)
    assert found["clm"].count == 0 and not found["clm"].loss_sum and found["mlm"].count == 5
    assert list(objective.eval()(model, without)) == ["mlm"]
    assert objective.predictions(100, 15) == 32 == objective.logit_rows(100, 15)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5])
def test_a_share_that_leaves_nothing_is_refused(share: float) -> None:
    with pytest.raises(Exception, match=f"causal_share: found {share}, expected a share above 0 and below 1"):
        PretrainConfig(objective="mlm_clm", objective_options={"causal_share": share})


def training(directory: Path) -> Pretraining:
    fields = {**FIELDS, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    settings = PretrainConfig(
        model=ModelConfig(fields=fields),
        objective="mlm_clm",
        objective_options={"causal_share": 0.25},
        **{"batch_size": 8, "max_steps": 12, "warmup_steps": 2, "learning_rate": 5e-3, "eval_steps": 6},  # type: ignore[arg-type]
    )
    mask = MaskConfig(sequence_length=48, packing="full_sentences")
    return small_training(directory, settings, mask)


def test_in_parts_of_a_batch_the_same_sequences_are_causal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, in_parts = (training(tmp_path / name) for name in ("whole", "parts"))
    computed = whole.compute()
    monkeypatch.setenv("BERTCORE_MICRO_BATCH", "3")
    again = in_parts.compute()
    assert computed.counts == again.counts and computed.counts["clm"] > 0
    assert computed.losses == pytest.approx(again.losses, rel=1e-5)
    assert computed.norm == pytest.approx(again.norm, rel=1e-4)


def test_it_learns_and_is_resumed_with_the_same_bits(tmp_path: Path) -> None:
    whole = training(tmp_path / "whole")
    before, after = whole.evaluate(), whole.run()
    assert after["eval/mlm_loss"] < before["eval/mlm_loss"] - 0.05
    assert "eval/clm_loss" not in after and after["eval/loss"] == after["eval/mlm_loss"]
    assert_resumes(partial(training, tmp_path / "stopped"), whole)
