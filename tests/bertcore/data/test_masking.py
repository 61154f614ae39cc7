"""Masking against the reference's rules, as properties of any input and as rates of a large one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bertcore.data.masking import MaskingRule, mask
from bertcore.data.shards import Vocabulary

SIZE = 200
VOCABULARY = Vocabulary(
    SIZE, pad=0, unk=1, cls=2, sep=3, mask=4, special=np.arange(SIZE) < 5, continues=np.zeros(SIZE, bool)
)
RULE = MaskingRule(masked_lm_prob=0.15, max_predictions_per_seq=20)


def sequences(lengths: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of [CLS] words [SEP], laid end to end, and their offsets."""
    words = np.random.default_rng(seed).integers(5, SIZE, sum(lengths)).astype(np.uint16)
    offsets = np.cumsum([0, *lengths])
    words[offsets[:-1]], words[offsets[1:] - 1] = VOCABULARY.cls, VOCABULARY.sep
    return words, offsets


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(2, 128), min_size=1, max_size=12), st.integers(0, 2**63), st.floats(0.01, 0.9))
def test_counts_positions_and_labels(lengths: list[int], key: int, probability: float) -> None:
    tokens, offsets = sequences(lengths)
    rule = MaskingRule(masked_lm_prob=probability, max_predictions_per_seq=20)
    masked = mask(tokens, offsets, np.arange(len(lengths)), key, rule, VOCABULARY)

    expected = [min(20, max(1, round(length * probability)), length - 2) for length in lengths]
    assert masked.counts.tolist() == expected
    assert (np.diff(masked.positions) > 0).all()
    np.testing.assert_array_equal(masked.labels, tokens[masked.positions])
    assert not VOCABULARY.special[masked.labels].any()
    untouched = np.ones(len(tokens), bool)
    untouched[masked.positions] = False
    np.testing.assert_array_equal(masked.tokens[untouched], tokens[untouched])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(3, 60), min_size=2, max_size=20), st.integers(0, 2**63), st.data())
def test_a_row_is_masked_the_same_in_any_company(lengths: list[int], key: int, data: st.DataObject) -> None:
    tokens, offsets = sequences(lengths)
    whole = mask(tokens, offsets, np.arange(len(lengths)), key, RULE, VOCABULARY)
    row = data.draw(st.integers(0, len(lengths) - 1))
    part = slice(offsets[row], offsets[row + 1])
    alone = mask(tokens[part], np.array([0, lengths[row]]), np.array([row]), key, RULE, VOCABULARY)
    np.testing.assert_array_equal(alone.tokens, whole.tokens[part])


def test_rates_are_80_10_10_and_uniform_over_positions() -> None:
    lengths = [128] * 8000
    tokens, offsets = sequences(lengths)
    masked = mask(tokens, offsets, np.arange(len(lengths)), 7, RULE, VOCABULARY)
    found = masked.tokens[masked.positions]
    is_mask, is_same = found == VOCABULARY.mask, found == masked.labels
    counts = np.array([is_mask.sum(), (~is_mask & ~is_same).sum(), is_same.sum()])
    same = 0.1 / SIZE
    shares = np.array([0.8 + same, 0.1 - 2 * same, 0.1 + same])
    assert stats.chisquare(counts, shares * counts.sum()).pvalue > 1e-4
    places = np.bincount(masked.positions % 128, minlength=128)[1:-1]
    assert stats.chisquare(places).pvalue > 1e-4
    random_ids = found[~is_mask & ~is_same]
    assert stats.chisquare(np.bincount(random_ids, minlength=SIZE)[5:]).pvalue > 1e-4


def test_unknown_words_may_be_predicted_and_mask_tokens_of_the_text_never() -> None:
    tokens = np.array([VOCABULARY.cls, VOCABULARY.unk, VOCABULARY.mask, VOCABULARY.sep], np.uint16)
    masked = mask(
        tokens,
        np.array([0, 4]),
        np.array([0]),
        1,
        MaskingRule(masked_lm_prob=0.9, max_predictions_per_seq=4),
        VOCABULARY,
    )
    assert masked.positions.tolist() == [1]
