"""`bertcore card`, and what `bertcore push` shares with it: the card with another licence, or with more scores."""

import argparse
from pathlib import Path

from bertcore.apply.directory import PRETRAINED
from bertcore.errors import ConfigError
from bertcore.export import card
from bertcore.export.card_scores import score_table
from bertcore.files import checksum, replace_file
from bertcore.model.huggingface import CARD_FILE

EXAMPLES = """\
  bertcore card models/finetuned/topic                             # prints it
  bertcore card models/pretrained --scores metrics --out CARD.md   # with what the tasks made of this encoder
  bertcore card my-model --license apache-2.0 --write              # into my-model/README.md
"""

SECTION = "Scores of the pipeline"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="MODEL", help="such as models/pretrained")
    add_changes(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write it")
    parser.add_argument(
        "--write", action="store_true", help="into the model's directory; what DVC keeps of it is then changed"
    )


def add_changes(parser: argparse.ArgumentParser) -> None:
    """The arguments that say what stands in the card beside what the directory has."""
    parser.add_argument("--license", metavar="NAME", help="such as apache-2.0: what the licence of its text allows")
    parser.add_argument("--scores", type=Path, metavar="DIR", help="the metrics of a run of the pipeline, to be added")


def changed_card(options: argparse.Namespace) -> str:
    """The card of the directory with what the arguments add."""
    text = card.read(options.directory)
    if options.license is not None:
        text = card.with_license(text, options.license)
    if options.scores is not None:
        scored = options.scores.absolute().parent / PRETRAINED
        if _weights(options.directory) != _weights(scored):
            raise ConfigError(
                f"--scores: found {options.scores} with {options.directory}, expected the encoder in {scored}, or a "
                "copy, whose scores they are; leave it out"
            )
        text = card.with_section(text, SECTION, score_table(options.scores, PRETRAINED))
    return text


def _weights(directory: Path) -> dict[str, str]:
    return {path.name: checksum(path) for path in directory.glob("*.safetensors")}


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
