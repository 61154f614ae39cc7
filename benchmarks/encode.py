"""Sentences to token shards beside the tokenizer alone, as two variants that take turns on one core each."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.turns import Work
from bertcore.corpus.documents import RowGroup, corpus_shards, row_groups
from bertcore.errors import InputError
from bertcore.tokens.build import ShardPlan, encode
from bertcore.tokens.tokenizer import load_tokenizer


def blocks(corpus: Path, count: int) -> list[RowGroup]:
    """The first `count` blocks of a corpus. None is met twice: words remembered from it would be no measurement."""
    found = list(row_groups(corpus_shards(corpus, "train")))
    if len(found) < count:
        raise InputError(f"{corpus}: found {len(found)} blocks, expected {count}; give more text, or fewer --turns")
    return found[:count]


def shards(corpus: Path, tokenizer: Path, count: int) -> Work:
    """A shard worker: a block read from Parquet, encoded, written as an Arrow file, checksummed."""
    groups = iter(blocks(corpus, count))
    places = str(tokenizer.resolve()), tempfile.mkdtemp()
    return lambda: encode(ShardPlan("block.arrow", "train", (next(groups),), *places)).tokens


def tokenizer_alone(corpus: Path, tokenizer: Path, count: int) -> Work:
    """`encode_batch_fast` of the same blocks' sentences, which wait in memory; its result is only counted."""
    os.environ["RAYON_NUM_THREADS"] = "1"
    encoder = load_tokenizer(tokenizer)
    waiting: Iterator[list[str]] = iter([group.read().flatten().to_pylist() for group in blocks(corpus, count)])
    return lambda: sum(map(len, encoder.encode_batch_fast(next(waiting), add_special_tokens=False)))
