"""`bertcore fill-mask`."""

import argparse
from collections.abc import Iterator

from bertcore.apply import fill_mask
from bertcore.commands.options import add_input, add_model, at_least_one, model_directory
from bertcore.commands.parts import in_parts
from bertcore.commands.results import Record, add_output, check_output, numbered, write
from bertcore.commands.texts import texts_of

EXAMPLES = """\
  bertcore fill-mask "returns the [MASK] of a list"
  bertcore fill-mask --top 10 --file sentences.txt --out words.jsonl
  echo "the [MASK] is [MASK]" | bertcore fill-mask --model models/pretrained
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_model(parser)
    parser.add_argument(
        "--top", type=at_least_one("--top"), default=5, help="words for each mask (default: %(default)s)"
    )
    add_output(parser)


def run(options: argparse.Namespace) -> None:
    check_output(options)
    texts = texts_of(options)
    model = fill_mask.MaskedLanguageModel.load(model_directory(options, "fill-mask"))
    found = in_parts(
        texts,
        lambda part: fill_mask.fill_mask(model, part, options.top),
        lambda part: fill_mask.masked_sequences(model, part),
        nothing=_NOTHING,
    )
    write(options, numbered(found), _rows)


_NOTHING: Record = {"masks": []}


def _rows(record: Record) -> Iterator[Record]:
    for mask, words in enumerate(record["masks"], start=1):
        for each in words:
            yield {"number": record["number"], "mask": mask, **each}
