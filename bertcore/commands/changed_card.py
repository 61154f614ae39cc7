"""The card of a model with what the arguments of a command add: another licence, or the scores of a run."""

import argparse
from pathlib import Path

from bertcore.apply.uses import PRETRAINED
from bertcore.errors import ConfigError
from bertcore.export import card
from bertcore.export.card_scores import score_table
from bertcore.files import checksum

SECTION = "Scores of the pipeline"


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
