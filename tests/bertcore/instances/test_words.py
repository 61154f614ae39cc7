"""Word boundaries against plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bertcore.instances.words import Words
from tests.token_rows import VOCABULARY

pieces = st.lists(st.sampled_from([0, 1, 2, 3, 4, 10, 11, 150, 151]), min_size=1, max_size=30)


def plain_words(tokens: list[int], start: int) -> list[tuple[int, int, int]]:
    """(start, length, words up to the end of the segment) of every word of a row that begins at `start`."""
    words: list[list[int]] = []
    segment = 0
    for index, token in enumerate(tokens):
        if VOCABULARY.special[token] and token != VOCABULARY.unk:
            segment += 1
        elif VOCABULARY.continues[token] and words and words[-1][0] + words[-1][1] == start + index:
            words[-1][1] += 1
        else:
            words.append([start + index, 1, segment])
    return [
        (first, length, sum(other[2] == own for other in words[rank:]))
        for rank, (first, length, own) in enumerate(words)
    ]


@given(st.lists(pieces, min_size=1, max_size=5))
def test_words_are_first_pieces_with_their_continuations(rows: list[list[int]]) -> None:
    rows = [[VOCABULARY.cls, *row, VOCABULARY.sep] for row in rows]
    offsets = np.cumsum([0, *map(len, rows)])
    words = Words.find(np.concatenate(rows), offsets, True, VOCABULARY)
    expected = [plain_words(row, int(start)) for row, start in zip(rows, offsets, strict=False)]
    found = list(zip(words.starts.tolist(), words.lengths.tolist(), words.rooms.tolist(), strict=True))
    assert found == [word for row in expected for word in row]
    assert words.counts.tolist() == list(map(len, expected))
    assert words.rows.tolist() == [index for index, row in enumerate(expected) for _ in row]
    assert (words.places + words.rooms <= words.counts[words.rows]).all()


def test_without_whole_every_maskable_piece_is_a_word() -> None:
    tokens = np.array([2, 10, 150, 1, 4, 151, 3])
    words = Words.find(tokens, np.array([0, 7]), False, VOCABULARY)
    assert words.starts.tolist() == [1, 2, 3, 5] and words.lengths.tolist() == [1, 1, 1, 1]
    assert words.places.tolist() == [0, 1, 2, 0]
