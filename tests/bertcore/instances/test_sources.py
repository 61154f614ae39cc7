"""Instances: the layout of a pair, static copies against drawn ones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertcore.instances.arrays import Instances
from bertcore.instances.config import LongerSequences, MaskConfig
from bertcore.instances.sources import DrawnInstances, StaticInstances, joined
from bertcore.shards.store import TokenShard
from tests.samples import every_row, token_shard, tokenizer, vocabulary

CONFIG = MaskConfig(sequence_length=48, max_predictions_per_seq=8)
FIELDS = (
    "tokens",
    "offsets",
    "segment_a_lengths",
    "next_sentence_labels",
    "masked_positions",
    "masked_labels",
    "masked_offsets",
)


def drawn(tmp_path: Path, epoch: int = 0, seed: int = 0) -> DrawnInstances:
    return DrawnInstances.of(token_shard(tmp_path, seed=seed), f"shard-{seed}", epoch, CONFIG, vocabulary())


def assert_equal(first: Instances, second: Instances) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


def test_a_row_is_cls_a_sep_b_sep_with_the_original_tokens_behind_the_masks(tmp_path: Path) -> None:
    source = drawn(tmp_path)
    instances, words = every_row(source), vocabulary()
    original = instances.tokens.copy()
    original[instances.masked_positions] = instances.masked_labels
    for row in range(len(instances)):
        tokens = original[instances.offsets[row] : instances.offsets[row + 1]]
        middle = instances.segment_a_lengths[row]
        text, first = source.shard.tokens, source.packed.row_offsets[row]
        segment_a, segment_b = (
            text[source.packed.starts[segment] : source.packed.ends[segment]] for segment in (first, first + 1)
        )
        np.testing.assert_array_equal(tokens, [words.cls, *segment_a, words.sep, *segment_b, words.sep])
        assert middle == len(segment_a) + 2


def test_a_true_pair_reads_on_in_its_document(tmp_path: Path) -> None:
    source = drawn(tmp_path)
    row = int(np.flatnonzero(source.packed.labels == 0)[0])
    start, end = int(source.packed.starts[2 * row]), int(source.packed.ends[2 * row + 1])
    assert "." in tokenizer().decode(source.shard.tokens[start:end].tolist())


def test_static_copies_equal_drawn_instances(tmp_path: Path) -> None:
    source = drawn(tmp_path)
    every_row(source).write(tmp_path / "static.arrow")
    static = Instances.read(tmp_path / "static.arrow")
    rows = np.random.default_rng(0).permutation(len(source))[:17]
    assert_equal(static.take(rows), source.take(rows))
    assert_equal(Instances.concatenate(list(source.blocks(7))), every_row(source))


def test_epochs_differ_and_repeat_exactly(tmp_path: Path) -> None:
    first, again, other = map(every_row, (drawn(tmp_path), drawn(tmp_path), drawn(tmp_path, epoch=1)))
    assert_equal(first, again)
    assert len(first.tokens) != len(other.tokens) or (first.tokens != other.tokens).any()


def test_an_epoch_shows_as_many_sequences_as_the_first_and_loses_or_repeats_a_run(tmp_path: Path) -> None:
    shard, every = token_shard(tmp_path), drawn(tmp_path)
    fewer, more = (
        DrawnInstances.of(shard, "shard-0", 0, CONFIG, vocabulary(), len(every) + extra) for extra in (-7, 9)
    )
    for source, extra in ((fewer, -7), (more, 9)):
        rows = source.rows_of(np.arange(len(source)))
        seen = np.bincount(rows, minlength=len(every))
        assert len(every_row(source)) == len(source) == len(every) + extra
        assert set(np.unique(seen)) <= {1, 1 + int(np.sign(extra))} and seen.sum() == len(source)
        assert rows[0] != 0
    repeated = more.take(np.array([0, len(every)]))
    assert_same_text(repeated)
    assert set(repeated.masked_positions[: repeated.masked_offsets[1]]) != set(
        repeated.masked_positions[repeated.masked_offsets[1] :] - repeated.offsets[1]
    )


def test_an_epoch_that_draws_nothing_shows_what_the_first_does() -> None:
    shard = TokenShard(np.arange(20, 30, dtype=np.uint16), np.array([0, 5, 10], np.int32), np.array([0, 2], np.int32))
    config = replace(CONFIG, short_seq_prob=0.5)

    def source(epoch: int, count: int | None = None) -> DrawnInstances:
        return DrawnInstances.of(shard, "tiny", epoch, config, vocabulary(), count)

    lengths = [len(source(epoch)) for epoch in range(40)]
    assert set(lengths) == {0, 1} and lengths[0] == 1
    empty = lengths.index(0)
    instances = every_row(source(empty, 1))
    assert len(instances) == 1
    assert_same_text(Instances.concatenate([every_row(source(0)), instances]))
    none = source(0, 0)
    both = joined([none, source(empty, 1), none])
    assert_equal(both(np.array([1, 1]), np.array([0, 0])), Instances.concatenate([instances] * 2))
    assert len(every_row(none)) == 0 and none.free is not None and len(none.free) == 0


def assert_same_text(pair: Instances) -> None:
    original = pair.tokens.copy()
    original[pair.masked_positions] = pair.masked_labels
    np.testing.assert_array_equal(*np.split(original, pair.offsets[1:2]))


def test_rows_of_many_sources_are_gathered_in_the_order_asked_for(tmp_path: Path) -> None:
    sources = [drawn(tmp_path, seed=seed) for seed in (0, 1, 2)]
    for seed, source in enumerate(sources):
        every_row(source).write(tmp_path / f"{seed}.arrow")
    static = [StaticInstances(tmp_path / f"{seed}.arrow", len(source)) for seed, source in enumerate(sources)]
    which, rows = np.array([2, 0, 1, 0, 2, 2, 1]), np.array([3, 1, 4, 1, 5, 9, 2])
    single = Instances.concatenate(
        [sources[source].take(np.array([row])) for source, row in zip(which, rows, strict=True)]
    )
    for kind in (sources, static, [sources[0], static[1], sources[2]]):
        assert_equal(joined(kind)(which, rows), single)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sequence_length": 4}, "sequence_length: found 4"),
        ({"duplicates": -1}, "duplicates: found -1"),
        ({"duplicates": 10**9}, "duplicates: found 1000000000, expected 0 .* to 1000 copies"),
        ({"masked_lm_prob": 1.5}, "masked_lm_prob: found 1.5"),
        ({"masked_lm_prob_start": 0.1, "duplicates": 0}, "masked_lm_prob_start: found 0.1, expected a share above"),
        ({"masked_lm_prob_start": 0.3}, "masked_lm_prob_start: found 0.3 with duplicates 1.*set duplicates: 0"),
        ({"max_predictions_per_seq": 0}, "max_predictions_per_seq: found 0.*or null"),
        ({"max_ngram": 0}, "max_ngram: found 0"),
        ({"mask_share": 0.9, "random_share": 0.2}, "mask_share: found 0.9 beside random_share 0.2"),
        ({"mask_share": 0, "random_share": 0}, "mask_share: found 0 beside random_share 0, expected .* more than 0"),
        ({"replace_unit": "word"}, "replace_unit: found 'word' with masking 'token'"),
        ({"short_seq_prob": -1}, "short_seq_prob: found -1"),
    ],
)
def test_impossible_parameters_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskConfig(**values)


def test_the_second_phase_differs_in_its_lengths_alone() -> None:
    config = MaskConfig(masking="span", second_phase=LongerSequences(sequence_length=512, max_predictions_per_seq=None))
    first, second = config.phases
    assert first == replace(config, second_phase=None)
    assert second == replace(first, sequence_length=512, max_predictions_per_seq=None)
    assert second.masking == "span"
    with pytest.raises(ValueError, match="sequence_length: found 70000, expected at most 65535"):
        LongerSequences(sequence_length=70_000)
    with pytest.raises(ValueError, match=r"second_phase.sequence_length: found 128.*first phase \(128\)"):
        MaskConfig(second_phase=LongerSequences(sequence_length=128))


def test_the_bound_of_predictions_follows_a_falling_rate() -> None:
    config = MaskConfig(duplicates=0, masked_lm_prob_start=0.3)
    rules = [config.rule_at(progress) for progress in (0.0, 0.5, 1.0)]
    assert [round(rule.masked_lm_prob, 9) for rule in rules] == [0.3, 0.225, 0.15]
    assert [rule.max_predictions_per_seq for rule in rules] == [40, 30, 20]
    assert MaskConfig(duplicates=0).rule_at(0.3) == MaskConfig(duplicates=0)
