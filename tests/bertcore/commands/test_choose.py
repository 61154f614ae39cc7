"""Choices of a saved model: those that were scored, of a file and of one context."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tokenizers import Tokenizer

from bertcore.apply.choose import Asked, choose
from bertcore.apply.finetuned import FineTuned
from bertcore.commands.main import main
from bertcore.errors import BAD_INPUT
from bertcore.examples.schema import MULTIPLE_CHOICE, ExampleSet
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
    """Fine-tuned for two epochs, with contexts that are cut, questions, and two to four choices."""

    def row(number: int) -> dict[str, Any]:
        words = ["red", "green", "the river", "a table"]
        choices = [words[(number + place) % 4] for place in range(2 + number % 3)]
        context = "where is the cat " * (1 + number % 4)
        return {"context": context, "question": "on the", "choices": choices, "label": number % 2}

    rows = [row(number) for number in range(24)]
    examples = make_examples("multiple_choice", None, ["accuracy"], train=rows, dev=rows)
    result = Finetuning(make_task(epochs=2, sequence_length=16), examples, tokenizer).run(config)
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer, tmp_path / "tokenizer", lowercase=True)
    result.save_model(tmp_path / "model", tmp_path / "tokenizer")
    return result, examples, tmp_path / "model"


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_choices_of_a_file_are_those_that_were_scored(
    saved: Saved, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, examples, model = saved
    rows = examples.splits["dev"].to_pylist()
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["choose", "--model", str(model), "--file", str(tmp_path / "in.jsonl"), "--question-column", "question"]
    assert main(arguments) == 0
    found = lines(capsys)
    assert [row["index"] for row in found] == result.predictions["dev"].predicted
    assert len({row["index"] for row in found}) > 1
    assert [row["number"] for row in found] == [*range(1, len(rows) + 1)]
    for asked, row in zip(rows, found, strict=True):
        assert row["question"] == asked["question"]
        assert sorted(each["index"] for each in row["ranked"]) == list(range(len(asked["choices"])))
        probabilities = [each["probability"] for each in row["ranked"]]
        assert sum(probabilities) == pytest.approx(1.0) and probabilities == sorted(probabilities, reverse=True)
        assert row["ranked"][0] == {name: row[name] for name in ("choice", "index", "probability")}
        assert row["choice"] == asked["choices"][row["index"]] and row["context"] == asked["context"]


def test_columns_of_a_table_and_the_best_of_each(
    saved: Saved, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, examples, model = saved
    rows = examples.splits["dev"].to_pylist()
    with (tmp_path / "in.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sentence", "asked", "c0", "c1", "c2", "c3"])
        writer.writerows(
            [row["context"], row["question"], *row["choices"], *[""] * (4 - len(row["choices"]))] for row in rows
        )
    columns = ["--context-column", "sentence", "--question-column", "asked"]
    columns += ["--choices-column", "c0", "c1", "c2", "c3"]
    out = tmp_path / "out.csv"
    asked = ["choose", "--model", str(model), "--file", str(tmp_path / "in.csv"), *columns]
    assert main([*asked, "--top", "1", "--out", str(out)]) == 0
    with out.open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [int(row["index"]) for row in found] == result.predictions["dev"].predicted
    assert list(found[0]) == ["number", "rank", "choice", "index", "probability", "context", "question"]


@pytest.mark.parametrize("as_file", [False, True])
def test_one_context(as_file: bool, saved: Saved, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result, examples, model = saved
    row = examples.splits["dev"].to_pylist()[5]
    context = row["context"]
    if as_file:
        (tmp_path / "context.txt").write_text(context)
        context = str(tmp_path / "context.txt")
    given = ["--context", context, "--question", row["question"], *row["choices"]]
    assert main(["choose", "--model", str(model), *given]) == 0
    (found,) = lines(capsys)
    assert found["index"] == result.predictions["dev"].predicted[5] and len(found["ranked"]) == len(row["choices"])


def test_a_model_of_others_reads_as_much_as_it_can(saved: Saved, capsys: pytest.CaptureFixture[str]) -> None:
    """Without `finetuning` in its config.json, as `transformers` writes it."""
    _, _, model = saved
    path = model / "config.json"
    path.write_text(
        json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != READING})
    )
    loaded = FineTuned.load(model, "choose")
    found = choose(loaded, [Asked("the red cat " * 40, ["a dog", "the river"]), Asked("a", ["b", "c", "d"])])
    assert [len(row["ranked"]) for row in found] == [2, 3]
    table = pa.Table.from_pylist([{"id": "0", "context": "a " * 99, "choices": ["b", "c"]}], MULTIPLE_CHOICE)
    assert loaded.family.featurize(table).lengths.tolist() == [64, 64]  # the positions of the model
    assert main(["choose", "--model", str(model), "--context", "a", "b", "c", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "number,rank,choice,index,probability,context,question"


def test_what_cannot_be_chosen_is_one_line(
    saved: Saved, config: BertConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, model = saved
    save_pretrained(BertForPreTraining(config), tmp_path / "encoder")
    (tmp_path / "one.jsonl").write_text('{"context": "a", "choices": ["b"]}\n')
    for arguments, said in (
        ([str(tmp_path / "encoder"), "--context", "a", "b", "c"], "expected a head for choices; give models/finetuned"),
        ([str(model), "--context", "a"], "found no --context with its choices, expected both of them, or --file alone"),
        ([str(model), "a", "b"], "found no --context with its choices"),
        ([str(model), "--context", "a", "b"], "context 'a': found 1 of the choices that an example has, expected two"),
        ([str(model), "--context", "a", "b", " "], "context 'a': found an empty choice at place 1 from 0"),
        ([str(model), "--context", " ", "b", "c"], "found an empty context, expected words"),
        ([str(model), "--context", "a", "b", "c", "--top", "0"], "--top: found 0, expected at least 1"),
        ([str(model), "--file", str(tmp_path / "one.jsonl")], "one.jsonl:1: found 1 of the choices"),
        ([str(model), "--file", str(tmp_path / "one.jsonl")], "an example has, expected two or more; correct it\n"),
        ([str(model), "--file", str(tmp_path / "none.jsonl")], "none.jsonl"),
        ([str(model), "--file", "a.csv", "--question", "which"], "--question: found it beside --file, where it has no"),
        ([str(model), "--context", "a", "b", "c", "--context-column", "x"], "--context-column: found it beside --con"),
    ):
        assert main(["choose", "--model", *arguments]) == BAD_INPUT
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    assert main(["classify", "--model", str(model), "a"]) == BAD_INPUT
    assert "for this one there is `bertcore choose`" in capsys.readouterr().err
