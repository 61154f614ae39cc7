"""The command on a small tree, as the stages `examples` and `finetune` leave it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bertcore.evaluation.bootstrap import compare
from bertcore.evaluation.per_example import RECORDS_FILE, Records, Units
from bertcore.evaluation.scoring import units
from bertcore.examples import schema
from bertcore.examples.schema import ExampleSet
from tasks import linear
from tasks.paths import EXAMPLES, METRICS, PREDICTIONS

SPLITS = {"train": 90, "dev": 40}
LIMITS = {"max_train_examples": 60, "choice_fraction": 0.2}
TRAINED_ON = 48


def example_set() -> ExampleSet:
    """Which of two words is the second one; no single word tells."""
    tables = {
        split: pa.table(
            {
                "id": [f"{split}{n}" for n in range(count)],
                "text_a": [f"name{n} {'not good' if n % 2 else 'good not'} {split}" for n in range(count)],
                "text_b": [None] * count,
                "label": [str(n % 2) for n in range(count)],
            },
            schema=schema.CLASSIFICATION,
        )
        for split, count in SPLITS.items()
    }
    return ExampleSet(family="classification", labels=["0", "1"], metrics=["accuracy"], splits=tables)


def said(examples: ExampleSet, wrong: int) -> Units:
    gold = examples.splits["dev"]["label"].to_pylist()
    other = {"0": "1", "1": "0"}
    return units(examples, examples.splits["dev"], [other[each] for each in gold[:wrong]] + gold[wrong:], "accuracy")[1]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExampleSet:
    monkeypatch.chdir(tmp_path)
    examples = example_set()
    schema.write(examples, EXAMPLES / "order")
    runs = {
        "pretrained": [said(examples, wrong) for wrong in (19, 20, 21)],
        "majority": [said(examples, 20)],
        "bag_of_words": [said(examples, 18)],
    }
    ids = examples.splits["dev"]["id"].to_pylist()
    Records(metric="accuracy", ids=ids, runs=runs).write(PREDICTIONS / "order" / RECORDS_FILE)
    write_metrics("order")
    return examples


def write_metrics(name: str, **changed: Any) -> None:
    counts = {split: {} for split in ("train", "choice", "dev")}
    metrics = {"format": "table", "protocol": LIMITS, "counts": counts, "train_examples": TRAINED_ON}
    path = METRICS / "finetune" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(metrics | changed))


def test_the_table_and_its_numbers(tree: ExampleSet, capsys: pytest.CaptureFixture[str]) -> None:
    assert linear.main(["--json", "linear.json"]) == 0
    header, rule, row = capsys.readouterr().out.splitlines()
    assert header.startswith("| Task | Metric | Simple baseline | Linear | Random |") and rule.count(":--") == 3
    assert row.startswith("| order | accuracy | 55.0 bag of words | 100.0 | – | 50.0 | −50.0 (")
    assert row.endswith(" | linear better |")
    found = json.loads(Path("linear.json").read_text())["order"]
    lead = compare("accuracy", [said(tree, wrong) for wrong in (19, 20, 21)], [said(tree, 0)])
    assert found["lead"] == pytest.approx(vars(lead))
    assert (found["linear"], found["random_initialisation"], found["dev_examples"]) == (1.0, None, 40)
    assert found["train_examples"] == TRAINED_ON


@pytest.mark.parametrize(
    ("low", "high", "count", "verdict"),
    [
        *[(0.1, 0.3, 40, "better"), (-0.1, 0.3, 40, "as good"), (-0.3, -0.1, 40, "linear better")],
        (0.1, 0.3, 29, "too few examples"),
    ],
)
def test_verdicts(low: float, high: float, count: int, verdict: str, tree: ExampleSet) -> None:
    found = linear.beside("order", linear.read("order"))
    lead = replace(found.lead, low=low, high=high)
    assert replace(found, lead=lead, dev_examples=count).verdict == verdict


def test_what_has_no_linear_model_is_left_out_or_refused(tree: ExampleSet, capsys: pytest.CaptureFixture[str]) -> None:
    choice = {"id": "a", "context": "c", "question": None, "choices": ["a", "b"], "label": 1}
    table = pa.Table.from_pylist([choice], schema.MULTIPLE_CHOICE)
    choices = ExampleSet(
        family="multiple_choice", labels=None, metrics=["accuracy"], splits={"train": table, "dev": table}
    )
    schema.write(choices, EXAMPLES / "copa")
    runs = {"pretrained": [np.ones((1, 1))], "majority": [np.ones((1, 1))]}
    Records(metric="mean", ids=["a"], runs=runs).write(PREDICTIONS / "copa" / RECORDS_FILE)
    write_metrics("copa", counts={}, train_examples=1)
    assert linear.main([]) == 0
    out, error = capsys.readouterr()
    assert "order" in out and "copa" not in out
    assert error == "without copa: " + error.removeprefix("without copa: ") and "found the family" in error
    assert linear.main(["copa"]) == 2
    assert "error: task copa: found the family multiple_choice" in capsys.readouterr().err


def test_errors_are_one_line(tree: ExampleSet, capsys: pytest.CaptureFixture[str]) -> None:
    def error(*arguments: str) -> str:
        assert linear.main(arguments) == 2
        out, found = capsys.readouterr()
        assert out == "" and found.count("\n") == 1
        return found

    assert "data/examples/other/task.json: not found" in error("other")
    assert "--json no/file: found no directory no, expected one; make it" in error("--json", "no/file")
    write_metrics("order", train_examples=47)
    assert "order.json: found 47 training examples, expected the 48 of data/examples/order; run" in error("order")
    write_metrics("order", protocol={})
    assert "order.json: not readable ('max_train_examples'), expected what stage finetune says" in error("order")
    write_metrics("order")
    dev = tree.splits["dev"].slice(1)
    schema.write(replace(tree, splits=tree.splits | {"dev": dev}), EXAMPLES / "order")
    assert "found other examples than in data/examples/order, expected its dev; run `dvc repro" in error()
    (PREDICTIONS / "order" / RECORDS_FILE).unlink()
    assert "predictions: found no task with examples.parquet and a linear model, expected one" in error()
