"""`bertcore classify`, and what it shares with `bertcore regress`."""

import argparse
from collections.abc import Iterator

from bertcore.apply.classify import CLASSIFY, classify, no_answer
from bertcore.apply.finetuned import FineTuned
from bertcore.commands.results import Record, add_output, check_output, write
from bertcore.commands.texts import add_input, add_model, in_parts, model_directory, progress_of, read, say_unseen

EXAMPLES = """\
  bertcore classify "compress a file with gzip" "parse a date"
  bertcore classify --model models/finetuned/pair "Return the sum." --pair "The numbers are added."
  bertcore classify --file tickets.csv --column body --out teams.csv
  cat lines.txt | bertcore classify --probabilities
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, pairs=True)
    add_model(parser)
    parser.add_argument("--probabilities", action="store_true", help="of all labels, the largest first")
    add_output(parser)


def run(options: argparse.Namespace) -> None:
    predict(options, CLASSIFY, keep_all=options.probabilities)


def predict(options: argparse.Namespace, uses: tuple[str, ...], *, keep_all: bool) -> None:
    """Write what a model for one of `uses` says about the texts."""
    check_output(options)
    texts = read(options)
    model = FineTuned.load(model_directory(options, *uses), *uses)

    def records() -> Iterator[Record]:
        progress = progress_of("classify", len(texts))
        found = in_parts(texts, lambda part: classify(model, part, progress), nothing=no_answer(model))
        for number, (text, row) in enumerate(found, start=1):
            pair = {"text": text} if isinstance(text, str) else {"text": text[0], "pair": text[1]}
            row = {key: value for key, value in row.items() if keep_all or key != "probabilities"}
            yield {**({} if options.texts else {"number": number}), **row, **pair}

    write(options, records())
    say_unseen(model)
