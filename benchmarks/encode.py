"""Sentences to token shards beside `tokenizers` alone on the same sentences, alternately in one run, one core each.

    python -m benchmarks.encode --text TEXT --vocab VOCAB.txt

Every variant has its own process and they take turns; a ratio is that of neighbouring turns. The result is printed, and
kept in benchmarks/results/ with --keep.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import results
from benchmarks.machine import describe
from benchmarks.options import make_parser
from benchmarks.text import prepared, text_arguments
from benchmarks.turns import Work, faster, take_turns
from bertcore.corpus.documents import RowGroup, corpus_shards, row_groups
from bertcore.errors import InputError
from bertcore.shards.build import ShardPlan, encode
from bertcore.tokens.tokenizer import load_tokenizer

WARMUP = 2


def main() -> None:
    parser = make_parser(__doc__, turns=9)
    text_arguments(parser, ".benchmarks/data")
    parser.add_argument("--units", type=int, default=3, help="units of work of a turn (%(default)s)")
    arguments = parser.parse_args()
    text = prepared(arguments)
    setting = (text.directory / "corpus", text.directory / "tokenizer", WARMUP + arguments.turns * arguments.units)
    variants = {
        "bertcore: sentences to shards": partial(shards, *setting),
        "tokenizers: encode_batch_fast alone": partial(tokenizer_alone, *setting),
    }
    measured = take_turns(variants, arguments.turns, arguments.units, WARMUP)
    ours = next(iter(measured.values()))
    facts = {
        **describe(),
        "work": f"blocks of some 4 million characters of {arguments.text.name}, {text.vocabulary.size:,} entries",
        "turns": f"{arguments.turns} of {arguments.units} blocks each, no block twice",
    }
    rows = [
        {
            "variant": variant,
            "million tokens/s": f"{turns.median / 1e6:.2f}",
            "bertcore is faster by": faster(ours, turns),
            "peak memory": f"{turns.peak_gib:.2f} GiB",
        }
        for variant, turns in measured.items()
    ]
    results.show("data-encode", facts, rows, keep=arguments.keep)


def blocks(corpus: Path, count: int) -> list[RowGroup]:
    """The first `count` blocks of a corpus. None is met twice: words remembered from it would be no measurement."""
    found = list(row_groups(corpus_shards(corpus, "train")))
    if len(found) < count:
        raise InputError(f"{corpus}: found {len(found)} blocks, expected {count}; give more text, or fewer --turns")
    return found[:count]


def shards(corpus: Path, tokenizer: Path, count: int) -> Work:
    """A shard worker: a block read from Parquet, encoded, written as an Arrow file, checksummed."""
    groups = iter(blocks(corpus, count))
    work = corpus.parent / "work"
    work.mkdir(exist_ok=True)
    places = str(tokenizer.resolve()), str(work)
    return lambda: encode(ShardPlan("block.arrow", "train", (next(groups),), *places)).tokens


def tokenizer_alone(corpus: Path, tokenizer: Path, count: int) -> Work:
    """`encode_batch_fast` of the same blocks' sentences, which wait in memory; its result is only counted."""
    os.environ["RAYON_NUM_THREADS"] = "1"
    encoder = load_tokenizer(tokenizer)
    waiting: Iterator[list[str]] = iter([group.read().flatten().to_pylist() for group in blocks(corpus, count)])
    return lambda: sum(map(len, encoder.encode_batch_fast(next(waiting), add_special_tokens=False)))


if __name__ == "__main__":
    main()
