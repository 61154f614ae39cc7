import json
from pathlib import Path

import pytest

from bertcore.errors import ConfigError, InputError
from bertcore.evaluation.glue import TASK_METRICS, evaluate, evaluate_files, main
from bertcore.examples import glue


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize(
    ("task", "gold", "predicted", "scores"),
    [
        ("CoLA", list("1100"), list("1101"), {"mcc": 1 / 3**0.5}),
        ("MRPC", list("1100"), list("1101"), {"accuracy": 0.75, "f1": 0.8, "mean": 0.775}),
        ("sts-b", [1.0, 2.0, 3.0], [2.0, 4.0, 6.0], {"pearson": 1.0, "spearmanr": 1.0, "mean": 1.0}),
        ("MNLI-mm", ["neutral", "entailment"], ["neutral", "neutral"], {"accuracy": 0.5}),
        ("AX", ["neutral", "entailment"], ["neutral", "neutral"], {"mcc": 0.0}),
    ],
)
def test_metrics_of_the_tasks(task: str, gold: list, predicted: list, scores: dict[str, float]) -> None:
    assert evaluate(task, gold, predicted) == pytest.approx(scores)


def test_every_task_has_metrics() -> None:
    assert set(TASK_METRICS) == {*glue.TASKS, "mnlim", "mnlimm", "ax"}


def test_files_in_any_order_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = write(
        tmp_path / "dev.tsv", "index\tsentence1\tsentence2\tlabel", "0\ta\tb\tentailment", "1\tc\td\tnot_entailment"
    )
    predictions = write(tmp_path / "RTE.tsv", "index\tprediction", "1\tnot_entailment", "0\tnot_entailment", "")
    assert main(["RTE", str(gold), str(predictions)]) == 0
    assert json.loads(capsys.readouterr().out) == {"accuracy": 0.5}


def test_regression_files(tmp_path: Path) -> None:
    header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"
    rows = [f"{index}\tg\tf\ty\t0\ts\ts\ta\tb\t{score}" for index, score in enumerate(("1.0", "2.5", "4.0"))]
    gold = write(tmp_path / "dev.tsv", header, *rows)
    predictions = write(tmp_path / "STS-B.tsv", "index\tprediction", "0\t3", "1\t2", "2\t1")
    expected = {"pearson": -1.0, "spearmanr": -1.0, "mean": -1.0}
    assert evaluate_files("sts-b", gold, predictions) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0\t1"], "CoLA.tsv: no prediction for the index '1' (1 such)"),
        (["0\t1", "1\t1", "2\t1"], "CoLA.tsv: no gold row for the index '2' (1 such)"),
        (["0\t1", "0\t1"], "CoLA.tsv:3: the index '0' stands twice"),
        (["0\t1", "1\tyes"], "CoLA.tsv:3: found the label 'yes', expected one of: 0, 1"),
        (["0 1"], "CoLA.tsv:2: found 1 columns, expected 2"),
    ],
)
def test_bad_predictions_are_named(rows: list[str], message: str, tmp_path: Path) -> None:
    gold = write(tmp_path / "dev.tsv", "gj04\t1\t\tA sentence.", "gj04\t0\t*\tOther a sentence.")
    with pytest.raises(InputError) as error:
        evaluate_files("cola", gold, write(tmp_path / "CoLA.tsv", "index\tprediction", *rows))
    assert message in str(error.value)


def test_unknown_task() -> None:
    with pytest.raises(ConfigError, match="unknown GLUE task 'ColaX'; did you mean 'cola'"):
        evaluate("ColaX", [], [])


def test_gold_labels_of_real_files_score_one(shared_data: Path, tmp_path: Path) -> None:
    for task, folder in (("cola", "CoLA"), ("mrpc", "MRPC"), ("stsb", "STS-B"), ("qnli", "QNLI")):
        path = shared_data / "glue" / folder / "dev.tsv.zst"
        labels = glue.read_file(task, path)["label"].to_pylist()
        rows = [f"{index}\t{label}" for index, label in enumerate(labels)]
        scores = evaluate_files(task, path, write(tmp_path / f"{task}.tsv", "index\tprediction", *rows))
        assert scores == pytest.approx(dict.fromkeys(scores, 1.0))
