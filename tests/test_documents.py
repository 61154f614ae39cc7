"""What the documents show works: parameters are accepted, commands take their arguments, links lead somewhere."""

import argparse
import importlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bertcore.commands.main import COMMANDS
from bertcore.errors import ArtifactError
from tasks import params
from tasks.sections import check
from tests.import_closure import ROOT

PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("infra/*.md"), *ROOT.glob("benchmarks/**/*.md")]
)
SECTIONS = ("recipe", "corpus", "tokenizer", "shards", "mask", "pretrain", "minimal_pairs", "embed", "finetune")


def blocks(language: str) -> Iterator[Any]:
    """The code blocks of all pages in `language`, each named by its page and line."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, found.start()) + 1
            yield pytest.param(found[1], id=f"{page.relative_to(ROOT)}:{line}")


def overlaid(values: Any, given: Any) -> Any:
    """`values` with the keys of `given`, key by key; of tasks only those that are given."""
    if not isinstance(given, dict) or not isinstance(values, dict) or not given:
        return given
    merged = {key: overlaid(values.get(key), each) for key, each in given.items()}
    if isinstance(merged.get("tasks"), dict):
        merged["tasks"] = {name: each for name, each in merged["tasks"].items() if name in given["tasks"]}
    return {**values, **merged}


@pytest.mark.parametrize("block", list(blocks("yaml")))
def test_parameters_are_accepted(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = YAML(typ="safe", pure=True)
    given = yaml.load(block)
    if not isinstance(given, dict) or not set(given) <= set(SECTIONS):
        pytest.skip("not of params.yaml")
    monkeypatch.chdir(ROOT)
    text = io.StringIO()
    yaml.dump(overlaid(yaml.load(params.PARAMS.read_text(encoding="utf-8")), given), text)
    try:
        check(params.parsed(text.getvalue()))
    except ArtifactError as error:  # models and vocabularies of the reader's
        assert "not found" in str(error), error


def commands() -> Iterator[Any]:
    for block in blocks("(?:sh|console)"):
        for line in re.sub(r"\\\n\s*", "", block.values[0]).splitlines():
            for part in re.split(r"\s\|\s|\s&&\s|;\s", re.sub(r"\s#\s.*", "", line)):
                words = re.match(r"\$?\s*(?:[A-Z_]+=\S+\s+)*bertcore\s+(?P<rest>.*)", part)
                if words:
                    yield pytest.param(words["rest"], id=f"{block.id} {words['rest']}")


@pytest.mark.parametrize("line", list(commands()))
def test_commands_take_their_arguments(line: str) -> None:
    name, *arguments = shlex.split(line)
    if name == "--help":
        return
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    importlib.import_module(f"bertcore.commands.{COMMANDS[name].module}").arguments(parser)
    _, unknown = parser.parse_known_args(arguments)
    assert unknown == []


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+\s+(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), target
