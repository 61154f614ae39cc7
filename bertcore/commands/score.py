"""`bertcore score`."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import get_args

from bertcore.apply.fill_mask import MaskedLanguageModel
from bertcore.apply.score import encoded, score_pairs, score_texts
from bertcore.commands.options import LAYOUT, add_input, add_model, model_directory, parse_arguments, refuse
from bertcore.commands.parts import in_parts
from bertcore.commands.results import Record, add_output, check_output, check_place, write
from bertcore.commands.texts import texts_of
from bertcore.errors import ConfigError
from bertcore.files import write_json
from bertcore.minimal_pairs.pairs import MinimalPairsConfig, Variant
from bertcore.minimal_pairs.results import as_table

EXAMPLES = """\
  bertcore score "the list is sorted" "the sorted is list"      # pseudo-perplexities: lower is likelier
  bertcore score --file sentences.txt --out scores.csv
  bertcore score --pairs blimp.jsonl --share 0.1                 # how often the good one of two is likelier
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_model(parser)
    parser.add_argument("--pairs", nargs="+", metavar="FILE", help="minimal pairs, BLiMP's or good, bad, kind; .jsonl")
    parser.add_argument("--share", type=float, help="of each paradigm's pairs (default: all)")
    parser.add_argument(
        "--variant",
        choices=get_args(Variant),
        default=MinimalPairsConfig.variant,
        help="what is masked with a piece: nothing, or the later pieces of its word (default: %(default)s)",
    )
    add_output(parser, ".json with --pairs")


def run(options: argparse.Namespace) -> None:
    if options.pairs:
        _pairs(options)
        return
    refuse(options, ("share",), "{} without --pairs, of which it is a share; leave it out")
    check_output(options)
    texts = texts_of(options)
    model = MaskedLanguageModel.load(model_directory(options, "fill-mask"))
    too_long = 0

    def records() -> Iterator[Record]:
        nonlocal too_long
        scored = in_parts(
            texts,
            lambda part: score_texts(model, part, options.variant),
            lambda part: encoded(model, part),
            _NOTHING,
        )
        for text, row in scored:
            too_long += row["tokens"] > 0 and row["pseudo_log_likelihood"] is None
            yield {**row, "text": text}

    write(options, records())
    if too_long:
        longest = model.model.config.max_sequence_length
        print(f"texts beyond the {longest} tokens that the model reads, not scored: {too_long:,}", file=sys.stderr)


_NOTHING: Record = {"tokens": 0, "pseudo_log_likelihood": None, "pseudo_perplexity": None}


def _pairs(options: argparse.Namespace) -> None:
    """A table for people, and JSON as the stage `minimal_pairs` writes it; baselines need the training text."""
    refuse(options, ("column", *LAYOUT, "input_format"), "{} with --pairs, which are JSON lines; leave it out")
    if options.texts or options.file:
        raise ConfigError("--pairs: found texts beside it, expected files of pairs alone; leave the texts out")
    if options.out is not None and options.out.suffix != ".json":
        raise ConfigError(f"--out: found {options.out.name!r}, expected a .json file with --pairs; rename it")
    check_place(options.out)
    if options.format is not None:
        raise ConfigError(
            f"--format: found {options.format} with --pairs, which shows a table and pipes JSON; leave it out"
        )
    share = MinimalPairsConfig.share if options.share is None else options.share
    values = {"pairs": options.pairs, "variant": options.variant, "share": share}
    config = parse_arguments(MinimalPairsConfig, values)
    metrics = score_pairs(MaskedLanguageModel.load(model_directory(options, "fill-mask")), config)
    print(as_table(metrics), file=sys.stdout if sys.stdout.isatty() else sys.stderr)
    if options.out is not None:
        write_json(options.out, metrics)
    elif not sys.stdout.isatty():
        print(json.dumps(metrics, indent=2))
