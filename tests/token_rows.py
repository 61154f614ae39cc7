"""Sequences of a made-up vocabulary, in which the ids from 140 on continue words."""

import numpy as np

from bertcore.tokens.tokenizer import Vocabulary

SIZE = 200
VOCABULARY = Vocabulary(
    SIZE, pad=0, unk=1, cls=2, sep=3, mask=4, special=np.arange(SIZE) < 5, continues=np.arange(SIZE) >= 140
)


def sequences(lengths: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of [CLS] pieces [SEP], laid end to end, and their offsets."""
    tokens = np.random.default_rng(seed).integers(5, SIZE, sum(lengths)).astype(np.uint16)
    offsets = np.cumsum([0, *lengths])
    tokens[offsets[:-1]], tokens[offsets[1:] - 1] = VOCABULARY.cls, VOCABULARY.sep
    return tokens, offsets


def keys(count: int, seed: int = 0) -> np.ndarray:
    """What decides the masks of `count` rows."""
    return np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64)
