"""The chunked cross entropy against torch's, and the objectives' sums and counts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.cross_entropy import CHUNK_ROWS, _of_all, cross_entropy
from bertcore.objectives.pretraining import build_objective


@settings(max_examples=30)
@given(
    rows=st.integers(0, 3 * CHUNK_ROWS),
    further=st.integers(0, 9),
    classes=st.integers(1, 50),
    spread=st.sampled_from([0.1, 3.0, 200.0]),
    seed=st.integers(0, 9),
)
def test_loss_gradient_and_count_are_those_of_torch(rows, further, classes, spread, seed):
    generator = torch.Generator().manual_seed(seed)
    values = spread * torch.randn(rows + further, classes, generator=generator)
    labels = torch.randint(classes, (rows,), generator=generator)
    leaf, reference = values.clone().requires_grad_(), values.double().requires_grad_()
    loss, correct = cross_entropy(leaf * 1.0, labels)
    (0.25 * loss).backward()
    expected = functional.cross_entropy(reference[:rows], labels, reduction="sum")
    (0.25 * expected).backward()
    assert loss.dtype == torch.float32 and correct.dtype == torch.int64
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(leaf.grad.double(), reference.grad, rtol=1e-5, atol=1e-6 * max(1.0, spread))
    assert int(correct) == int((values[:rows].argmax(-1) == labels).sum())


def test_sixteen_bit_logits_are_summed_in_float32():
    values = torch.randn(500, 300, generator=torch.Generator().manual_seed(0)).bfloat16()
    labels = torch.zeros(500, dtype=torch.int64)
    leaf = values.clone().requires_grad_()
    loss, _ = cross_entropy(leaf * 1, labels)
    loss.backward()
    reference = values.float().requires_grad_()
    expected = functional.cross_entropy(reference, labels, reduction="sum")
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    # The exponential, its factor, their product and the expected value are rounded to 8 bits each.
    torch.testing.assert_close(leaf.grad, reference.grad.bfloat16(), rtol=4 * 2**-8, atol=1e-5)


@pytest.mark.parametrize(("classes", "margin"), [(2, 5.0), (300, 10.0), (8192, 14.0)])
@pytest.mark.parametrize("weight", [0.013, -3.0])
def test_sixteen_bit_gradients_are_rounded_once(classes, margin, weight):
    """Where the label is nearly certain (p = 0.993 to 0.998), p - 1 has no digit in common with a rounded p."""
    generator = torch.Generator().manual_seed(0)
    values, labels = torch.randn(200, classes, generator=generator), torch.randint(classes, (200,), generator=generator)
    values[torch.arange(200), labels] = margin
    leaf, truth = values.bfloat16().requires_grad_(), values.bfloat16().double().requires_grad_()
    (weight * cross_entropy(leaf * 1, labels)[0]).backward()
    (weight * functional.cross_entropy(truth, labels, reduction="sum")).backward()
    error = (leaf.grad.double() - truth.grad).abs() / truth.grad.abs()
    assert error.max() < 2**-8 * 1.001, "half of the last of 8 bits"
    gold = leaf.grad[torch.arange(200), labels]
    assert bool((gold * weight < 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ties_count_as_argmax_does(dtype):
    generator = torch.Generator().manual_seed(0)
    values = torch.randint(4, (1000, 6), generator=generator).to(dtype)
    labels = torch.randint(6, (1000,), generator=generator)
    expected = int((values.argmax(1) == labels).sum())
    highest = int((values.gather(1, labels[:, None]).squeeze(1) == values.amax(1)).sum())
    assert int(cross_entropy(values.clone(), labels)[1]) == expected < highest


def test_infinite_and_undefined_logits_are_not_hidden():
    logits = torch.zeros(3, 4)
    logits[1, 2] = float("nan")
    assert cross_entropy(logits, torch.zeros(3, dtype=torch.int64))[0].isnan()


def test_a_second_backward_pass_is_refused_since_the_logits_are_used_up():
    loss, _ = cross_entropy(torch.randn(5, 4, requires_grad=True) * 1, torch.zeros(5, dtype=torch.int64))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def arrays(rows: int = 3) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    lengths = np.array([5, 9, 3][:rows], dtype=np.int32)
    total = int(lengths.sum())
    return {
        "input_ids": generator.integers(1, 40, total, dtype=np.uint16),
        "token_type_ids": generator.integers(0, 2, total, dtype=np.uint8),
        "lengths": lengths,
        "masked_positions": np.array([1, 4], dtype=np.int32),
        "masked_labels": np.array([7, 30], dtype=np.uint16),
        "next_sentence_labels": np.array([0, 1, 1][:rows], dtype=np.uint8),
    }


def model() -> BertForPreTraining:
    torch.manual_seed(0)
    return BertForPreTraining(
        BertConfig(vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    ).eval()


def test_a_batch_of_any_integer_type_becomes_int64_tensors():
    source = arrays()
    for array in source.values():
        array.setflags(write=False)  # as a memory-mapped shard is
    batch = PreTrainingBatch.from_numpy(**source).to("cpu")
    assert batch.input_ids.tolist() == source["input_ids"].tolist()
    assert batch.layout.lengths.tolist() == [5, 9, 3]
    tensors = (batch.input_ids, batch.token_type_ids, batch.masked_positions, batch.masked_labels)
    assert {tensor.dtype for tensor in tensors} == {torch.int64}
    assert PreTrainingBatch.from_numpy(**source | {"next_sentence_labels": None}).next_sentence_labels is None
    assert batch.to("meta").masked_labels.device.type == "meta"


def test_arrays_that_contradict_each_other_are_refused():
    with pytest.raises(AssertionError, match="17 tokens, lengths sum to 14"):
        PreTrainingBatch.from_numpy(**arrays() | {"lengths": np.array([5, 9])})
    with pytest.raises(AssertionError, match="2 masked positions, 1 labels"):
        PreTrainingBatch.from_numpy(**arrays() | {"masked_labels": np.array([7])})


@pytest.mark.parametrize("name", ["mlm", "mlm_nsp", "mlm_sop"])
def test_sums_are_the_losses_of_all_predictions(name):
    batch, network = PreTrainingBatch.from_numpy(**arrays()), model()
    objective = build_objective(name, network)
    sums = objective(network, batch)
    mlm, nsp = network(batch.input_ids, batch.token_type_ids, batch.layout, batch.masked_positions)
    pairs = (nsp, batch.next_sentence_labels)
    expected = {"mlm": (mlm[: len(batch.masked_labels)], batch.masked_labels), "nsp": pairs, "sop": pairs}
    assert objective.counts(batch) == {term: part.count for term, part in sums.items()}
    assert list(sums) == name.split("_")
    for term, part in sums.items():
        logits, labels = expected[term]
        torch.testing.assert_close(part.loss_sum, functional.cross_entropy(logits, labels, reduction="sum"))
        assert int(part.correct) == int((logits.argmax(-1) == labels).sum())


def test_two_halves_add_up_to_the_whole_batch():
    whole, network = arrays(), model()
    halves = [
        {
            "input_ids": whole["input_ids"][:14],
            "token_type_ids": whole["token_type_ids"][:14],
            "lengths": whole["lengths"][:2],
            "masked_positions": whole["masked_positions"],
            "masked_labels": whole["masked_labels"],
            "next_sentence_labels": whole["next_sentence_labels"][:2],
        },
        {
            "input_ids": whole["input_ids"][14:],
            "token_type_ids": whole["token_type_ids"][14:],
            "lengths": whole["lengths"][2:],
            "masked_positions": np.array([], dtype=np.int32),  # nothing masked: a sum of 0, not NaN
            "masked_labels": np.array([], dtype=np.uint16),
            "next_sentence_labels": whole["next_sentence_labels"][2:],
        },
    ]
    objective = build_objective("mlm_nsp", network)
    parts = [objective(network, PreTrainingBatch.from_numpy(**half)) for half in halves]
    complete = objective(network, PreTrainingBatch.from_numpy(**whole))
    for term, sums in complete.items():
        torch.testing.assert_close(parts[0][term].loss_sum + parts[1][term].loss_sum, sums.loss_sum)
        assert parts[0][term].count + parts[1][term].count == sums.count


def test_what_is_compiled_for_other_devices_is_the_same() -> None:
    compiled = torch.compile(_of_all, backend="aot_eager", dynamic=True)
    for rows, classes in ((7, 30), (12, 30), (3, 9)):
        logits, labels = torch.randn(rows, classes), torch.randint(classes, (rows,))
        labels[-1] = -100  # fills up
        found, right = compiled(logits.clone().requires_grad_(), labels)
        loss, correct = cross_entropy(logits.clone(), labels[:-1])
        torch.testing.assert_close(found.detach(), loss)
        assert int(right) == int(correct)
