"""A saved tagger tags by itself, with its chain; what is no tagger is refused. That the tags are those of the stage's
predictions: tests/tasks/test_finetune.py."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from bertcore.commands.main import main
from bertcore.errors import BAD_INPUT
from bertcore.finetune.crf import LinearChain
from bertcore.finetune.tagging import without_chain
from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.model.config import build_head
from bertcore.model.huggingface import CRF, READING, label_names, save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer

TAGS = ["B-X", "I-X", "O"]


@pytest.fixture
def saved(tokenizer: Tokenizer, config: BertConfig, tmp_path: Path) -> Path:
    """A model whose chain is stronger than any word: B-X, then I-X to the end."""
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer, tmp_path / "tokenizer", lowercase=True)
    torch.manual_seed(1)
    model = build_head(config, "token_classification", 3)
    model.crf = LinearChain(3)
    with torch.no_grad():
        model.crf.start[0] = model.crf.transitions[0, 1] = model.crf.transitions[1, 1] = 1000.0
    reading = {"sequence_length": 12, "doc_stride": 64}
    extra = {CRF: model.crf.to_config(), READING: reading, **label_names(TAGS)}
    save_pretrained(without_chain(model, 3), tmp_path / "model", tmp_path / "tokenizer", extra)
    return tmp_path / "model"


def test_chain_decides_with_and_without_windows(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("the red Cat .\n\n" + "dog " * 30 + "\n")
    assert main(["tag", "--model", str(saved), "--file", str(tmp_path / "in.txt")]) == 0
    first, empty, long = map(json.loads, capsys.readouterr().out.splitlines())
    assert [(each["word"], each["tag"]) for each in first["words"]] == [
        ("the", "B-X"), ("red", "I-X"), ("Cat", "I-X"), (".", "I-X")
    ]  # fmt: skip
    assert first["entities"] == [{"text": "the red Cat .", "label": "X", "start": 0, "end": 13}]
    assert empty["words"] == empty["entities"] == []
    assert [each["tag"] for each in long["words"]] == ["B-X", *["I-X"] * 29]


def test_words_end_at_marks_or_at_blanks_alone(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "Cat's red-dog: (a.b)."
    for words, expected in (("marks", ["Cat's", "red-dog", ":", "(", "a.b", ")", "."]), ("blanks", text.split())):
        assert main(["tag", "--model", str(saved), text, "--words", words]) == 0
        row = json.loads(capsys.readouterr().out)
        assert [each["word"] for each in row["words"]] == expected
        assert all(text[each["start"] : each["end"]] == each["word"] for each in row["words"])


def test_names_that_are_numbers_are_written_as_such(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "id2label": {"0": 0, "1": 1, "2": 2}}))
    assert main(["tag", "--model", str(saved), "the red cat"]) == 0
    assert [each["tag"] for each in json.loads(capsys.readouterr().out)["words"]] == ["0", "1", "1"]


def test_tags_that_mark_nothing_give_no_entities(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | label_names(["DET", "NOUN", "-LRB-"])))
    assert main(["tag", "--model", str(saved), "the red cat"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert [each["tag"] for each in row["words"]] == ["DET", "NOUN", "NOUN"] and row["entities"] == []


def test_a_table_has_a_row_for_each_word(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tag", "--model", str(saved), "red cat", "dog", "--format", "tsv"]) == 0
    assert capsys.readouterr().out == (
        "number\tword\ttag\tstart\tend\n1\tred\tB-X\t0\t3\n1\tcat\tI-X\t4\t7\n2\tdog\tB-X\t0\t3\n"
    )


def test_a_model_that_says_nothing_of_its_reading_is_read_as_it_can_be(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As models are that others have published."""
    path = saved / "config.json"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != READING}))
    assert main(["tag", "--model", str(saved), "dog " * 200]) == 0  # in windows of the model's 64 positions
    assert len(json.loads(capsys.readouterr().out)["words"]) == 200


@pytest.mark.parametrize("kind", ["encoder", "headless", "short", "partial"])
def test_what_is_no_tagger_is_one_line(
    kind: str, saved: Path, config: BertConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("the cat\n")
    model, said = (
        saved,
        "found BertForPreTraining, expected a head for tags of words; give models/finetuned/TASK of such a task; ",
    )
    if kind == "encoder":
        model = tmp_path / "encoder"
        save_pretrained(BertForPreTraining(config), model, tmp_path / "tokenizer")
    elif kind == "headless":
        save_pretrained(BertForPreTraining(config), tmp_path / "encoder")
        (tmp_path / "encoder/model.safetensors").replace(saved / "model.safetensors")
        said = "found no classifier.bias, classifier.weight, expected the whole model"
    else:
        said = "finetuning.sequence_length: found 2, expected at least 8 tokens"
        if kind == "partial":
            said = "finetuning: found {'doc_stride': 1}, expected sequence_length, doc_stride"
        values = json.loads((saved / "config.json").read_text())
        values[READING] = {"doc_stride": 1} | ({} if kind == "partial" else {"sequence_length": 2})
        (saved / "config.json").write_text(json.dumps(values))
    arguments = ["tag", "--model", str(model), "--file", str(tmp_path / "in.txt"), "--out", str(tmp_path / "out.jsonl")]
    assert main(arguments) == BAD_INPUT
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not (tmp_path / "out.jsonl").exists()
