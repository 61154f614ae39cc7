"""Instances on the disk: static copies, and the numbers of sequences."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertcore.errors import ArtifactError
from bertcore.instances.config import MaskConfig
from bertcore.instances.sources import DrawnInstances
from bertcore.instances.store import open_sources, static_path, write_counts
from bertcore.shards.store import Manifest, ShardEntry, TokenShard
from tests.bertcore.instances.test_sources import CONFIG, assert_equal
from tests.samples import every_row, token_shard, vocabulary


def write_shards(directory: Path) -> None:
    """Two shards of the training split with their manifest."""
    entries = []
    for number in range(2):
        shard = token_shard(directory.parent, seed=number)
        directory.mkdir(exist_ok=True)
        name = f"train-{number:05d}.arrow"
        shard.write(directory / name)
        entries.append(ShardEntry(name, "train", 0, 0, len(shard.tokens), ""))
    Manifest(vocabulary().size, "", entries).write(directory)


@pytest.mark.parametrize("packing", ["pairs", "full_sentences"])
@pytest.mark.parametrize("epoch", [0, 3])
def test_sources_of_a_directory_are_static_copies_or_the_same_drawn(tmp_path: Path, packing: Any, epoch: int) -> None:
    shards, instances = tmp_path / "shards", tmp_path / "instances"
    write_shards(shards)
    drawn_config = MaskConfig(sequence_length=48, max_predictions_per_seq=8, packing=packing, duplicates=0)
    static_config = replace(drawn_config, duplicates=2)
    counts: dict[str, int] = {}
    for entry in Manifest.read(shards).shards:
        for copy in range(2):
            shard = TokenShard.open(shards / entry.name)
            source = DrawnInstances.of(shard, entry.name, copy, drawn_config, vocabulary(), counts.get(entry.name))
            every_row(source).write(static_path(instances, static_config, entry.name, copy))
            counts.setdefault(entry.name, len(source))
    write_counts(instances, drawn_config, counts)
    opened = [
        open_sources(instances, shards, config, vocabulary(), "train", number)
        for config, number in ((static_config, epoch), (drawn_config, epoch % 2))
    ]
    for static, own in zip(*opened, strict=True):
        assert type(static) is not type(own) and len(static) == len(own)
        rows = np.random.default_rng(0).permutation(len(static))[:40]
        assert_equal(static.take(rows), own.take(rows))


def test_without_the_numbers_of_the_mask_stage_the_stage_is_named(tmp_path: Path) -> None:
    write_shards(tmp_path)
    with pytest.raises(ArtifactError, match=r"length-48/sequences.json: not found.*48 tokens.*dvc repro mask"):
        open_sources(tmp_path / "instances", tmp_path, CONFIG, vocabulary(), "train", 0)
