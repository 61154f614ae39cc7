"""Masking against the published rules: properties of any input, and distributions against plain Python."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bertcore.instances.config import MaskingRule
from bertcore.instances.masking import Masked, Words, mask
from tests.token_rows import SIZE, VOCABULARY, keys, sequences

RULE = MaskingRule(masked_lm_prob=0.15, max_predictions_per_seq=20)
WHOLE, SPAN = replace(RULE, masking="whole_word"), replace(RULE, masking="span")

rules = st.builds(
    MaskingRule,
    masked_lm_prob=st.floats(0.01, 0.9),
    max_predictions_per_seq=st.sampled_from([None, 1, 5, 20]),
    masking=st.sampled_from(["token", "whole_word", "span"]),
    rounding=st.sampled_from(["bert", "roberta"]),
    random_ids=st.sampled_from(["whole_vocabulary", "no_special"]),
    span_lengths=st.sampled_from(["harmonic", "geometric"]),
    max_ngram=st.sampled_from([1, 3, 10]),
)
lengths_of_rows = st.lists(st.integers(2, 128), min_size=1, max_size=12)
seeds = st.integers(0, 2**32)


@settings(max_examples=100)
@given(lengths_of_rows, seeds, rules)
def test_predictions_are_whole_choices_within_the_budget(lengths: list[int], seed: int, rule: MaskingRule) -> None:
    tokens, offsets = sequences(lengths, seed)
    masked = mask(tokens, offsets, keys(len(lengths), seed), rule, VOCABULARY)
    words = Words.find(tokens, offsets, rule.masking != "token", VOCABULARY)

    assert (np.diff(masked.positions) > 0).all()
    np.testing.assert_array_equal(masked.labels, tokens[masked.positions])
    assert not VOCABULARY.special[masked.labels].any()
    untouched = np.ones(len(tokens), bool)
    untouched[masked.positions] = False
    np.testing.assert_array_equal(masked.tokens[untouched], tokens[untouched])
    assert (masked.counts <= rule.bounds(np.array(lengths))[1]).all()
    rows = np.searchsorted(offsets, masked.positions, side="right") - 1
    assert np.bincount(rows, minlength=len(lengths)).tolist() == masked.counts.tolist()
    chosen = np.add.reduceat(~untouched, words.starts, dtype=int) if len(words) else words.starts
    assert set((chosen / words.lengths).tolist()) <= {0.0, 1.0}


@settings(max_examples=50)
@given(lengths_of_rows, seeds, st.floats(0.01, 0.9))
def test_tokens_fill_the_budget_as_the_reference_rounds_it(lengths: list[int], seed: int, probability: float) -> None:
    tokens, offsets = sequences(lengths)
    rule = replace(RULE, masked_lm_prob=probability)
    masked = mask(tokens, offsets, keys(len(lengths), seed), rule, VOCABULARY)
    expected = [min(20, max(1, round(length * probability)), length - 2) for length in lengths]
    assert masked.counts.tolist() == expected


@settings(max_examples=50)
@given(lengths_of_rows, seeds)
def test_a_word_is_left_out_only_where_it_does_not_fit(lengths: list[int], seed: int) -> None:
    tokens, offsets = sequences(lengths, seed)
    masked = mask(tokens, offsets, keys(len(lengths), seed), WHOLE, VOCABULARY)
    words = Words.find(tokens, offsets, True, VOCABULARY)
    left = WHOLE.bounds(np.array(lengths))[0] - masked.counts
    outside = ~np.isin(words.starts, masked.positions)
    assert (words.lengths[outside] > left[words.rows[outside]]).all()


def test_roberta_rounds_up_as_often_as_the_share_asks() -> None:
    rule = replace(RULE, rounding="roberta", max_predictions_per_seq=None)
    tokens, offsets = sequences([62] * 20_000)
    counts = mask(tokens, offsets, keys(20_000), rule, VOCABULARY).counts
    assert set(counts.tolist()) == {9, 10}  # 0.15 * 62 = 9.3
    assert stats.binomtest(int((counts == 10).sum()), 20_000, 0.3).pvalue > 1e-4
    assert mask(*sequences([3] * 50), keys(50), rule, VOCABULARY).counts.min() == 0


@settings(max_examples=30)
@given(st.lists(st.integers(3, 60), min_size=2, max_size=20), seeds, rules, st.data())
def test_a_row_is_masked_the_same_in_any_company(
    lengths: list[int], seed: int, rule: MaskingRule, data: st.DataObject
) -> None:
    tokens, offsets = sequences(lengths)
    own = keys(len(lengths), seed)
    whole = mask(tokens, offsets, own, rule, VOCABULARY)
    row = data.draw(st.integers(0, len(lengths) - 1))
    part = slice(offsets[row], offsets[row + 1])
    alone = mask(tokens[part], np.array([0, lengths[row]]), own[row : row + 1], rule, VOCABULARY)
    np.testing.assert_array_equal(alone.tokens, whole.tokens[part])


def found_counts(masked: Masked) -> np.ndarray:
    """Predictions that became [MASK], another id, and themselves."""
    found = masked.tokens[masked.positions]
    is_mask, is_same = found == VOCABULARY.mask, found == masked.labels
    return np.array([is_mask.sum(), (~is_mask & ~is_same).sum(), is_same.sum()])


@pytest.mark.parametrize("unit", ["token", "whole_word", "span"])
def test_replacements_are_80_10_10(unit: str) -> None:
    tokens, offsets = sequences([128] * 8000)
    masked = mask(tokens, offsets, keys(8000), replace(RULE, masking=unit), VOCABULARY)
    counts, same = found_counts(masked), 0.1 / SIZE
    shares = np.array([0.8 + same, 0.1 - 2 * same, 0.1 + same])
    assert stats.chisquare(counts, shares * counts.sum()).pvalue > 1e-4


def test_tokens_are_chosen_uniformly_and_random_ids_drawn_uniformly() -> None:
    tokens, offsets = sequences([128] * 8000)
    masked = mask(tokens, offsets, keys(8000), RULE, VOCABULARY)
    places = np.bincount(masked.positions % 128, minlength=128)[1:-1]
    assert stats.chisquare(places).pvalue > 1e-4
    found = masked.tokens[masked.positions]
    random_ids = found[(found != VOCABULARY.mask) & (found != masked.labels)]
    assert stats.chisquare(np.bincount(random_ids, minlength=SIZE)[5:]).pvalue > 1e-4
    assert VOCABULARY.special[random_ids].any()
    without = mask(tokens, offsets, keys(8000), replace(RULE, random_ids="no_special"), VOCABULARY)
    assert not VOCABULARY.special[without.tokens[without.positions]][found_ids(without)].any()


def found_ids(masked: Masked) -> np.ndarray:
    return masked.tokens[masked.positions] != VOCABULARY.mask


def test_the_pieces_of_a_word_are_replaced_together_where_that_is_asked() -> None:
    tokens, offsets = sequences([128] * 2000)
    rule = replace(WHOLE, replace_unit="word", random_ids="no_special")
    masked = mask(tokens, offsets, keys(2000), rule, VOCABULARY)
    words = Words.find(tokens, offsets, True, VOCABULARY)
    word = np.searchsorted(words.starts, masked.positions, side="right")
    is_mask = masked.tokens[masked.positions] == VOCABULARY.mask
    share = np.bincount(word, is_mask)[np.unique(word)] / np.bincount(word)[np.unique(word)]
    assert set(share.tolist()) == {0.0, 1.0} and abs(share.mean() - 0.8) < 0.01
    kept = masked.tokens[masked.positions] == masked.labels
    mixed = np.bincount(word, kept)[np.unique(word)] / np.bincount(word)[np.unique(word)]
    assert ((mixed > 0) & (mixed < 1)).mean() < 0.01  # only where a random id happens to be the label


def reference_choice(
    words: list[list[int]], budget: int, longest: int, rng: random.Random, geometric: bool = False
) -> set[int]:
    """The published procedure in plain Python: the pieces of words chosen in one segment, given as lists of pieces."""
    order = list(range(len(words)))
    rng.shuffle(order)
    covered: set[int] = set()
    chosen: set[int] = set()
    for first in order:
        if len(chosen) >= budget:
            break
        room = min(longest, len(words) - first)
        weights = [0.2 * 0.8 ** (n - 1) if geometric else 1 / n for n in range(1, room + 1)]
        size = rng.choices(range(1, room + 1), weights)[0]
        while size > 1 and len(chosen) + sum(map(len, words[first : first + size])) > budget:
            size -= 1
        span = range(first, first + size)
        pieces = [piece for word in span for piece in words[word]]
        if len(chosen) + len(pieces) > budget or covered & set(span):
            continue
        covered |= set(span)
        chosen |= set(pieces)
    return chosen


@pytest.mark.parametrize(
    "choice",
    [{"masking": "whole_word"}, {"masking": "span"}, {"masking": "span", "span_lengths": "geometric", "max_ngram": 10}],
    ids=["whole_word", "albert", "spanbert"],
)
def test_choices_are_distributed_as_the_published_procedure_draws_them(choice: dict[str, Any]) -> None:
    first, more = 10, 150
    row = [VOCABULARY.cls, first, more, more, first, first, more, first, first, more, first, first, VOCABULARY.sep]
    words = [[1, 2, 3], [4], [5, 6], [7], [8, 9], [10], [11]]
    rule = MaskingRule(masked_lm_prob=0.31, max_predictions_per_seq=None, **choice)  # 4 of 13
    geometric = rule.span_lengths == "geometric"
    count, rng = 30_000, random.Random(0)
    tokens, offsets = np.tile(np.array(row, np.uint16), count), np.arange(count + 1) * len(row)
    masked = mask(tokens, offsets, keys(count), rule, VOCABULARY)
    rows = np.split(masked.positions % len(row), np.cumsum(masked.counts)[:-1])
    ours = Counter(tuple(positions.tolist()) for positions in rows)
    theirs = Counter(tuple(sorted(reference_choice(words, 4, rule.longest, rng, geometric))) for _ in range(count))
    common = [choice for choice in ours | theirs if ours[choice] + theirs[choice] > 20]
    table = np.array([[counter[choice] for choice in common] for counter in (ours, theirs)])
    assert table.sum() > 1.99 * count and len(common) > 10
    assert stats.chi2_contingency(table).pvalue > 1e-4


def text_of_words(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, list[list[list[int]]]]:
    """Rows of [CLS] words [SEP] of 1 to 3 pieces each, their offsets, and the pieces of each row's words."""
    rng, tokens, offsets, words = random.Random(seed), list[int](), [0], list[list[list[int]]]()
    for _ in range(rows):
        row, own = [VOCABULARY.cls], list[list[int]]()
        for _ in range(rng.randint(30, 60)):
            own.append(list(range(len(row), len(row) + rng.choice([1, 1, 1, 2, 3]))))
            row += [10] + [150] * (len(own[-1]) - 1)
        tokens += [*row, VOCABULARY.sep]
        offsets.append(len(tokens))
        words.append(own)
    return np.array(tokens, np.uint16), np.array(offsets), words


def runs_of_words(words: list[list[int]], chosen: set[int]) -> list[tuple[int, int]]:
    """Where each run of chosen words begins and how many it has; a word is chosen as a whole or not at all."""
    flags = [set(word) <= chosen for word in words]
    assert all(flag or not chosen & set(word) for flag, word in zip(flags, words, strict=True))
    starts = [at for at, flag in enumerate(flags) if flag and (at == 0 or not flags[at - 1])]
    return [(at, next((end - at for end in range(at, len(flags)) if not flags[end]), len(flags) - at)) for at in starts]


@pytest.mark.parametrize("unit", ["token", "whole_word", "span"])
def test_long_rows_are_masked_as_the_published_procedure_would(unit: str) -> None:
    tokens, offsets, words = text_of_words(2500, seed=3)
    rule, rng = MaskingRule(masked_lm_prob=0.15, max_predictions_per_seq=20, masking=unit), random.Random(1)
    masked = mask(tokens, offsets, keys(len(words)), rule, VOCABULARY)
    ours = np.split(masked.positions, np.cumsum(masked.counts)[:-1])
    found: list[dict[str, Counter[int]]] = [
        {"predictions": Counter(), "runs": Counter(), "tenths": Counter()} for _ in "ab"
    ]
    for row, (own, positions) in enumerate(zip(words, ours, strict=True)):
        units = [[piece] for word in own for piece in word] if unit == "token" else own
        length = int(offsets[row + 1] - offsets[row])
        budget = min(20, max(1, round(0.15 * length)))
        theirs = reference_choice(units, budget, rule.longest, rng)
        for counts, chosen in zip(found, (set((positions - offsets[row]).tolist()), theirs), strict=True):
            runs = runs_of_words(units, chosen)
            counts["predictions"][len(chosen) - budget] += 1
            counts["runs"].update(min(size, 6) for _, size in runs)
            counts["tenths"].update(10 * at // len(units) for at, _ in runs)
    for name in found[0]:
        kinds = sorted(kind for kind in found[0][name] | found[1][name] if found[1][name][kind] > 5)
        table = np.array([[counts[name][kind] for kind in kinds] for counts in found])
        assert table.sum() > 0.999 * sum(map(Counter.total, (counts[name] for counts in found)))
        assert len(kinds) == 1 or stats.chi2_contingency(table).pvalue > 1e-4, (name, table)


def test_the_words_of_a_span_are_drawn_as_often_as_one_over_their_number_says() -> None:
    row = [VOCABULARY.cls, *[10] * 40, VOCABULARY.sep]
    count = 20_000
    tokens, offsets = np.tile(np.array(row, np.uint16), count), np.arange(count + 1) * len(row)
    rule = MaskingRule(
        masked_lm_prob=0.08, max_predictions_per_seq=None, masking="span"
    )  # 3 of 42: one span of 3, or more
    masked = mask(tokens, offsets, keys(count), rule, VOCABULARY)
    places = masked.positions.reshape(count, 3) % len(row)
    whole = (np.diff(places, axis=1) == 1).all(axis=1)
    # Of three predictions in a row nearly all are one span; by chance, two spans lie side by side.
    first_is_three = (1 / 3) / (1 + 1 / 2 + 1 / 3)
    assert first_is_three < whole.mean() < first_is_three + 0.06
    starts = np.bincount(places[whole, 0], minlength=42)[1:39]
    assert stats.chisquare(starts[1:-1]).pvalue > 1e-4


def test_words_side_by_side_are_replaced_together() -> None:
    tokens, offsets, _ = text_of_words(1500, seed=5)
    rule = replace(SPAN, span_lengths="geometric", max_ngram=10, replace_unit="span", random_ids="no_special")
    masked = mask(tokens, offsets, keys(1500), rule, VOCABULARY)
    starts = np.flatnonzero(np.diff(masked.positions, prepend=-2) != 1)
    sizes = np.diff(np.append(starts, len(masked.positions)))
    assert sizes.max() > 6  # tokens
    found = masked.tokens[masked.positions]
    is_mask, is_label = found == VOCABULARY.mask, found == masked.labels
    by_mask, kept = (np.add.reduceat(what, starts) / sizes for what in (is_mask, is_label))
    assert set(by_mask.tolist()) == {0.0, 1.0}
    shares = [(by_mask == 1).sum(), (kept == 1).sum(), ((by_mask == 0) & (kept < 1)).sum()]
    assert stats.chisquare(shares, np.array([0.8, 0.1, 0.1]) * len(starts)).pvalue > 1e-4


def test_spans_do_not_cross_a_separator() -> None:
    tokens = np.tile(np.array([2, 10, 3, 11, 3], np.uint16), 3000)
    rule = MaskingRule(masked_lm_prob=0.4, max_predictions_per_seq=None, masking="span", max_ngram=2)
    masked = mask(tokens, np.arange(3001) * 5, keys(3000), rule, VOCABULARY)
    assert (masked.counts == 2).all()  # two spans of one word each: each segment has one


def test_unknown_words_may_be_predicted_and_mask_tokens_of_the_text_never() -> None:
    tokens = np.array([VOCABULARY.cls, VOCABULARY.unk, VOCABULARY.mask, VOCABULARY.sep], np.uint16)
    rule = MaskingRule(masked_lm_prob=0.9, max_predictions_per_seq=4)
    assert mask(tokens, np.array([0, 4]), keys(1), rule, VOCABULARY).positions.tolist() == [1]


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
