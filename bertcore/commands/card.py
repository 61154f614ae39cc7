"""`bertcore card`."""

import argparse
from pathlib import Path

from bertcore.commands.changed_card import add_changes, changed_card
from bertcore.errors import ConfigError
from bertcore.files import replace_file
from bertcore.model.huggingface import CARD_FILE

EXAMPLES = """\
  bertcore card models/finetuned/topic                             # prints it
  bertcore card models/pretrained --scores metrics --out CARD.md   # with what the tasks made of this encoder
  bertcore card my-model --license apache-2.0 --write              # into my-model/README.md
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="MODEL", help="such as models/pretrained")
    add_changes(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write it")
    parser.add_argument(
        "--write", action="store_true", help="into the model's directory; what DVC keeps of it is then changed"
    )


def run(options: argparse.Namespace) -> None:
    if options.out is not None and options.write:
        raise ConfigError(f"--write: found --out {options.out} beside it, expected one of them; leave one out")
    text = changed_card(options)
    path = options.directory / CARD_FILE if options.write else options.out
    if path is None:
        print(text, end="")
        return
    with replace_file(path) as beside:
        beside.write_text(text, encoding="utf-8")
