"""Commands that pages, docstrings and files of parameters quote work as they are quoted, and the index is whole."""

import argparse
import importlib
import re
import shlex
from unittest.mock import patch

import pytest

from tests.import_closure import ROOT
from tests.test_documents import PAGES

BENCHMARKS = ROOT / "benchmarks"
TEXTS = [*PAGES, *sorted(BENCHMARKS.glob("*.yaml")), *sorted(BENCHMARKS.glob("*.py")), ROOT / "compare.yaml"]
MODULE = re.compile(
    r"`python -m benchmarks\.([^`]+)`"
    r"|^    python -m benchmarks\.(.*(?:\n {8}.*)*)$",  # in a docstring, with the lines that go on
    re.MULTILINE,
)
MAKE = re.compile(r"(?:`|&& |^)make ([a-z][^`\n#&]*)", re.MULTILINE)


def quoted(pattern: re.Pattern[str]) -> list[str]:
    """What stands behind the command's name, each once; the brackets and dots of what may be left out are gone."""
    found = {"".join(words) for path in TEXTS for words in pattern.findall(path.read_text(encoding="utf-8"))}
    return sorted({" ".join(re.sub(r"[\[\]…]", "", command).split()) for command in found})


class Parsed(BaseException):
    """Ends a measurement before it begins."""


@pytest.mark.parametrize("command", quoted(MODULE))
def test_measurements_take_the_options_that_are_quoted(command: str) -> None:
    name, *options = shlex.split(command)
    module = importlib.import_module(f"benchmarks.{name}")
    if not options:  # the name alone
        assert callable(module.main)
        return
    parse = argparse.ArgumentParser.parse_args

    def only_parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
        parse(parser, options)
        raise Parsed

    with patch.object(argparse.ArgumentParser, "parse_args", only_parse), pytest.raises(Parsed):
        module.main()


@pytest.mark.parametrize("command", quoted(MAKE))
def test_targets_of_make_are_there(command: str) -> None:
    targets = re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert command.split()[0] in targets


def test_files_of_parameters_that_are_named_are_there() -> None:
    named = {
        name for path in TEXTS for name in re.findall(r"benchmarks/[\w-]+\.yaml", path.read_text(encoding="utf-8"))
    }
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_the_index_names_every_page_of_results_once() -> None:
    index = re.findall(r"\]\(results/([^)#]+)\)", (BENCHMARKS / "README.md").read_text(encoding="utf-8"))
    assert sorted(index) == sorted(path.name for path in (BENCHMARKS / "results").glob("*.md"))
