"""How the sentences of a shard become sequences: the ways by name, and RoBERTa's, which fill them with sentences."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bertcore.instances.config import MaskConfig
from bertcore.instances.packed import Packed
from bertcore.instances.pairing import draw_pairs, draw_sentence_order
from bertcore.tokens.shards import TokenShard


def pack_sentences(shard: TokenShard, sequence_length: int, across_documents: bool) -> Packed:
    """Contiguous whole sentences, as many as fit into each sequence (Liu et al. 2019, section 4.2).

    `across_documents`: FULL-SENTENCES, where a sequence goes on into the next documents of the shard, with a [SEP]
    between two; else DOC-SENTENCES, where it ends with its document. Nothing is drawn, and nothing lost: a sentence
    that is longer than a sequence is continued in the next one.
    """
    budget = sequence_length - 2  # [CLS] and the last [SEP]
    sentences, documents = _split_long(shard, budget)
    document = np.repeat(np.arange(len(documents) - 1), np.diff(documents))
    # From sentence i to the end of sentence j a sequence has text[j + 1] - text[i] tokens, and a [SEP] more for every
    # document it enters: both ends grow with their index, so the last j that fits is found by bisection.
    costs_to_end = sentences[1:] + document
    following = np.searchsorted(costs_to_end, sentences[:-1] + document + budget, side="right")
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


def _split_long(shard: TokenShard, budget: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sentence and document offsets with every sentence of more than `budget` tokens as several."""
    sentences = shard.sentence_offsets.astype(np.int64)
    parts = -(-np.diff(sentences) // budget)
    first = np.concatenate([[0], np.cumsum(parts)])
    within = np.arange(first[-1]) - np.repeat(first[:-1], parts)
    pieces = np.append(np.repeat(sentences[:-1], parts) + within * budget, sentences[-1])
    return pieces, first[shard.document_offsets]


def _chain(following: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, following[0], following[following[0]] … up to the end."""
    steps = following.tolist()
    chain = [0]
    while chain[-1] < len(steps):
        chain.append(steps[chain[-1]])
    return np.array(chain)


Pack = Callable[[TokenShard, MaskConfig, tuple[int | str, ...]], Packed]
"""Of a shard, a config and the key of the draws (seed, length, epoch, shard name)."""

PACKINGS: dict[str, Pack] = {
    "pairs": lambda shard, config, key: draw_pairs(shard, config.sequence_length, config.short_seq_prob, *key).packed,
    "sentence_order": lambda shard, config, key: (
        draw_sentence_order(shard, config.sequence_length, config.short_seq_prob, *key).packed
    ),
    "full_sentences": lambda shard, config, key: pack_sentences(shard, config.sequence_length, True),
    "doc_sentences": lambda shard, config, key: pack_sentences(shard, config.sequence_length, False),
}
