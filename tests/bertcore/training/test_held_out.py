"""Which held-out sequences are evaluated: the same random choice from all sources, however it is divided."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from torch import nn

from bertcore.instances.arrays import Instances
from bertcore.instances.sources import DrawnInstances, MaskConfig
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.objective import Sums
from bertcore.training.control import Control
from bertcore.training.held_out import HeldOut
from tests.samples import every_row, token_shard, vocabulary

CONFIG = MaskConfig(sequence_length=48, max_predictions_per_seq=8)


class Recorded:
    """Instances that note which of their rows were asked for."""

    def __init__(self, instances: Instances) -> None:
        self.instances = instances
        self.rows: list[int] = []

    def __len__(self) -> int:
        return len(self.instances)

    def take(self, rows: np.ndarray) -> Instances:
        self.rows += rows.tolist()
        return self.instances.take(rows)


class Counting(nn.Module):
    """In place of a model: how many sequences it saw, and the sum of their ids as the loss."""

    def forward(self, batch: PreTrainingBatch) -> dict[str, Sums]:
        loss, size = batch.input_ids.sum().double(), batch.layout.batch_size
        return {"mlm": Sums(loss_sum=loss, count=size, correct=torch.tensor(size))}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Instances]:
    """The instances of three shards of unequal sizes."""
    directory = tmp_path_factory.mktemp("shards")
    return [drawn(directory, documents, seed) for seed, documents in enumerate((150, 50, 100))]


def drawn(directory: Path, documents: int, seed: int) -> Instances:
    return every_row(DrawnInstances.of(token_shard(directory, documents, seed), str(seed), 0, CONFIG, vocabulary()))


def evaluated(parts: list[Instances], sequences: int, rank: int = 0, world: int = 1) -> tuple[dict[str, float], Any]:
    """The metrics of one process, and (shard, row) of what it read, in that order."""
    sources = [Recorded(part) for part in parts]
    process = SimpleNamespace(
        process_index=rank, num_processes=world, device=torch.device("cpu"), autocast=lambda: nullcontext()
    )
    heldout = HeldOut(sources, sequences, cast(Accelerator, process), Control(1), "pretrain.model.preset")
    metrics = heldout.evaluate(Counting(), {"mlm": 1.0}, 0, lambda: None)
    return metrics, [(shard, row) for shard, source in enumerate(sources) for row in source.rows]


def test_the_choice_is_spread_over_all_sources_in_proportion_and_read_in_order(parts: list[Instances]) -> None:
    metrics, read = evaluated(parts, 400)
    total = sum(map(len, parts))
    assert total > 1000 and len(set(read)) == len(read) == metrics["eval/heldout_sequences"] == 400
    assert read == sorted(read)
    for shard, part in enumerate(parts):
        rows = [row for of, row in read if of == shard]
        expected = 400 * len(part) / total
        assert abs(len(rows) - expected) < 4 * np.sqrt(expected)
        assert min(rows) < len(part) / 10 and max(rows) > len(part) * 9 / 10
    loss = sum(parts[shard].take(np.array([row])).tokens.astype(np.int64).sum() for shard, row in read) / 400
    assert metrics["eval/loss"] == loss


@pytest.mark.parametrize("world", [2, 3])
def test_it_is_the_same_every_time_and_on_every_number_of_processes(parts: list[Instances], world: int) -> None:
    alone = evaluated(parts, 400)[1]
    torch.manual_seed(world)
    assert evaluated(parts, 400)[1] == alone
    divided = [evaluated(parts, 400, rank, world)[1] for rank in range(world)]
    assert sorted(row for read in divided for row in read) == alone


def test_a_process_without_a_sequence_of_its_own_counts_none(parts: list[Instances]) -> None:
    (one, first), (other, second) = (evaluated(parts, 1, rank, 2) for rank in (0, 1))
    assert first == second and one["eval/heldout_sequences"] == 1
    assert other == {}


def test_all_are_evaluated_where_there_are_fewer(parts: list[Instances]) -> None:
    metrics, read = evaluated(parts, 10**6)
    assert read == [(shard, row) for shard, part in enumerate(parts) for row in range(len(part))]
    assert metrics["eval/heldout_sequences"] == len(read)
