"""`bertcore regress`."""

import argparse

from bertcore.apply.classify import REGRESS
from bertcore.commands.options import add_input, add_model
from bertcore.commands.predictions import predict
from bertcore.commands.results import add_output

EXAMPLES = """\
  bertcore regress --model models/finetuned/stsb "a man plays a guitar" --pair "somebody makes music"
  bertcore regress --file pairs.tsv --column sentence1 --pair-column sentence2 --out scores.tsv
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, pairs=True)
    add_model(parser)
    add_output(parser)


def run(options: argparse.Namespace) -> None:
    predict(options, REGRESS, keep_all=False)
