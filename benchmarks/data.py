"""The data path beside its peers, alternately in one run, on the same real text.

    python -m benchmarks.data encode --text TEXT --vocab VOCAB.txt

encode: sentences to token shards, beside `tokenizers` alone on the same sentences, one core each.

Every variant has its own process and they take turns; a ratio is that of neighbouring turns. The result is printed, and
kept in benchmarks/results/ with --keep.
"""

import argparse
from collections.abc import Callable
from functools import partial

from benchmarks import encode, results
from benchmarks.machine import describe
from benchmarks.text import Text, prepared, text_arguments
from benchmarks.turns import Turns, faster, take_turns

WARMUP = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    text_arguments(parser, ".benchmarks/data")
    parser.add_argument("--turns", type=int, default=9, help="turns of every variant (%(default)s)")
    parser.add_argument("--units", type=int, default=3, help="units of work of a turn (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="write the result into benchmarks/results/")
    arguments = parser.parse_args()
    text = prepared(arguments)
    PARTS[arguments.part](text, arguments)


def _encode(text: Text, arguments: argparse.Namespace) -> None:
    count = WARMUP + arguments.turns * arguments.units
    setting = (text.directory / "corpus", text.directory / "tokenizer", count)
    variants = {
        "bertcore: sentences to shards": partial(encode.shards, *setting),
        "tokenizers: encode_batch_fast alone": partial(encode.tokenizer_alone, *setting),
    }
    facts = {
        "work": f"blocks of some 4 million characters of {arguments.text.name}, {text.vocabulary.size:,} entries",
        "turns": f"{arguments.turns} of {arguments.units} blocks each, no block twice",
    }
    _compare("data-encode", variants, facts, arguments)


def _compare(
    name: str,
    variants: dict[str, Callable[[], Callable[[], int]]],
    facts: dict[str, str],
    arguments: argparse.Namespace,
) -> None:
    """Measure `variants`, the first of which is compared with all others."""
    measured = take_turns(variants, arguments.turns, arguments.units, WARMUP)
    ours = next(iter(measured.values()))
    rows = [_row(variant, turns, ours) for variant, turns in measured.items()]
    results.show(name, {**describe(), **facts}, rows, keep=arguments.keep)


def _row(name: str, turns: Turns, ours: Turns) -> dict[str, str]:
    return {
        "variant": name,
        "million tokens/s": f"{turns.median / 1e6:.2f}",
        "bertcore is faster by": faster(ours, turns),
        "peak memory": f"{turns.peak_gib:.2f} GiB",
    }


PARTS: dict[str, Callable[[Text, argparse.Namespace], None]] = {"encode": _encode}


if __name__ == "__main__":
    main()
