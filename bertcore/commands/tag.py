"""`bertcore tag`."""

import argparse
from collections.abc import Iterator
from typing import get_args

from bertcore.apply.finetuned import FineTuned
from bertcore.apply.tag import Words, tag
from bertcore.commands.options import add_input, add_model, model_directory
from bertcore.commands.parts import in_parts, progress_of, say_unseen
from bertcore.commands.results import Record, add_output, check_output, numbered, write
from bertcore.commands.texts import texts_of

EXAMPLES = """\
  bertcore tag "size : int , the number of bytes to read"
  bertcore tag --file sentences.txt --out entities.jsonl      # words and entities with their places, a text a line
  bertcore tag --file words.txt --words blanks --format tsv   # words that already stand between blanks
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_model(parser)
    parser.add_argument(
        "--words", choices=get_args(Words), default="marks", help="where words end (default: at blanks and marks)"
    )
    add_output(parser)


def run(options: argparse.Namespace) -> None:
    check_output(options)
    texts = texts_of(options)
    model = FineTuned.load(model_directory(options, "tag"), "tag")
    progress = progress_of("tag", len(texts))
    found = in_parts(texts, lambda part: tag(model, part, options.words, progress), nothing=_NOTHING)
    write(options, numbered(found), _rows)
    say_unseen(model)


_NOTHING: Record = {"words": [], "entities": []}


def _rows(record: Record) -> Iterator[Record]:
    for word in record["words"]:
        yield {"number": record["number"], **word}
