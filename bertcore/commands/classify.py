"""`bertcore classify`."""

import argparse

from bertcore.apply.classify import CLASSIFY
from bertcore.commands.options import add_input, add_model
from bertcore.commands.predictions import predict
from bertcore.commands.results import add_output

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
