"""The chain against a search over all chains of tags."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertcore.finetune import crf
from bertcore.finetune.crf import LinearChain


def drawn(lengths: list[int], tags: int, seed: int) -> tuple[LinearChain, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    chain = LinearChain(tags)
    for parameter in chain.parameters():
        torch.nn.init.normal_(parameter, std=2.0, generator=generator)
    emissions = torch.randn(sum(lengths), tags, generator=generator)
    return chain, emissions, torch.randint(tags, (sum(lengths),), generator=generator)


@torch.no_grad()
def score(chain: LinearChain, emissions: Tensor, tags: tuple[int, ...]) -> float:
    own = sum(float(emissions[place, tag]) for place, tag in enumerate(tags))
    pairs = sum(float(chain.transitions[a, b]) for a, b in zip(tags, tags[1:], strict=False))
    return own + pairs + float(chain.start[tags[0]] + chain.end[tags[-1]])


@settings(max_examples=30)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 1000))
def test_loss_and_best_chain_are_those_of_all_chains(lengths: list[int], tags: int, seed: int) -> None:
    chain, emissions, gold = drawn(lengths, tags, seed)
    sizes = torch.tensor(lengths)
    expected, best = 0.0, []
    for own, right in zip(emissions.split(lengths), gold.split(lengths), strict=True):
        scores = {each: score(chain, own, each) for each in product(range(tags), repeat=len(own))}
        expected += float(torch.tensor(list(scores.values())).logsumexp(0)) - scores[tuple(right.tolist())]
        best += max(scores, key=lambda each: scores[each])
    torch.testing.assert_close(chain.loss(emissions, gold, sizes).item(), expected, atol=1e-4, rtol=1e-4)
    assert chain.best(emissions, sizes).tolist() == best


def test_sentences_of_any_lengths_are_decoded_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [3, 1, 40, 2, 2, 17, 1, 5]
    chain, emissions, _ = drawn(lengths, 5, 1)
    alone = [chain.best(each, torch.tensor([len(each)])) for each in emissions.split(lengths)]
    for most in (1, 10, 1 << 16):
        monkeypatch.setattr(crf, "_PLACES_AT_ONCE", most)
        assert torch.equal(chain.best(emissions, torch.tensor(lengths)), torch.cat(alone))
    monkeypatch.setattr(crf, "_PLACES_AT_ONCE", 10)
    assert list(crf._of_similar_length(lengths)) == [[1, 6, 3, 4], [0, 7], [5], [2]]


def test_untrained_chain_is_a_softmax_of_each_word_and_its_gradient_is_sound() -> None:
    lengths = [3, 1, 5]
    chain, (_, emissions, gold) = LinearChain(4), drawn(lengths, 4, 1)
    expected = torch.nn.functional.cross_entropy(emissions, gold, reduction="sum")
    torch.testing.assert_close(chain.loss(emissions, gold, torch.tensor(lengths)), expected)
    assert torch.equal(chain.best(emissions, torch.tensor(lengths)), emissions.argmax(1))
    double, values = LinearChain(4).double(), emissions.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda each: double.loss(each, gold, torch.tensor(lengths)), values)


def test_scores_come_back_from_the_config_exactly() -> None:
    chain, _, _ = drawn([1], 5, 3)
    again = LinearChain.from_config(chain.to_config())
    assert all(torch.equal(a, b) for a, b in zip(chain.parameters(), again.parameters(), strict=True))
