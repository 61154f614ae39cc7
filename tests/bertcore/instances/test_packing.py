"""FULL-SENTENCES and DOC-SENTENCES against plain Python, and the layout of every packing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcore.instances.config import MaskConfig, Packing
from bertcore.instances.packed import lay_out
from bertcore.instances.packing import PACKINGS
from bertcore.shards.store import TokenShard
from tests.token_rows import VOCABULARY

texts = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=12), min_size=1, max_size=8)


def shard_of(documents: list[list[int]]) -> TokenShard:
    """Documents with sentences of the given lengths; the ids count up, so that neighbours differ."""
    lengths = [length for document in documents for length in document]
    return TokenShard(
        tokens=(5 + np.arange(sum(lengths)) % 190).astype(np.uint16),
        sentence_offsets=np.cumsum([0, *lengths]).astype(np.int32),
        document_offsets=np.cumsum([0, *map(len, documents)]).astype(np.int32),
    )


def plain_packing(documents: list[list[int]], length: int, across: bool) -> list[list[list[int]]]:
    """Sequences as lists of segments of token numbers, one sentence after the other."""
    rows: list[list[list[int]]] = [[]]
    number = 0
    for document in documents:
        fresh = True
        for size in document:
            for part in range(0, size, length - 2):
                sentence = list(range(number + part, number + min(part + length - 2, size)))
                used = 1 + sum(len(segment) + 1 for segment in rows[-1])
                if used + len(sentence) + (fresh or not rows[-1]) > length or (fresh and not across):
                    rows.append([])
                if fresh or not rows[-1]:
                    rows[-1].append([])
                rows[-1][-1] += sentence
                fresh = False
            number += size
    return [row for row in rows if row]


@settings(max_examples=150)
@given(texts, st.sampled_from([8, 16, 64, 512]), st.booleans())
def test_sentences_are_packed_as_plain_python_packs_them(documents: list[list[int]], length: int, across: bool) -> None:
    shard = shard_of(documents)
    packing: Packing = "full_sentences" if across else "doc_sentences"
    packed = PACKINGS[packing](shard, MaskConfig(sequence_length=length, packing=packing), VOCABULARY, ())
    expected = plain_packing(documents, length, across)
    found = [
        [list(range(start, end)) for start, end in zip(packed.starts[first:last], packed.ends[first:last], strict=True)]
        for first, last in zip(packed.row_offsets[:-1], packed.row_offsets[1:], strict=True)
    ]
    assert found == expected
    assert [number for row in found for segment in row for number in segment] == list(range(len(shard.tokens)))

    laid_out = lay_out([shard.tokens], np.array([0, len(packed)]), packed, VOCABULARY)
    rows = [
        [VOCABULARY.cls] + [token for segment in row for token in [*shard.tokens[segment].tolist(), VOCABULARY.sep]]
        for row in expected
    ]
    assert laid_out.tokens.tolist() == [token for row in rows for token in row]
    assert laid_out.segment_a_lengths.tolist() == list(map(len, rows)) and max(map(len, rows)) <= length


@pytest.mark.parametrize("packing", PACKINGS)
def test_rows_are_laid_out_alike_in_any_order_and_within_the_length(packing: str) -> None:
    generator = np.random.default_rng(0)
    shard = shard_of([generator.integers(1, 30, generator.integers(1, 20)).tolist() for _ in range(40)])
    packed = PACKINGS[packing](shard, MaskConfig(sequence_length=48, packing=packing), VOCABULARY, (1, 2, 3))
    rows = generator.permutation(len(packed))
    bounds = np.array([0, len(packed)])
    whole, mixed = (lay_out([shard.tokens], bounds, part, VOCABULARY) for part in (packed, packed.take(rows)))
    assert np.diff(whole.offsets).max() <= 48
    for place, row in enumerate(rows):
        ours = mixed.tokens[mixed.offsets[place] : mixed.offsets[place + 1]]
        theirs = whole.tokens[whole.offsets[row] : whole.offsets[row + 1]]
        np.testing.assert_array_equal(ours, theirs)
        assert mixed.segment_a_lengths[place] == whole.segment_a_lengths[row]
        assert (theirs[0], theirs[-1]) == (VOCABULARY.cls, VOCABULARY.sep)
        assert theirs[whole.segment_a_lengths[row] - 1] == VOCABULARY.sep
    assert (packed.labels is None) == (packing in ("full_sentences", "doc_sentences"))


@pytest.mark.parametrize("packing", PACKINGS)
def test_pairs_of_a_family_with_two_separators_are_laid_out_as_its_tokenizer_does(packing: Packing) -> None:
    """As RoBERTa's: <s> A </s></s> B </s>, and one </s> between documents."""
    shard = shard_of([[7, 9, 4, 12, 3], [5, 5], [30, 8, 2]])
    other = replace(VOCABULARY, separators=2, segment_ids=False)
    config = MaskConfig(sequence_length=32, packing=packing)
    packed = PACKINGS[packing](shard, config, other, (1, 2, 3))
    found = lay_out([shard.tokens], np.array([0, len(packed)]), packed, other)
    assert len(packed) and np.diff(found.offsets).max() <= 32
    assert found.segment_a_lengths.tolist() == np.diff(found.offsets).tolist()
    for row in range(len(packed)):
        segments = range(packed.row_offsets[row], packed.row_offsets[row + 1])
        texts = [shard.tokens[packed.starts[each] : packed.ends[each]].tolist() for each in segments]
        if packed.labels is not None:
            expected = other.sequence(*texts)[0].tolist()
        else:
            expected = [other.cls, *(token for text in texts for token in (*text, other.sep))]
        assert found.tokens[found.offsets[row] : found.offsets[row + 1]].tolist() == expected
