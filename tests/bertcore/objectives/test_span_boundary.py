"""The span-boundary objective against a plain loop over spans, in double precision."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from bertcore.instances.sources import MaskConfig
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.pretraining import build_objective
from bertcore.objectives.span_boundary import PLACES, spans_of
from bertcore.training.config import PretrainConfig
from bertcore.training.flops import training_flops
from bertcore.training.loop import Pretraining
from tests.bertcore.model.references import LOSS_TOLERANCE, assert_close
from tests.small import FIELDS, assert_resumes, small_training


def plain_spans(positions: list[int]) -> list[list[int]]:
    """Runs of neighbours, one by one."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and runs[-1][-1] == position - 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    return runs


@given(st.sets(st.integers(1, 120)))
def test_spans_are_runs_of_masked_tokens(places: set[int]) -> None:
    positions = sorted(places)
    expected = [
        (positions.index(position), run[0] - 1, run[-1] + 1, place)
        for run in plain_spans(positions)
        for place, position in enumerate(run[:PLACES])
    ]
    found = spans_of(torch.tensor(positions, dtype=torch.int64))
    columns = (each.tolist() for each in (found.index, found.before, found.behind, found.places))
    assert list(zip(*columns, strict=True)) == expected


def batch(vocab_size: int) -> PreTrainingBatch:
    """Two sequences with spans of one, three and 23 tokens."""
    places = [4, 7, 8, 9, *range(41, 64)]
    ids = torch.randint(5, vocab_size, (72,), generator=torch.Generator().manual_seed(1))
    return PreTrainingBatch.from_numpy(
        input_ids=ids.numpy(),
        token_type_ids=torch.zeros_like(ids).numpy(),
        lengths=torch.tensor([32, 40]).numpy(),
        masked_positions=torch.tensor(places).numpy(),
        masked_labels=ids[places].flip(0).numpy(),
    )


def plain_loss(model: Any, head: Any, given: PreTrainingBatch) -> dict[str, Tensor]:
    """Sums over the spans: Joshi et al. 2020, equations 1 to 4, a token at a time."""
    hidden = model.base_model.hidden_states(given.input_ids, given.token_type_ids, given.layout)
    table, positions = model.base_model.token_embeddings.weight, given.masked_positions[: len(given.masked_labels)]
    label_of = dict(zip(positions.tolist(), given.masked_labels, strict=True))
    losses = []
    for run in plain_spans(positions.tolist()):
        for place, position in enumerate(run[:PLACES]):
            ends = torch.cat([hidden[run[0] - 1], hidden[run[-1] + 1], head.places.weight[place]])
            inner = head.inner_norm(functional.gelu(head.inner(ends)))
            outer = head.outer_norm(functional.gelu(head.outer(inner)))
            losses.append(functional.cross_entropy(table @ outer + head.bias, label_of[position]))
    own = functional.cross_entropy(model.token_logits(hidden[positions]), given.masked_labels, reduction="sum")
    return {"mlm": own, "sbo": torch.stack(losses).sum()}


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "modernbert"])
def test_loss_and_gradients_are_those_of_a_plain_loop(architecture: str) -> None:
    config = ModelConfig(architecture=architecture, preset="tiny").build(90).with_dropout(0.0, 0.0)
    model = build_pretraining(config).double()
    objective: Any = build_objective("mlm_sbo", model, {"sbo_weight": 0.5}).double()
    with torch.no_grad():
        for parameter in [*model.parameters(), *objective.parameters()]:
            parameter += 0.1 * torch.randn(parameter.shape)
    given_batch = batch(90)
    parameters = [*model.named_parameters(), *objective.named_parameters()]
    expected = plain_loss(model, objective.head, given_batch)
    sum(expected.values()).backward()  # type: ignore[union-attr]
    gradients = {name: parameter.grad for name, parameter in parameters}
    for _, parameter in parameters:
        parameter.grad = None
    found = objective(model, given_batch)
    assert objective.counts(given_batch) == {"mlm": 27, "sbo": 24} == {name: each.count for name, each in found.items()}
    for term, sums in found.items():
        assert_close(sums.loss_sum, expected[term], term, LOSS_TOLERANCE)
    sum(each.loss_sum for each in found.values()).backward()
    for name, parameter in parameters:
        assert (parameter.grad is None) == (gradients[name] is None), name
        if gradients[name] is not None:
            # A bias of the keys shifts all scores of a query alike: its true gradient is 0, what is seen is rounding.
            scale = float(gradients[name.replace("bias", "weight")].abs().max()) if "qkv" in name else None
            assert_close(parameter.grad, gradients[name], name, LOSS_TOLERANCE, scale)


def test_flops_are_the_products_that_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertcore.model.layout.GROUP_AREA", 1)  # every sequence by itself: nothing is padded
    monkeypatch.setattr("bertcore.model.layout.rounded_up", lambda number: number)  # nor filled up for the CPU
    config = ModelConfig(preset="tiny").build(500)
    model, given_batch = build_pretraining(config).train(), batch(500)
    objective = build_objective("mlm_sbo", model)
    with FlopCounterMode(display=False) as counter:
        sum(sums.loss_sum for sums in objective(model, given_batch).values()).backward()
    assert training_flops(config, given_batch, objective) == pytest.approx(counter.get_total_flops(), rel=0.01)


def training(directory: Path) -> Pretraining:
    settings = PretrainConfig(
        model=ModelConfig(fields=FIELDS),
        objective="mlm_sbo",
        **{"batch_size": 8, "max_steps": 12, "warmup_steps": 2, "learning_rate": 5e-3, "eval_steps": 6},  # type: ignore[arg-type]
    )
    mask = MaskConfig(
        sequence_length=48, packing="full_sentences", masking="span", span_lengths="geometric", max_ngram=10
    )
    return small_training(directory, settings, mask)


def test_its_head_learns_is_resumed_and_is_not_saved(tmp_path: Path) -> None:
    whole = training(tmp_path / "whole")
    before, after = whole.evaluate(), whole.run()
    assert after["eval/sbo_loss"] < before["eval/sbo_loss"] - 0.05
    resumed = assert_resumes(partial(training, tmp_path / "stopped"), whole)
    assert any(name.startswith("objective.head.") for name in resumed._trained.state_dict())
    save_pretrained(whole.model, tmp_path / "model")
    saved = load_file(tmp_path / "model" / "model.safetensors")
    assert saved and not any("objective" in name or "places" in name for name in saved)
