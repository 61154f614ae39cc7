"""A saved model with one file that is not what it should be: the command that reads it says so in one line."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from bertcore.commands.main import main
from bertcore.errors import BAD_INPUT
from bertcore.model.bert import BertConfig, BertForSequenceClassification
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer


@pytest.fixture
def saved(tokenizer: Tokenizer, config: BertConfig, tmp_path: Path) -> Path:
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer, tmp_path / "tokenizer", lowercase=True)
    torch.manual_seed(1)
    labels = {"id2label": {"0": "no", "1": "yes"}}
    save_pretrained(BertForSequenceClassification(config, 2), tmp_path / "model", tmp_path / "tokenizer", labels)
    return tmp_path / "model"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that refuses what it was given."""
    capsys.readouterr()
    assert main(list(arguments)) == BAD_INPUT
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_a_tokenizer(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in (b"{", b"[]", b'{"model": {}}', b"\xff\xfe"):
        (saved / "tokenizer.json").write_bytes(content)
        assert f"error: {saved}/tokenizer.json: not " in said(capsys, "classify", "a", "--model", str(saved))


@pytest.mark.parametrize("command", ["classify", "embed"])
def test_sizes_that_the_weights_do_not_have_are_not_allocated(
    command: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**values, "vocab_size": 10**12}))  # 128 TB
    found = said(capsys, command, "a", "--model", str(saved))
    assert "word_embeddings.weight: found shape (92, 32), expected (1000000000000, 32)" in found


def test_weights_elsewhere(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (saved / "model.safetensors").rename(saved.parent / "model.safetensors")
    index = {"weight_map": {"a": "../model.safetensors"}}
    (saved / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "found no weight_map of names to files beside it" in said(capsys, "classify", "a", "--model", str(saved))


def test_the_names_of_labels(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**values, "id2label": {"no": "0", "yes": "1"}}))
    found = said(capsys, "classify", "a", "--model", str(saved))
    assert f"{saved}/config.json: id2label: found the keys 'no', 'yes', expected numbers" in found


def test_modules_of_sentence_transformers(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in ("{}", "[1]", '[{"type": 1, "path": ""}]'):
        (saved / "modules.json").write_text(content)
        assert f"{saved}/modules.json: modules: found {json.loads(content)!r}, expected a list of objects" in said(
            capsys, "embed", "a", "--model", str(saved)
        )


def test_a_card(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (saved / "README.md").write_bytes(b"\xff")
    assert f"{saved}/README.md: byte 0 is not UTF-8" in said(
        capsys, "push", str(saved), "own/model", "--license", "mit"
    )


def test_a_query_of_no_text(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, found = str(saved), "the command line: found a text that is not UTF-8"
    assert found in said(capsys, "search", "\udcff", "--in", place, "--model", place)
    assert found in said(capsys, "similar", "a", "\udcff", "--model", place)
