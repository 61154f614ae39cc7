"""What params.yaml names of this machine, and where its links lie."""

import json
from pathlib import Path

import pytest

from tasks.paths import INPUTS, SOURCE
from tests.tasks.linked_tree import link_tree


def test_every_name_has_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    link_tree()
    files = {str(path.relative_to(INPUTS)): path.resolve() for path in INPUTS.rglob("*") if path.is_symlink()}
    model = ("config.json", "merges.txt", "vocab.json")
    assert files == {
        "corpus/0/requirements.lock": tmp_path / "requirements.lock",  # which decides what pydoc gives
        "corpus/1/a.txt": tmp_path / "texts/a.txt",
        "corpus/1/deep/b.txt": tmp_path / "texts/deep/b.txt",
        "corpus/2/law-1.txt": tmp_path / "law-1.txt",
        "corpus/contamination/0/a.tsv": tmp_path / "dev/a.tsv",
        "corpus/exclude/excluded.txt": tmp_path / "excluded.txt",
        "vocabulary/vocab.json": tmp_path / "model/vocab.json",
        "vocabulary/merges/merges.txt": tmp_path / "model/merges.txt",
        "minimal_pairs/0/a.jsonl": tmp_path / "pairs/a.jsonl",
        "eval_pairs/0/a.jsonl": tmp_path / "pairs/a.jsonl",
        "embed/a.jsonl": tmp_path / "anchors/a.jsonl",
        "own/train.tsv": tmp_path / "own/train.tsv",
        **{
            f"{place}/{name}": tmp_path / "model" / name
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
