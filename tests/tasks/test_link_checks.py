"""Which files params.yaml leads to, beside those that are linked."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.link_checks import all_files_here, outdated_link, remove_outdated_links
from tasks.paths import INPUTS
from tests.tasks.linked_tree import link_tree, write


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    link_tree()
    return tmp_path


def test_nothing_is_said_where_all_is_linked(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert outdated_link(tree) is None and all_files_here(tree)
    (tree / "texts" / "a.txt").write_text("what is in a file DVC sees")
    (tree / "texts" / ".hidden.txt").write_text("no text")
    (tree / "texts" / "picture.png").write_text("no text")
    assert outdated_link(tree) is None


@pytest.mark.parametrize(
    ("added", "name"),
    [
        ("texts/c.txt", "texts"),
        ("texts/deeper/still/c.jsonl", "texts"),
        ("law-2.txt", "law-*.txt"),
        ("dev/b.tsv", "dev"),
        ("pairs/b.jsonl", "pairs"),
        ("anchors/b.jsonl", "anchors"),
        ("own/dev.tsv", "own"),
        ("model/tokenizer.json", "model"),
    ],
)
def test_a_file_more_is_seen_and_all_are_linked_anew(
    added: str, name: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert remove_outdated_links(tree) is None and (tree / INPUTS).is_dir()
    monkeypatch.chdir(tree)
    write(added)
    assert outdated_link(tree) == name
    monkeypatch.chdir("/")
    assert remove_outdated_links(tree) == name
    assert not (tree / INPUTS).exists() and (tree / "texts" / "a.txt").is_file(), "the user's own stay"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda: Path("texts/deep/b.txt").unlink(), "texts"),
        (lambda: shutil.copy("own/train.tsv", Path("data/inputs/own/train.tsv").unlink() or "data/inputs/own"), "own"),
    ],
    ids=["one less", "a copy in place of the link"],
)
def test_what_is_linked_no_more_is_seen(change: Callable[[], object], name: str, tree: Path) -> None:
    change()
    assert outdated_link(tree) == name


@pytest.mark.parametrize("missing", ["texts", "dev", "pairs", "anchors", "own", "model"])
def test_where_not_all_files_are_here_what_was_pulled_stays(missing: str, tree: Path) -> None:
    shutil.rmtree(missing)
    write("law-2.txt")
    assert outdated_link(tree) is None and not all_files_here(tree)


def test_a_clone_that_names_only_what_every_machine_has_is_pulled(tree: Path) -> None:
    shutil.rmtree("data")
    assert all_files_here(tree), "the words among the names are no files that are missing"
    text = "{corpus: {sources: [pydoc]}, minimal_pairs: {pairs: corpus}, embed: {pairs: twins}, finetune: {tasks: {}}}"
    Path("params.yaml").write_text(text)
    assert not all_files_here(tree)


@pytest.mark.parametrize("text", ["corpus: [", "corpus: 5", "{}", "corpus: {sources: 3}"])
def test_params_that_nobody_can_read_are_no_matter_of_links(text: str, tree: Path) -> None:
    Path("params.yaml").write_text(text)
    assert outdated_link(tree) is None and not all_files_here(tree)
