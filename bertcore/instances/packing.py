"""How the sentences of a shard become sequences, as ranges of its tokens.

BERT's sentence pairs (create_pretraining_data.py of google-research/bert), ALBERT's sentence order, and RoBERTa's FULL-
and DOC-SENTENCES. Sentences of a document lie side by side in a shard, so both segments of a pair are contiguous ranges
of it: a pair is four offsets and a label, and drawing one costs two binary searches, however many sentences it holds.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore import draws
from bertcore.instances.config import MaskConfig, Packing
from bertcore.instances.packed import Packed
from bertcore.ragged import offsets_of
from bertcore.shards.store import TokenShard
from bertcore.tokens.tokenizer import Vocabulary

IS_NEXT, IS_RANDOM = 0, 1
IN_ORDER, IS_SWAPPED = 0, 1

Key = tuple[int | str, ...]
"""Of the draws: seed, length, epoch and shard name."""

Rows = list[int]
"""For each pair six numbers: start and end of A, of B, the label, and whether it was drawn with probability 0.5 (or had
to be). One flat list: as many tuples would take twice as long to become an array."""

Walk = Callable[[TokenShard, int, float, Callable[[], float]], tuple[Rows, int]]


def _draw(name: str, walk: Walk, shard: TokenShard, config: MaskConfig, vocabulary: Vocabulary, key: Key) -> Packed:
    """The pairs of every document of `shard`: a pure function of the shard, the config and `key`.

    For each document one target length is drawn: the `room` of tokens that a sequence has beside its special ones, or
    with `short_seq_prob` uniform in [2, room]. Up to it `walk` collects sentences; what is longer than `room` is cut.
    """
    room = config.sequence_length - vocabulary.special_per_pair
    generator = np.random.Generator(np.random.Philox(draws.key(name, *key)))
    rows, left_out = walk(shard, room, config.short_seq_prob, _stream(generator))
    a_start, a_end, b_start, b_end, label, free = np.array(rows, np.int64).reshape(-1, 6).T.copy()
    cut_a, cut_b = _cuts(a_end - a_start, b_end - b_start, room)
    front_a, front_b = generator.binomial(cut_a, 0.5), generator.binomial(cut_b, 0.5)
    return Packed(
        starts=np.stack([a_start + front_a, b_start + front_b], axis=1).ravel(),
        ends=np.stack([a_end - (cut_a - front_a), b_end - (cut_b - front_b)], axis=1).ravel(),
        row_offsets=np.arange(len(label) + 1) * 2,
        labels=label.astype(np.int8),
        free=free.astype(bool),
        truncated_tokens=int(cut_a.sum() + cut_b.sum()),
        left_out_tokens=left_out,
    )


def _walk_pairs(shard: TokenShard, room: int, short_seq_prob: float, draw: Callable[[], float]) -> tuple[Rows, int]:
    """BERT's pairs before truncation, and the tokens left out.

    Segment A ends after a uniform number of the collected sentences; B is the rest, or with probability 0.5 (always,
    where there is no rest) the text from a random sentence of another document, and the unused sentences are put back.
    A shard of one document has no other document: there every pair is a true one, and a chunk of a single sentence is
    left out.
    """
    offsets: list[int] = shard.sentence_offsets.tolist()
    documents: list[int] = shard.document_offsets.tolist()
    count = len(documents) - 1
    rows: Rows = []
    left_out = 0
    for document in range(count):
        start, stop = documents[document], documents[document + 1]
        target = 2 + int(draw() * (room - 1)) if draw() < short_seq_prob else room
        while start < stop:
            end = bisect_left(offsets, offsets[start] + target, start + 1, stop)
            middle = start + 1 + int(draw() * (end - start - 1)) if end - start > 1 else end
            free = count > 1 and middle < end
            if count > 1 and (middle == end or draw() < 0.5):
                other = int(draw() * (count - 1))
                other += other >= document
                first, last = documents[other], documents[other + 1]
                b_first = first + int(draw() * (last - first))
                wanted = offsets[b_first] + target - (offsets[middle] - offsets[start])
                b_stop = bisect_left(offsets, wanted, b_first + 1, last)
                rows += offsets[start], offsets[middle], offsets[b_first], offsets[b_stop], IS_RANDOM, free
                start = middle
                continue
            if middle < end:
                rows += offsets[start], offsets[middle], offsets[middle], offsets[end], IS_NEXT, free
            else:
                left_out += offsets[end] - offsets[start]
            start = end
    return rows, left_out


def _walk_order(shard: TokenShard, room: int, short_seq_prob: float, draw: Callable[[], float]) -> tuple[Rows, int]:
    """ALBERT's pairs (Lan et al. 2019, section 3.1): two parts of the same document side by side, swapped with p 0.5.

    Chunks and the end of A are drawn as by `_walk_pairs`, but a chunk has two sentences at least; a last sentence
    that is alone is left out.
    """
    offsets: list[int] = shard.sentence_offsets.tolist()
    documents: list[int] = shard.document_offsets.tolist()
    rows: Rows = []
    left_out = 0
    for start, stop in zip(documents[:-1], documents[1:], strict=True):
        target = 2 + int(draw() * (room - 1)) if draw() < short_seq_prob else room
        while start < stop - 1:
            end = bisect_left(offsets, offsets[start] + target, start + 2, stop)
            middle = start + 1 + int(draw() * (end - start - 1))
            first, second = (offsets[start], offsets[middle]), (offsets[middle], offsets[end])
            rows += (*second, *first, IS_SWAPPED, True) if draw() < 0.5 else (*first, *second, IN_ORDER, True)
            start = end
        left_out += offsets[stop] - offsets[start]
    return rows, left_out


def _stream(generator: np.random.Generator) -> Any:
    """`generator.random()` one at a time, drawn in blocks: ten times faster than a call for each number."""

    def numbers() -> Any:
        while True:
            yield from generator.random(4096).tolist()

    return numbers().__next__


def _cuts(
    length_a: NDArray[np.int64], length_b: NDArray[np.int64], room: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many tokens each segment loses when the longer one is shortened by one until both fit (a tie shortens B)."""
    over = np.maximum(length_a + length_b - room, 0)
    lead = np.minimum(np.abs(length_a - length_b), over)
    rest = over - lead
    longer_a = length_a > length_b
    cut_a = np.where(longer_a, lead, 0) + rest // 2
    cut_b = np.where(longer_a, 0, lead) + (rest + 1) // 2
    return cut_a, cut_b


def _pack_sentences(
    across_documents: bool, shard: TokenShard, config: MaskConfig, vocabulary: Vocabulary, _: Key
) -> Packed:
    """Contiguous whole sentences, as many as fit into the `room` of tokens that each sequence has beside the special
    ones at its ends (Liu et al. 2019, section 4.2).

    `across_documents`: FULL-SENTENCES, where a sequence goes on into the next documents of the shard, with a separator
    between two; else DOC-SENTENCES, where it ends with its document. Nothing is drawn, and nothing lost: a sentence
    that is longer than a sequence is continued in the next one.
    """
    room = config.sequence_length - vocabulary.special_per_text
    sentences, documents = _split_long(shard, room)
    document = np.repeat(np.arange(len(documents) - 1), np.diff(documents))
    # From sentence i to the end of sentence j a sequence has text[j + 1] - text[i] tokens, and a separator more for
    # every document it enters: both ends grow with their index, so the last j that fits is found by bisection.
    costs_to_end = sentences[1:] + document
    following = np.searchsorted(costs_to_end, sentences[:-1] + document + room, side="right")
    if not across_documents:
        following = np.minimum(following, documents[document + 1])
    assert (following > np.arange(len(following))).all(), "a sequence without a sentence"
    rows = _chain(following)
    cuts = np.union1d(rows, documents) if across_documents else rows
    tokens = sentences[cuts].astype(np.int64)
    return Packed(
        starts=tokens[:-1],
        ends=tokens[1:],
        row_offsets=np.searchsorted(cuts, rows),
        labels=None,
        free=None,
        truncated_tokens=0,
        left_out_tokens=0,
    )


def _split_long(shard: TokenShard, room: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sentence and document offsets with every sentence of more than `room` tokens as several."""
    sentences = shard.sentence_offsets.astype(np.int64)
    parts = -(-np.diff(sentences) // room)
    first = offsets_of(parts)
    within = np.arange(first[-1]) - np.repeat(first[:-1], parts)
    pieces = np.append(np.repeat(sentences[:-1], parts) + within * room, sentences[-1])
    return pieces, first[shard.document_offsets]


def _chain(following: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, following[0], following[following[0]] … up to the end."""
    steps = following.tolist()
    chain = [0]
    while chain[-1] < len(steps):
        chain.append(steps[chain[-1]])
    return np.array(chain)


PACKINGS: dict[Packing, Callable[[TokenShard, MaskConfig, Vocabulary, Key], Packed]] = {
    "pairs": partial(_draw, "pairs", _walk_pairs),
    "sentence_order": partial(_draw, "sentence order", _walk_order),
    "full_sentences": partial(_pack_sentences, True),
    "doc_sentences": partial(_pack_sentences, False),
}
