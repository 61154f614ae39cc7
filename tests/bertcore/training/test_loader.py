"""The order of training: the same global batches for any number of ranks, any start, any number of workers."""

import threading
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertcore.errors import InputError
from bertcore.instances.arrays import Instances
from bertcore.instances.config import MaskConfig
from bertcore.instances.sources import DrawnInstances
from bertcore.training.loader import BatchRamp, Loader, Phases, prefetch
from tests.samples import token_shard, vocabulary

FIELDS = tuple(Instances.__dataclass_fields__)
CONFIG = MaskConfig(sequence_length=48, max_predictions_per_seq=8)


def assert_equal(first: Instances, second: Instances) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


@dataclass
class Numbers:
    """A source whose instances are a single token: their own number."""

    first: int
    count: int
    taken: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return self.count

    def take(self, rows: np.ndarray) -> Instances:
        self.taken.append(len(rows))
        nothing, size = np.zeros(0, np.int64), len(rows)
        tokens, offsets = self.first + rows, np.arange(size + 1)
        return Instances(tokens, offsets, np.ones(size, np.int32), None, nothing, nothing, np.zeros(size + 1, np.int64))


def numbers(counts: list[int]) -> list[Numbers]:
    return [Numbers(start, count) for start, count in zip(np.cumsum([0, *counts]).tolist(), counts, strict=False)]


def loader_of(counts: list[int], batch_size: int, pool: int = 16, seed: int = 0) -> Loader:
    return Loader(lambda epoch: numbers(counts), batch_size, seed, pool)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(1, 12), st.integers(1, 4), st.integers(0, 99))
def test_every_epoch_shows_every_sequence_once(counts: list[int], batch_size: int, pool: int, seed: int) -> None:
    total = sum(counts)
    loader = loader_of(counts, min(batch_size, total), pool, seed)
    steps = 3 * total // loader.batch_size + 1
    stream = np.concatenate([loader.batch(step).tokens for step in range(steps)])
    epochs = [stream[total * epoch : total * (epoch + 1)] for epoch in range(3)]
    for epoch in epochs:
        assert sorted(epoch.tolist()) == list(range(total))
    if total > 12:
        assert epochs[0].tolist() != epochs[1].tolist() != list(range(total))


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=8),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(0, 500),
)
def test_ranks_share_the_global_batch_from_any_step(counts: list[int], world: int, pool: int, step: int) -> None:
    batch_size = min(12, sum(counts))
    whole = loader_of(counts, batch_size, pool).batch(step).tokens
    used = loader_of(counts, batch_size, pool)
    used.batch(step + 70)
    for rank in range(min(world, batch_size)):
        assert used.batch(step, rank, world).tokens.tolist() == whole[rank::world].tolist()


def test_the_sequences_of_a_pool_are_mixed_and_only_its_shards_are_read() -> None:
    opened: list[list[Numbers]] = []

    def open_epoch(epoch: int) -> list[Numbers]:
        opened.append(numbers([50] * 12))
        return opened[-1]

    loader = Loader(open_epoch, batch_size=25, seed=1, pool=3)
    shards = [set((loader.batch(step).tokens // 50).tolist()) for step in range(24)]
    for first in range(0, 24, 6):
        together = set().union(*shards[first : first + 6])
        assert len(together) == 3 and all(len(found) > 1 for found in shards[first : first + 6])
    read = [sum(bool(source.taken) for source in sources) for sources in opened]
    assert max(read) == 3 and sum(read) == 12


def test_a_step_far_away_opens_no_epoch_before_it() -> None:
    asked: list[int] = []

    def open_epoch(epoch: int) -> list[Numbers]:
        asked.append(epoch)
        return numbers([40, 60])

    loader = Loader(open_epoch, batch_size=10, seed=0)
    loader.batch(10**6)
    assert asked == [0, 10**5] and loader.sequences_per_epoch == 100


def test_drawn_instances_are_the_same_for_any_ranks_start_and_workers(tmp_path: Path) -> None:
    shards = [token_shard(tmp_path, seed=seed) for seed in (0, 1, 2)]
    first = [DrawnInstances.of(shard, f"shard-{n}", 0, CONFIG, vocabulary()) for n, shard in enumerate(shards)]

    def open_epoch(epoch: int) -> list[DrawnInstances]:
        return [
            DrawnInstances.of(shard, f"shard-{n}", epoch, CONFIG, vocabulary(), len(first[n]))
            for n, shard in enumerate(shards)
        ]

    def loader() -> Loader:
        return Loader(open_epoch, batch_size=12, seed=3, pool=2)

    one = loader()
    steps = 2 * one.sequences_per_epoch // 12 + 2
    batches = [one.batch(step) for step in range(steps)]
    for step in (0, steps - 1, steps // 2):
        assert_equal(loader().batch(step), batches[step])
        ranks = [loader().batch(step, rank, 4) for rank in range(4)]
        assert_equal(Instances.concatenate(ranks).take(np.arange(12).reshape(4, 3).T.ravel()), batches[step])
    for ahead in (0, 4):
        stream = prefetch(loader().batch, 1, ahead)
        for found, expected in zip(islice(stream, steps - 1), batches[1:], strict=True):
            assert_equal(found, expected)
        stream.close()


def test_batches_are_made_in_advance_and_the_threads_end_with_the_iterator() -> None:
    made = threading.Semaphore(0)

    def noted(step: int) -> int:
        made.release()
        return step

    before = threading.active_count()
    stream = prefetch(noted, 5, ahead=3)
    assert next(stream) == 5
    assert all(made.acquire(timeout=10) for _ in range(4)), "three batches ahead of the one asked for"
    assert list(islice(stream, 3)) == [6, 7, 8]
    stream.close()
    assert threading.active_count() == before


def test_an_error_of_the_background_reaches_the_caller() -> None:
    def open_epoch(epoch: int) -> list[Numbers]:
        if epoch:
            raise InputError("the second epoch is gone")
        return numbers([10])

    stream = prefetch(Loader(open_epoch, batch_size=5, seed=0).batch, 0)
    assert len(list(islice(stream, 2))) == 2
    with pytest.raises(InputError, match="the second epoch is gone"):
        next(stream)


def test_phases_follow_each_other_each_from_its_own_beginning() -> None:
    short, long = loader_of([100], 4), loader_of([30], 2, seed=1)
    phases = Phases([(0, short), (7, long)])
    expected = [short.batch(step) for step in range(7)] + [long.batch(step) for step in range(5)]
    for step in (6, 7, 0, 11):
        assert_equal(phases.batch(step), expected[step])
    assert phases.batch(8, 1, 2).tokens.tolist() == expected[8].tokens[1::2].tolist()
    stream = prefetch(phases.batch, 4)
    for found, wanted in zip(islice(stream, 8), expected[4:], strict=True):
        assert_equal(found, wanted)
    stream.close()


def test_an_epoch_of_another_size_is_no_epoch() -> None:
    loader = Loader(lambda epoch: numbers([10 + epoch]), batch_size=5, seed=0)
    with pytest.raises(AssertionError, match=r"epoch 1: \[11\] sequences, not those of epoch 0"):
        loader.batch(2)


@given(st.integers(3, 9), st.integers(0, 9), st.integers(0, 12), st.integers(1, 3))
def test_growing_batches_show_the_same_sequences_in_the_same_order(
    start: int, more: int, steps: int, world: int
) -> None:
    plain = loader_of([30, 20], 1)
    ramp = BatchRamp(start, start + more, steps)
    growing = Loader(plain.open_epoch, start + more, plain.seed, plain.pool, ramp)
    shown: list[int] = []
    for step in range(steps + 3):
        ranks = [growing.batch(step, rank, world) for rank in range(world)]
        size = sum(map(len, ranks))
        assert size == (start + step * more // steps if step < steps else start + more)
        whole = growing.batch(step)
        for rank, part in enumerate(ranks):
            np.testing.assert_array_equal(part.tokens, whole.tokens[rank::world])
        shown += whole.tokens.tolist()
    assert shown == [int(plain.batch(place).tokens[0]) for place in range(len(shown))]


def test_a_batch_larger_than_an_epoch_is_refused() -> None:
    with pytest.raises(InputError, match=r"pretrain.batch_size: found 11, but an epoch has only 10 sequences"):
        loader_of([4, 6], 11)
    with pytest.raises(InputError, match=r"^params.yaml: pretrain.second_phase.batch_size: found 11, but an epoch"):
        Loader(loader_of([4, 6], 2).open_epoch, 11, 1, key="pretrain.second_phase.batch_size")


FALLING = replace(CONFIG, duplicates=0, masked_lm_prob_start=0.3)


def falling_loader(tmp_path: Path, steps: int) -> Loader:
    """Over a small shard, with masks that fall from 30 to 15 % in `steps` steps."""
    shard = token_shard(tmp_path)
    return Loader(
        lambda epoch: [DrawnInstances.of(shard, "train-00000.arrow", epoch, FALLING, vocabulary())],
        batch_size=8,
        seed=3,
        rule=lambda step: FALLING.rule_at(step / (steps - 1)),
    )


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(step=st.integers(0, 40), world_size=st.integers(1, 4))
def test_a_falling_mask_rate_is_a_function_of_the_step(tmp_path: Path, step: int, world_size: int) -> None:
    """A training that goes on at any step, on any number of processes, sees the same masks; each sequence has as many
    predictions as the rate of its step says."""
    batch = falling_loader(tmp_path, 41).batch(step)
    parts = [falling_loader(tmp_path, 41).batch(step, rank, world_size) for rank in range(world_size)]
    order = np.concatenate([np.arange(rank, 8, world_size) for rank in range(world_size)])
    assert_equal(Instances.concatenate(parts), batch.take(order))
    share = 0.3 - 0.15 * step / 40
    wanted = np.maximum(np.rint(share * batch.lengths), 1)
    assert (np.diff(batch.masked_offsets) <= np.minimum(wanted, np.ceil(8 * share / 0.15))).all()
    assert np.diff(batch.masked_offsets).sum() >= 0.9 * np.minimum(wanted, np.ceil(8 * share / 0.15)).sum()


def test_the_last_step_of_a_falling_rate_is_that_of_a_constant_one(tmp_path: Path) -> None:
    shard = token_shard(tmp_path)
    constant = Loader(
        lambda epoch: [
            DrawnInstances.of(shard, "train-00000.arrow", epoch, replace(CONFIG, duplicates=0), vocabulary())
        ],
        batch_size=8,
        seed=3,
    )
    falling = falling_loader(tmp_path, 41)
    assert_equal(falling.batch(40), constant.batch(40))
    first, same = falling.batch(0), constant.batch(0)
    assert len(first.masked_positions) > 1.8 * len(same.masked_positions)
    np.testing.assert_array_equal(first.lengths, same.lengths)
