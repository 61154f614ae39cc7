"""`bertcore push`."""

import argparse
from pathlib import Path

from bertcore.commands.changed_card import add_changes, changed_card
from bertcore.export.push import FORM, push

EXAMPLES = """\
  HF_TOKEN=… bertcore push models/finetuned/topic hub://ORG/NAME --license apache-2.0
  bertcore push models/pretrained hub://ORG/NAME --public --license mit --scores metrics
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="MODEL", help="such as models/finetuned/TASK")
    parser.add_argument("uri", metavar=FORM, help="where it goes; a repository that is not there is made")
    add_changes(parser)
    parser.add_argument("--public", action="store_true", help="a new repository is public (default: private)")
    parser.add_argument("--message", default="Upload model", help="of the commit (default: %(default)s)")


def run(options: argparse.Namespace) -> None:
    text = changed_card(options)
    print(push(options.directory, options.uri, text, private=not options.public, message=options.message))
