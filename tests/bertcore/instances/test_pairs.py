"""Pairs against the published procedure, step by step, and against what must hold for any of them; sentence order."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from bertcore.instances.config import MaskConfig, Packing
from bertcore.instances.packed import Packed
from bertcore.instances.packing import IS_NEXT, IS_RANDOM, IS_SWAPPED, PACKINGS, _cuts
from bertcore.shards.store import TokenShard
from tests.token_rows import VOCABULARY


def shard_of(documents: list[list[int]]) -> TokenShard:
    """A shard whose documents have sentences of the given lengths; token i is the number i."""
    lengths = [length for document in documents for length in document]
    return TokenShard(
        tokens=np.arange(sum(lengths), dtype=np.uint32),
        sentence_offsets=np.cumsum([0, *lengths]).astype(np.int32),
        document_offsets=np.cumsum([0, *map(len, documents)]).astype(np.int32),
    )


@dataclass(frozen=True)
class Pairs(Packed):
    """With the segments by their names."""

    @property
    def a_start(self) -> NDArray[np.int64]:
        return self.starts[::2]

    @property
    def a_end(self) -> NDArray[np.int64]:
        return self.ends[::2]

    @property
    def b_start(self) -> NDArray[np.int64]:
        return self.starts[1::2]

    @property
    def b_end(self) -> NDArray[np.int64]:
        return self.ends[1::2]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self.a_end - self.a_start + self.b_end - self.b_start


def _pairs(packing: Packing, shard: TokenShard, sequence_length: int, short_seq_prob: float, *key: int | str) -> Any:
    config = MaskConfig(sequence_length=sequence_length, packing=packing, short_seq_prob=short_seq_prob)
    return Pairs(**vars(PACKINGS[packing](shard, config, VOCABULARY, key)))


texts = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=15), min_size=2, max_size=8)


@settings(max_examples=60)
@given(texts, st.integers(0, 10**6), st.sampled_from([16, 64, 128]))
def test_every_pair_obeys_the_rules(documents: list[list[int]], seed: int, sequence_length: int) -> None:
    shard = shard_of(documents)
    pairs = _pairs("pairs", shard, sequence_length, 0.1, seed)
    bounds = shard.sentence_offsets[shard.document_offsets]
    owner_a = np.searchsorted(bounds, pairs.a_start, side="right")
    owner_b = np.searchsorted(bounds, pairs.b_start, side="right")

    assert (pairs.a_end > pairs.a_start).all() and (pairs.b_end > pairs.b_start).all()
    assert (pairs.lengths <= sequence_length - 3).all()
    assert (np.searchsorted(bounds, pairs.a_end - 1, side="right") == owner_a).all()
    assert (np.searchsorted(bounds, pairs.b_end - 1, side="right") == owner_b).all()
    true = pairs.labels == IS_NEXT
    assert (owner_a[true] == owner_b[true]).all() and (pairs.b_start[true] >= pairs.a_end[true]).all()
    assert (owner_a[~true] != owner_b[~true]).all()


@settings(max_examples=30)
@given(texts, st.integers(0, 10**6))
def test_without_truncation_every_sentence_is_used_once_in_its_own_place(documents: list[list[int]], seed: int) -> None:
    shard = shard_of(documents)
    pairs = _pairs("pairs", shard, 4096, 0.0, seed)
    used = np.zeros(len(shard.tokens), int)
    for row in range(len(pairs)):
        used[pairs.a_start[row] : pairs.a_end[row]] += 1
        if pairs.labels[row] == IS_NEXT:
            used[pairs.b_start[row] : pairs.b_end[row]] += 1
    assert (used == 1).all() and pairs.left_out_tokens == 0


@settings(max_examples=60)
@given(texts, st.integers(0, 10**6), st.sampled_from([16, 64, 4096]))
def test_sentence_order_is_two_neighbouring_parts_of_one_document(
    documents: list[list[int]], seed: int, sequence_length: int
) -> None:
    shard = shard_of(documents)
    pairs = _pairs("sentence_order", shard, sequence_length, 0.1, seed)
    swapped = pairs.labels == IS_SWAPPED
    bounds = shard.sentence_offsets[shard.document_offsets]
    owners = [np.searchsorted(bounds, starts, side="right") for starts in (pairs.a_start, pairs.b_start)]
    np.testing.assert_array_equal(*owners)
    assert (np.where(swapped, pairs.b_end <= pairs.a_start, pairs.a_end <= pairs.b_start)).all()
    assert (pairs.a_end > pairs.a_start).all() and (pairs.b_end > pairs.b_start).all()
    assert (pairs.lengths <= sequence_length - 3).all() and pairs.free.all()

    used = np.zeros(len(shard.tokens), int)
    for start, end in zip(pairs.starts, pairs.ends, strict=True):
        used[start:end] += 1
    assert used.max() <= 1
    assert (used == 0).sum() == pairs.truncated_tokens + pairs.left_out_tokens
    if sequence_length == 4096:  # nothing is cut, so a part ends where the other begins, at the end of a sentence
        assert (np.where(swapped, pairs.b_end == pairs.a_start, pairs.a_end == pairs.b_start)).all()
        assert pairs.truncated_tokens == 0 and np.isin(pairs.starts, shard.sentence_offsets).all()


def test_half_of_the_sentence_orders_are_swapped_whatever_their_length() -> None:
    generator = np.random.default_rng(2)
    shard = shard_of([generator.integers(3, 45, 20).tolist() for _ in range(2000)])
    pairs = _pairs("sentence_order", shard, 128, 0.1, 7)
    swapped = pairs.labels == IS_SWAPPED
    assert stats.binomtest(int(swapped.sum()), len(pairs), 0.5).pvalue > 1e-4
    assert stats.ks_2samp(pairs.lengths[swapped], pairs.lengths[~swapped]).pvalue > 1e-4


def test_a_label_without_a_choice_is_not_called_free() -> None:
    pairs = _pairs("pairs", shard_of([[10]] * 30), 64, 0.0, 1)
    assert (pairs.labels == IS_RANDOM).all() and not pairs.free.any()
    longer = _pairs("pairs", shard_of([[10, 10, 10, 10]] * 5000), 64, 0.0, 1)
    assert not longer.free.all()
    assert stats.binomtest(int(longer.labels[longer.free].sum()), int(longer.free.sum())).pvalue > 1e-4
    assert (longer.labels[~longer.free] == IS_RANDOM).all()


def test_the_same_key_draws_the_same_pairs_and_another_key_others() -> None:
    shard = shard_of([[7, 9, 4, 30, 12, 8]] * 20)
    first, again, other = (_pairs("pairs", shard, 64, 0.1, *key) for key in ((1, 0, "a"), (1, 0, "a"), (1, 1, "a")))
    np.testing.assert_array_equal(first.a_start, again.a_start)
    np.testing.assert_array_equal(first.b_end, again.b_end)
    assert len(first) != len(other) or (first.b_start != other.b_start).any()


def test_a_single_document_gives_true_pairs_only() -> None:
    pairs = _pairs("pairs", shard_of([[10] * 40]), 64, 0.1, 1)
    assert len(pairs) and (pairs.labels == IS_NEXT).all() and not pairs.free.any()
    alone = _pairs("pairs", shard_of([[10]]), 64, 0.1, 1)
    assert len(alone) == 0 and alone.left_out_tokens == 10


@given(st.integers(1, 60), st.integers(1, 60), st.integers(2, 60))
def test_cuts_equal_shortening_the_longer_segment_token_by_token(length_a: int, length_b: int, budget: int) -> None:
    kept_a, kept_b = length_a, length_b
    while kept_a + kept_b > budget:
        if kept_a > kept_b:
            kept_a -= 1
        else:
            kept_b -= 1
    cut_a, cut_b = _cuts(np.array([length_a]), np.array([length_b]), budget)
    assert (length_a - cut_a[0], length_b - cut_b[0]) == (kept_a, kept_b)


def reference_pairs(
    documents: list[list[int]], budget: int, short: float, rng: random.Random
) -> list[tuple[int, int, int]]:
    """The published procedure in plain Python, on sentence lengths: (length of A, length of B, label) of every pair."""
    rows = []
    for index, document in enumerate(documents):
        target = rng.randint(2, budget) if rng.random() < short else budget
        chunk: list[int] = []
        position = 0
        while position < len(document):
            chunk.append(document[position])
            if position == len(document) - 1 or sum(chunk) >= target:
                a_end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
                a, b = sum(chunk[:a_end]), 0
                label = int(len(chunk) == 1 or rng.random() < 0.5)
                if label == IS_RANDOM:
                    other = index
                    while other == index:
                        other = rng.randint(0, len(documents) - 1)
                    for sentence in documents[other][rng.randint(0, len(documents[other]) - 1) :]:
                        b += sentence
                        if b >= target - a:
                            break
                    position -= len(chunk) - a_end
                else:
                    b = sum(chunk[a_end:])
                while a + b > budget:
                    a, b = (a - 1, b) if a > b else (a, b - 1)
                rows.append((a, b, label))
                chunk = []
            position += 1
    return rows


@pytest.mark.parametrize("sequence_length", [32, 128])
def test_lengths_and_labels_are_distributed_as_the_published_procedure_draws_them(sequence_length: int) -> None:
    generator = np.random.default_rng(5)
    documents = [generator.integers(3, 45, generator.integers(1, 40)).tolist() for _ in range(1500)]
    ours = _pairs("pairs", shard_of(documents), sequence_length, 0.1, 3)
    theirs = np.array(reference_pairs(documents, sequence_length - 3, 0.1, random.Random(3)))
    samples = (
        (ours.a_end - ours.a_start, theirs[:, 0]),
        (ours.b_end - ours.b_start, theirs[:, 1]),
        (ours.labels, theirs[:, 2]),
    )
    assert abs(len(ours) - len(theirs)) < 0.03 * len(theirs)
    for own, reference in samples:
        error = np.hypot(own.std() / len(own) ** 0.5, reference.std() / len(reference) ** 0.5)
        assert abs(own.mean() - reference.mean()) < 5 * error
        assert abs(own.std() - reference.std()) < 0.05 * reference.std()
