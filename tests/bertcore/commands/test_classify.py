"""Classes, sets and numbers of a saved model: those that the stage's predictions hold, to the last digit."""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import transformers
from tokenizers import Tokenizer

from bertcore.apply.uses import Description
from bertcore.commands.main import main
from bertcore.compressed import read_json
from bertcore.errors import BAD_INPUT
from bertcore.examples.schema import ExampleSet
from bertcore.export.card import usage
from bertcore.export.directory import read_config
from bertcore.finetune.config import RunConfig
from bertcore.finetune.result import Result
from bertcore.finetune.run import Finetuning
from bertcore.model.bert import BertConfig
from bertcore.model.config import ARCHITECTURES
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import READING
from bertcore.tokens.wordpiece import save_tokenizer
from tests.bertcore.finetune.conftest import configs

__all__ = ["configs"]

Maker = Callable[..., tuple[Result, ExampleSet, Path]]
COLOURS = ("red", "green", "blue")


@pytest.fixture
def make(
    tokenizer: Tokenizer,
    configs: dict[str, EncoderConfig],
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    tmp_path: Path,
) -> Maker:
    """A model fine-tuned for an epoch and saved, with its examples."""

    def made(
        family: str, labels: list[str] | None, rows: list[dict[str, Any]], architecture: str = "bert", **fields: Any
    ) -> tuple[Result, ExampleSet, Path]:
        metric = {"classification": "accuracy", "multi_label": "micro_f1"}[family] if labels else "pearson"
        examples = make_examples(family, labels, [metric], train=rows, dev=rows)
        result = Finetuning(make_task(epochs=1, **fields), examples, tokenizer).run(configs[architecture])
        (tmp_path / "tokenizer").mkdir()
        save_tokenizer(tokenizer, tmp_path / "tokenizer", lowercase=True)
        result.save_model(tmp_path / "model", tmp_path / "tokenizer")
        result.save_predictions(tmp_path / "predictions")
        return result, examples, tmp_path / "model"

    return made


def texts(count: int) -> list[str]:
    """Of different lengths, some longer than a sequence of the task."""
    return [f"the {COLOURS[n % 3]} cat is on the table " * (1 + n % 7) for n in range(count)]


def predictions(path: Path) -> list[str]:
    rows = (path / "predictions" / "dev.tsv").read_text().splitlines()[1:]
    return [row.split("\t")[1] for row in rows]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("long_texts", ["truncate", "windows"])
def test_classes_are_the_predictions_of_the_stage(
    architecture: str, long_texts: str, make: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text_a": text, "label": COLOURS[n % 3]} for n, text in enumerate(texts(40))]
    _, _, model = make("classification", list(COLOURS), rows, architecture, long_texts=long_texts, sequence_length=16)
    (tmp_path / "in.txt").write_text("".join(row["text_a"] + "\n" for row in rows))
    out = tmp_path / "out.csv"
    assert main(["classify", "--model", str(model), "--file", str(tmp_path / "in.txt"), "--out", str(out)]) == 0
    with out.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["label"] for row in found] == predictions(tmp_path)
    assert [row["text"] for row in found] == [row["text_a"] for row in rows]
    assert main(["classify", "--model", str(model), rows[0]["text_a"], "--probabilities"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["label"] == found[0]["label"] == next(iter(row["probabilities"]))
    assert sum(row["probabilities"].values()) == pytest.approx(1) and row["probability"] == max(
        row["probabilities"].values()
    )


@pytest.mark.parametrize(
    ("family", "labels", "answer", "nothing"),
    [
        ("classification", list(COLOURS), "red", {"label": None, "probability": None, "probabilities": {}}),
        ("multi_label", list(COLOURS), ["red"], {"labels": [], "probabilities": {}}),
        ("classification", None, 1.0, {"score": None}),
    ],
)
def test_a_blank_line_keeps_its_number_and_has_no_answer(
    family: str,
    labels: list[str] | None,
    answer: Any,
    nothing: dict[str, Any],
    make: Maker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    field = "labels" if family == "multi_label" else "label"
    _, _, model = make(family, labels, [{"text_a": text, field: answer} for text in texts(8)])
    (tmp_path / "in.txt").write_text("\nthe red cat\n")
    command = "classify" if labels else "regress"
    more = ["--probabilities"] if labels else []
    assert main([command, "--model", str(model), "--file", str(tmp_path / "in.txt"), *more]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"number": 1, "text": "", **nothing}
    assert second["number"] == 2 and second.keys() == first.keys() and None not in second.values()


def test_what_a_model_does_not_see_of_a_text_is_said(
    make: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text_a": text, "label": COLOURS[n % 3]} for n, text in enumerate(texts(40))]
    _, _, model = make("classification", list(COLOURS), rows, sequence_length=16)
    assert main(["classify", "--model", str(model), "the red cat", "the red cat " * 20, "a dog " * 20]) == 0
    assert capsys.readouterr().err.endswith("texts cut to what the model reads: 2\n")
    assert main(["classify", "--model", str(model), "the red cat"]) == 0
    assert "cut" not in capsys.readouterr().err


@pytest.fixture
def published(tokenizer: Tokenizer, tmp_path: Path) -> Callable[[int], Path]:
    """A classifier as transformers writes one of two labels without names, with so many entries."""

    def made(vocab_size: int) -> Path:
        config = transformers.BertConfig(
            vocab_size=vocab_size, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
        )
        transformers.BertForSequenceClassification(config).save_pretrained(tmp_path / "published")
        save_tokenizer(tokenizer, tmp_path / "published", lowercase=True)
        return tmp_path / "published"

    return made


def test_two_labels_without_names_have_those_of_transformers(
    tokenizer: Tokenizer, published: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model = published(tokenizer.get_vocab_size())
    assert "id2label" not in read_json(model / "config.json")
    assert main(["classify", "--model", str(model), "the red cat", "--probabilities"]) == 0
    assert set(json.loads(capsys.readouterr().out)["probabilities"]) == {"LABEL_0", "LABEL_1"}
    assert read_config(model, forgive=True).num_labels == 2


@pytest.mark.parametrize("command", ["classify", "embed"])
def test_a_tokenizer_of_more_entries_than_the_model_has_is_one_line(
    command: str, tokenizer: Tokenizer, published: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model = published(tokenizer.get_vocab_size() - 1)
    capsys.readouterr()
    assert main([command, "--model", str(model), "the red cat"]) == BAD_INPUT
    said = capsys.readouterr().err
    assert "expected at least the" in said and said.count("\n") == 1


def test_numbers_of_pairs_are_the_predictions_of_the_stage_digit_for_digit(make: Maker, tmp_path: Path) -> None:
    rows = [
        {"text_a": a, "text_b": b, "label": n / 9}
        for n, (a, b) in enumerate(zip(texts(40), texts(41)[1:], strict=True))
    ]
    _, _, model = make("classification", None, rows)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"x": r["text_a"], "y": r["text_b"]}) + "\n" for r in rows))
    arguments = ["--file", str(tmp_path / "in.jsonl"), "--column", "x", "--pair-column", "y"]
    out = tmp_path / "out.tsv"
    assert main(["regress", "--model", str(model), *arguments, "--out", str(out)]) == 0
    header, *lines = out.read_text().splitlines()
    assert header == "number\tscore\ttext\tpair"
    assert [line.split("\t")[1] for line in lines] == predictions(tmp_path)


def test_sets_of_labels_are_the_predictions_of_the_stage(
    make: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text_a": text, "labels": [COLOURS[n % 3], "cat"]} for n, text in enumerate(texts(30))]
    result, _, model = make("multi_label", [*COLOURS, "cat"], rows)
    out = tmp_path / "out.parquet"
    assert main(["classify", "--model", str(model), *(row["text_a"] for row in rows), "--out", str(out)]) == 0
    assert pq.read_table(out)["labels"].to_pylist() == result.predictions["dev"].predicted
    assert main(["classify", "--model", str(model), "red", "--probabilities"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["labels"] == [name for name in [*COLOURS, "cat"] if row["probabilities"][name] > 0.5]


def test_a_published_classifier_gives_what_transformers_gives(
    tokenizer: Tokenizer, config: BertConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which says nothing of how its texts are to be read, and has another dropout in its config."""
    sizes = {name: getattr(config, name) for name in ("vocab_size", "hidden_size", "num_hidden_layers")}
    torch.manual_seed(3)
    names = {"id2label": dict(enumerate(COLOURS)), "label2id": {name: n for n, name in enumerate(COLOURS)}}
    published = transformers.BertConfig(**sizes, num_attention_heads=2, intermediate_size=64, **names)
    theirs = transformers.BertForSequenceClassification(published).eval()
    with torch.no_grad():
        theirs.classifier.weight.normal_(std=0.3)
    theirs.save_pretrained(tmp_path / "model")
    save_tokenizer(tokenizer, tmp_path / "model", lowercase=True)
    assert main(["classify", "--model", str(tmp_path / "model"), "red cat", "blue", "--probabilities"]) == 0
    for text, line in zip(("red cat", "blue"), capsys.readouterr().out.splitlines(), strict=True):
        with torch.no_grad():
            logits = theirs(torch.tensor([tokenizer.encode(text).ids])).logits[0].double()
        row = json.loads(line)["probabilities"]
        np.testing.assert_allclose([row[name] for name in COLOURS], torch.softmax(logits, 0), rtol=1e-4)


def test_a_wrong_use_is_one_line_that_names_the_right_one(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text_a": text, "label": float(n)} for n, text in enumerate(texts(10))]
    _, _, model = make("classification", None, rows)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    for arguments, said in (
        (
            ["classify", "--model", str(model), "a"],
            f"{model}: found BertForSequenceClassification (regression), expected",
        ),
        (
            ["tag", "--model", str(model), "a"],
            "expected a head for tags of words; give models/finetuned/TASK of such a",
        ),
        (["tag", "--model", str(model), "a"], "; for this one there is `bertcore regress`"),
        (["fill-mask", "--model", str(model), "[MASK]"], "expected a masked-LM head; give a directory such as"),
        (
            ["classify", "a"],
            "--model: found no model with a head for classes of texts or a head for sets of labels in ",
        ),
        (["regress", "--model", "nowhere", "a"], "nowhere/config.json: not found"),
        (["regress", "--model", str(model), "a", "b", "--pair", "c"], "--pair: found 2 first texts, expected one"),
        (["regress", "--model", str(model), " ", "--pair", ""], "found the text (' ', ''), expected words; give some"),
        (["similar", "--model", str(model), "a", " "], "found the text ' ', expected words; give some"),
        (["regress", "--model", str(model), "a", "--column", "b"], "--column: found b beside a text, expected a table"),
        (["regress", "--model", str(model), "a", "--file", "b.txt"], "found a text and --file b.txt, expected one"),
        (
            ["regress", "--model", str(model), "a", "--out", "b.xls"],
            "--out: found 'b.xls', expected the ending .jsonl,",
        ),
    ):
        assert main(arguments) == BAD_INPUT
        error = capsys.readouterr().err
        assert error.startswith("error: ") and said in error and error.count("\n") == 1, error


def test_the_default_is_the_last_model_of_the_tree_for_the_use(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text_a": text, "label": COLOURS[n % 3]} for n, text in enumerate(texts(9))]
    _, _, model = make("classification", list(COLOURS), rows)
    (tmp_path / "models" / "finetuned").mkdir(parents=True)
    model.rename(tmp_path / "models" / "finetuned" / "colours")
    for hidden in (".colours.rejected", ".colours-unfinished"):
        shutil.copytree(tmp_path / "models/finetuned/colours", tmp_path / "models/finetuned" / hidden)
        (tmp_path / "models/finetuned" / hidden / "config.json").touch()
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["classify", "red"]) == 0
    assert capsys.readouterr().err == "model: models/finetuned/colours\n"
    config = json.loads((tmp_path / "models/finetuned/colours/config.json").read_text())
    assert config[READING]["sequence_length"] == 32
    assert main(["regress", "red"]) == BAD_INPUT


def test_a_model_of_pairs_is_asked_about_pairs_and_found_for_them(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text_a": text, "label": COLOURS[n % 3]} for n, text in enumerate(texts(9))]
    for name, given in (("one", rows), ("two", [{**row, "text_b": "the red cat"} for row in rows])):
        _, _, model = make("classification", list(COLOURS), given)
        (tmp_path / "models" / "finetuned").mkdir(parents=True, exist_ok=True)
        model.rename(tmp_path / "models" / "finetuned" / name)  # that of pairs is the newest
        shutil.rmtree(tmp_path / "tokenizer")
    monkeypatch.chdir(tmp_path)
    for arguments, found in ((["red"], "one"), (["red", "--pair", "green"], "two")):
        capsys.readouterr()
        assert main(["classify", *arguments]) == 0
        assert capsys.readouterr().err == f"model: models/finetuned/{found}\n"
    for arguments, said in ((["two", "red"], "found one text, expected two"), (["one", "red", "--pair", "a"], "two")):
        name, *given = arguments
        assert main(["classify", "--model", f"models/finetuned/{name}", *given]) == BAD_INPUT
        assert said in capsys.readouterr().err
    one, two = (Description.read(Path("models/finetuned") / name) for name in ("one", "two"))
    other = replace(one, values={key: value for key, value in one.values.items() if key != READING})
    unlike = {pairs: [each.unlike(pairs) for each in (one, other, two)] for pairs in (None, False, True)}
    assert unlike == {None: [0, 0, 0], False: [0, 1, 2], True: [2, 1, 0]}
    for name, pairs in (("one", False), ("two", True)):
        config = read_json(Path("models/finetuned") / name / "config.json")
        assert ('--pair "another text"' in usage("text-classification", name, config)) is pairs
