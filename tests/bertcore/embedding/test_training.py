"""Gradient caching gives the gradients of the whole batch, and a training the same bits again."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bertcore.embedding.caching import backward
from bertcore.embedding.config import EmbedConfig
from bertcore.embedding.pairs import Pair
from bertcore.embedding.training import ContrastiveTraining, batches
from bertcore.errors import TrainingError
from bertcore.model.modernbert import ModernBertModel
from bertcore.training.machine import make_accelerator
from tests.samples import sentences, tokenizer

CONFIG = EmbedConfig(pairs="neighbours", batch_size=12, chunk_size=5, dimensions=[8], learning_rate=1e-3, epochs=3)


def pairs() -> list[Pair]:
    texts = list(dict.fromkeys(sentences(300, seed=7)))
    couples = zip(texts[:40], texts[40:80], strict=True)
    return [Pair(first, second, (texts[80 + n],) if n % 3 == 0 else ()) for n, (first, second) in enumerate(couples)]


def training(model: ModernBertModel, config: EmbedConfig = CONFIG) -> ContrastiveTraining:
    return ContrastiveTraining(model, tokenizer(), pairs(), config, make_accelerator())


def gradients(model: ModernBertModel) -> dict[str, Tensor]:
    found = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    model.zero_grad()
    return found


def test_cached_gradients_are_those_of_the_whole_batch(model: ModernBertModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with dropout: each chunk is computed twice with one mask, else both would differ."""
    rows = np.arange(12)
    model.train()
    cached_loss = training(model).backward(3, rows)
    cached = gradients(model)

    def whole(encode, chunks, loss):  # as `backward`, with all activations kept
        value = loss(torch.cat([encode(chunk) for chunk in range(chunks)]))
        value.backward()
        return value.detach()

    monkeypatch.setattr("bertcore.embedding.training.backward", whole)
    whole_loss = training(model).backward(3, rows)
    expected = gradients(model)
    assert cached_loss == whole_loss and cached.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(cached[name], gradient, rtol=1e-4, atol=1e-6 * float(gradient.abs().max()))
    training(model).backward(4, rows)
    assert any(not torch.allclose(gradient, expected[name], rtol=1e-2) for name, gradient in gradients(model).items())


def test_texts_that_do_not_fit_into_memory_are_told_with_the_remedy(
    model: ModernBertModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(model, "hidden_states", full)
    with pytest.raises(TrainingError, match="step 3: 5 texts at once do not fit into the memory; set embed.chunk_size"):
        training(model).backward(3, np.arange(12))


def test_chunks_of_any_size_give_the_gradient_of_one() -> None:
    inputs = torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = []
    for size in (7, 3, 1):
        layer = torch.nn.Linear(4, 3, dtype=torch.float64)
        torch.nn.init.constant_(layer.weight, 0.3)
        torch.nn.init.zeros_(layer.bias)
        parts = inputs.split(size)
        backward(
            lambda chunk, parts=parts, layer=layer: functional.tanh(layer(parts[chunk])),
            len(parts),
            lambda vectors: (vectors @ vectors.T).exp().sum().log(),
        )
        assert layer.weight.grad is not None
        found.append(layer.weight.grad)
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])


def test_a_training_learns_and_repeats_its_bits(model: ModernBertModel) -> None:
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = []
    for seed in (1, 1, 2):
        model.load_state_dict(start)
        losses: list[float] = []
        run = ContrastiveTraining(
            model,
            tokenizer(),
            pairs(),
            dataclasses.replace(CONFIG, seed=seed, max_steps=12, learning_rate=5e-3),
            make_accelerator(),
            lambda step, metrics, losses=losses: losses.append(metrics["train/loss"]),
        )
        torch.rand(seed)  # what was drawn before changes nothing
        run.run("test")
        assert run.steps == len(losses) == 12 and not model.training
        found.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        assert np.mean(losses[-3:]) < 0.9 * np.mean(losses[:3])
    assert all(torch.equal(found[0][name], found[1][name]) for name in start)
    assert any(not torch.equal(found[0][name], found[2][name]) for name in start)


def test_batches_are_of_one_size_and_epochs_of_other_orders() -> None:
    config = EmbedConfig(batch_size=8, epochs=2)
    found = batches(20, config)
    assert [len(rows) for rows in found] == [8] * 4
    assert len({*np.concatenate(found[:2]).tolist()}) == 16 and not np.array_equal(found[0], found[2])
    assert [len(rows) for rows in batches(5, config)] == [5, 5]
    assert len(batches(20, dataclasses.replace(config, max_steps=7))) == 7


def test_what_cannot_be_trained_is_said(model: ModernBertModel) -> None:
    with pytest.raises(ValueError, match="dimensions: found 32, expected less than the 32 numbers"):
        training(model, dataclasses.replace(CONFIG, dimensions=[16, 32]))
    with torch.no_grad():
        model.final_norm.weight.fill_(torch.nan)
    with pytest.raises(TrainingError, match=r"step 1: found loss nan .* lower embed\.learning_rate"):
        training(model).run("test")
