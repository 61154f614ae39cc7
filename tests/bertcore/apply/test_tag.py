"""A saved tagger tags by itself, with its chain; what is no tagger is refused. That the tags are those of the stage's
predictions: tests/tasks/test_finetune.py."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from bertcore.apply.tag import main
from bertcore.finetune.crf import CRF, LinearChain
from bertcore.finetune.family import READING, label_names
from bertcore.finetune.tagging import without_chain
from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.model.config import build_head
from bertcore.model.huggingface import save_pretrained
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
    arguments = [str(saved), str(tmp_path / "in.txt"), str(tmp_path / "out.txt")]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == {"sentences": 3, "words": 34}
    rows = [line.split() for line in (tmp_path / "out.txt").read_text().splitlines()]
    assert rows[:6] == [["the", "B-X"], ["red", "I-X"], ["Cat", "I-X"], [".", "I-X"], [], []]
    assert rows[6:] == [["dog", "B-X"], *[["dog", "I-X"]] * 29, []]


@pytest.mark.parametrize("kind", ["encoder", "headless", "short", "silent"])
def test_what_is_no_tagger_is_one_line(
    kind: str, saved: Path, config: BertConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("the cat\n")
    model, said = saved, "found architectures ['BertForPreTraining'] and id2label None"
    if kind == "encoder":
        model = tmp_path / "encoder"
        save_pretrained(BertForPreTraining(config), model, tmp_path / "tokenizer")
    elif kind == "headless":
        save_pretrained(BertForPreTraining(config), tmp_path / "encoder")
        (tmp_path / "encoder/model.safetensors").replace(saved / "model.safetensors")
        said = "found no classifier.bias, classifier.weight, expected the whole tagger"
    else:
        said = "finetuning.sequence_length: found 2, expected at least 8 tokens"
        if kind == "silent":
            said = "finetuning: found None, expected sequence_length, doc_stride"
        values = json.loads((saved / "config.json").read_text())
        values[READING] = None if kind == "silent" else {"sequence_length": 2, "doc_stride": 1}
        (saved / "config.json").write_text(json.dumps(values))
    assert main([str(model), str(tmp_path / "in.txt"), str(tmp_path / "out.txt")]) == 1
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and not (tmp_path / "out.txt").exists()
