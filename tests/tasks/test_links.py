"""Which files params.yaml leads to, beside those that are linked."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks import params
from tasks.links import are_here, link, named, other_files, unlink_other_files
from tasks.paths import INPUTS, SOURCE

PARAMS = """
corpus:
  sources: [pydoc, texts, {uri: "law-*.txt"}, "https://host/a.txt"]
  contamination: {texts: [dev]}
  exclude: excluded.txt
tokenizer: {vocab_file: model/vocab.json, merges_file: model/merges.txt}
pretrain:
  {init_from: model, objective: distillation, objective_options: {teacher: model}, eval_pairs: {pairs: pairs}}
minimal_pairs: {pairs: [pairs]}
embed: {pairs: anchors}
finetune:
  tasks:
    own: {data: own, format: table, init_from: model, distillation: {teacher: model}}
    derived: {data: corpus, format: pydoc/topic}
"""
FILES = (
    "requirements.lock",
    "model/config.json",
    "model/vocab.json",
    "model/merges.txt",
    "texts/a.txt",
    "texts/deep/b.txt",
    "law-1.txt",
    "dev/a.tsv",
    "excluded.txt",
    "pairs/a.jsonl",
    "anchors/a.jsonl",
    "own/train.tsv",
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As stage `inputs` leaves it."""
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(PARAMS)
    for name in FILES:
        write(name)
    for each in named(params.read()):
        link(each, each.place)
    return tmp_path


def write(name: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(name)


def test_every_name_has_a_place(tree: Path) -> None:
    files = {str(path.relative_to(INPUTS)): path.resolve() for path in INPUTS.rglob("*") if path.is_symlink()}
    model = ("config.json", "merges.txt", "vocab.json")
    assert files == {
        "corpus/0/requirements.lock": tree / "requirements.lock",  # which decides what pydoc gives
        "corpus/1/a.txt": tree / "texts/a.txt",
        "corpus/1/deep/b.txt": tree / "texts/deep/b.txt",
        "corpus/2/law-1.txt": tree / "law-1.txt",
        "corpus/contamination/0/a.tsv": tree / "dev/a.tsv",
        "corpus/exclude/excluded.txt": tree / "excluded.txt",
        "vocabulary/vocab.json": tree / "model/vocab.json",
        "vocabulary/merges/merges.txt": tree / "model/merges.txt",
        "minimal_pairs/0/a.jsonl": tree / "pairs/a.jsonl",
        "eval_pairs/0/a.jsonl": tree / "pairs/a.jsonl",
        "embed/a.jsonl": tree / "anchors/a.jsonl",
        "own/train.tsv": tree / "own/train.tsv",
        **{
            f"{place}/{name}": tree / "model" / name
            for place in ("init_from", "objective/teacher", "encoders/own", "teachers/own")
            for name in model
        },
    }
    notes = {str(path.parent.relative_to(INPUTS)): json.loads(path.read_text())["uri"] for path in INPUTS.rglob(SOURCE)}
    assert notes == {
        "corpus/3": "https://host/a.txt",
        "derived": None,
        "encoders/derived": None,
        "teachers/derived": None,
    }


def test_nothing_is_said_where_all_is_linked(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert other_files(tree) is None and are_here(tree)
    (tree / "texts" / "a.txt").write_text("what is in a file DVC sees")
    (tree / "texts" / ".hidden.txt").write_text("no text")
    (tree / "texts" / "picture.png").write_text("no text")
    assert other_files(tree) is None


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
    assert unlink_other_files(tree) is None and (tree / INPUTS).is_dir()
    monkeypatch.chdir(tree)
    write(added)
    assert other_files(tree) == name
    monkeypatch.chdir("/")
    assert unlink_other_files(tree) == name
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
    assert other_files(tree) == name


@pytest.mark.parametrize("missing", ["texts", "dev", "pairs", "anchors", "own", "model"])
def test_where_not_all_files_are_here_what_was_pulled_stays(missing: str, tree: Path) -> None:
    shutil.rmtree(missing)
    write("law-2.txt")
    assert other_files(tree) is None and not are_here(tree)


def test_a_clone_that_names_only_what_every_machine_has_is_pulled(tree: Path) -> None:
    shutil.rmtree("data")
    assert are_here(tree), "the words among the names are no files that are missing"
    text = "{corpus: {sources: [pydoc]}, minimal_pairs: {pairs: corpus}, embed: {pairs: twins}, finetune: {tasks: {}}}"
    Path("params.yaml").write_text(text)
    assert not are_here(tree)


@pytest.mark.parametrize("text", ["corpus: [", "corpus: 5", "{}", "corpus: {sources: 3}"])
def test_params_that_nobody_can_read_are_no_matter_of_links(text: str, tree: Path) -> None:
    Path("params.yaml").write_text(text)
    assert other_files(tree) is None and not are_here(tree)
