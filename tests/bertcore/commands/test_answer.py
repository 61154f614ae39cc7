"""Answers of a saved model: those that were scored, for a file and for one question with its context."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from bertcore.commands.main import main
from bertcore.compressed import read_json
from bertcore.errors import BAD_INPUT
from bertcore.evaluation.squad import to_articles
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import RunConfig
from bertcore.finetune.result import Result
from bertcore.finetune.run import Finetuning
from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.model.huggingface import READING, save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer

Saved = tuple[Result, ExampleSet, Path]


@pytest.fixture
def saved(
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    tmp_path: Path,
) -> Saved:
    """Fine-tuned for two epochs, with questions that have no answer and contexts that need several windows."""

    def row(colour: str, noun: str, is_answerable: bool) -> dict[str, Any]:
        context = f"{noun} is the {colour} one. " * 3
        answers = [{"text": colour, "answer_start": context.index(colour)}] if is_answerable else []
        return {"context": context, "question": f"what colour is the {noun}", "answers": answers}

    rows = [row(a, b, b != "city") for a in ("red", "green", "blue") for b in ("cat", "dog", "bird", "city")]
    examples = make_examples("question_answering", None, ["f1"], train=rows, dev=rows)
    fields = {"sequence_length": 18, "max_query_length": 7, "doc_stride": 5, "max_answer_length": 4, "n_best": 3}
    task = make_task(epochs=2, null_threshold="tuned", choice_fraction=0.3, **fields)
    result = Finetuning(task, examples, tokenizer).run(config)
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer, tmp_path / "tokenizer", lowercase=True)
    result.save_model(tmp_path / "model", tmp_path / "tokenizer")
    return result, examples, tmp_path / "model"


def test_answers_to_a_file_are_those_that_were_scored(saved: Saved, tmp_path: Path) -> None:
    result, examples, model = saved
    reading = json.loads((model / "config.json").read_text())[READING]
    assert reading["null_threshold"] == result.tuned["null_threshold"] and reading["max_query_length"] == 7
    (tmp_path / "dev.json").write_text(json.dumps({"data": to_articles(examples.splits["dev"])}))
    out = tmp_path / "predictions.json"
    assert main(["answer", "--model", str(model), "--squad", str(tmp_path / "dev.json"), "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found == result.predictions["dev"].predicted and len(set(found.values())) > 1


@pytest.mark.parametrize("as_file", [False, True])
def test_one_question(as_file: bool, saved: Saved, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result, examples, model = saved
    row = examples.splits["dev"].to_pylist()[0]
    context = row["context"]
    if as_file:
        (tmp_path / "context.txt").write_text(context)
        context = str(tmp_path / "context.txt")
    arguments = ["answer", "--model", str(model), "--question", row["question"], "--context", context]
    assert main([*arguments, "--top", "9"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["answer"] == result.predictions["dev"].predicted[row["id"]]
    assert [each["text"] for each in found["best"]] == [
        each["text"]
        for each in result.predictions["dev"].n_best[row["id"]]  # type: ignore[attr-defined]
    ]
    assert sum(each["probability"] for each in found["best"]) == pytest.approx(1.0)
    for each in found["best"]:
        assert each["text"] == ("" if each["start"] is None else row["context"][each["start"] : each["end"]])


def test_a_table_of_questions(saved: Saved, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result, examples, model = saved
    rows = examples.splits["dev"].to_pylist()
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["answer", "--model", str(model), "--file", str(tmp_path / "in.jsonl")]) == 0
    found = [json.loads(line)["answer"] for line in capsys.readouterr().out.splitlines()]
    assert found == [result.predictions["dev"].predicted[row["id"]] for row in rows]


def test_what_lacks_its_question_or_its_context_keeps_its_place(
    saved: Saved, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, examples, model = saved
    row, file = examples.splits["dev"].to_pylist()[0], tmp_path / "in.jsonl"
    rows = [{**row, "context": " "}, row, {**row, "question": ""}]
    file.write_text("".join(json.dumps(each) + "\n" for each in rows))
    assert main(["answer", "--model", str(model), "--file", str(file)]) == 0
    out, err = capsys.readouterr()
    found = list(map(json.loads, out.splitlines()))
    assert [each["answer"] for each in found] == [None, result.predictions["dev"].predicted[row["id"]], None]
    assert [each["number"] for each in found] == [1, 2, 3] and found[0]["question"] == row["question"]
    assert err == f"{file}: texts without a word: 2 (the first is number 1)\n"


def test_what_cannot_be_answered_is_one_line(
    saved: Saved, config: BertConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, model = saved
    save_pretrained(BertForPreTraining(config), tmp_path / "encoder")
    for arguments, said in (
        (
            [str(tmp_path / "encoder"), "--question", "who", "--context", "a cat"],
            "expected a head for answers in a context; give models/finetuned/TASK",
        ),
        ([str(model), "--question", "who"], "found no --question with a --context"),
        ([str(model), "--question", " ", "--context", "a cat"], "question: found ' ', expected words"),
        ([str(model), "--file", str(tmp_path / "none.jsonl")], "none.jsonl"),
        ([str(model), "--squad", str(tmp_path / "none.json")], "--out: found None, expected a .json file"),
    ):
        assert main(["answer", "--model", *arguments]) == BAD_INPUT
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1


def test_arguments_that_are_no_text_are_one_line(saved: Saved, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, model = saved
    for question, context in (("where \udcff", "a cat"), ("where", "a cat \udcff")):
        assert main(["answer", "--model", str(model), "--question", question, "--context", context]) == BAD_INPUT
        assert "the command line: found a text that is not UTF-8" in capsys.readouterr().err


def test_a_model_of_others_says_that_it_finds_an_answer_always(
    saved: Saved, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    _, _, model = saved
    values = read_json(model / "config.json")
    del values[READING]
    (model / "config.json").write_text(json.dumps(values))
    assert main(["answer", "--model", str(model), "--question", "where", "--context", "a red cat"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"]
    assert "nothing says whether questions may have no answer" in caplog.text


@pytest.mark.parametrize("top", ["0", "-3", "many"])
def test_fewer_than_one_answer_is_refused(top: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["answer", "--question", "who", "--context", "a text", "--top", top]) == BAD_INPUT
    error = capsys.readouterr().err
    assert f"--top: found {top}, expected at least 1; give a whole number" in error and error.count("\n") == 1
