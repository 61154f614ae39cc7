import json
import zipfile
from pathlib import Path

import pytest

from bertcore.apply import submission
from bertcore.apply.submission import MEMBERS, Member, main
from bertcore.examples import glue

LABELS = {"stsb": ["-0.25", "3.5", "6.1"], "mnli": ["neutral", "contradiction"]}


@pytest.fixture
def predictions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of all tasks, as stage finetune writes them, for test sets of three rows."""
    small = {name: Member(member.task, member.split, 3) for name, member in MEMBERS.items()}
    monkeypatch.setattr(submission, "MEMBERS", small)
    for member in small.values():
        write(tmp_path / "predictions" / member.task / f"{member.split}.tsv", member.task, 3)
    (tmp_path / "predictions" / "topic").mkdir()
    return tmp_path / "predictions"


def write(path: Path, task: str, rows: int) -> None:
    labels = LABELS.get(task) or glue.TASKS[task].labels or []
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{index}\t{labels[index % len(labels)]}\n" for index in reversed(range(rows))]
    path.write_text("index\tprediction\n" + "".join(lines))


def contents(archive: Path) -> dict[str, str]:
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name).decode() for name in opened.namelist()}


def test_all_tasks(predictions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = predictions.parent / "a.zip", predictions.parent / "b.zip"
    assert main([str(predictions), str(first)]) == main([str(predictions), str(second)]) == 0
    assert json.loads(capsys.readouterr().out.split("\n}\n")[0] + "}") == {"written": list(MEMBERS), "missing": []}
    assert first.read_bytes() == second.read_bytes()
    found = contents(first)
    assert list(found) == [
        *("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv", "MNLI-m.tsv", "MNLI-mm.tsv"),
        *("QNLI.tsv", "RTE.tsv", "WNLI.tsv", "AX.tsv"),
    ]
    assert found["CoLA.tsv"] == "index\tprediction\n0\t0\n1\t1\n2\t0\n"
    assert found["STS-B.tsv"] == "index\tprediction\n0\t0.000000\n1\t3.500000\n2\t5.000000\n"
    assert found["QNLI.tsv"] == "index\tprediction\n0\tentailment\n1\tnot_entailment\n2\tentailment\n"
    assert found["AX.tsv"] == found["MNLI-m.tsv"] == "index\tprediction\n0\tneutral\n1\tcontradiction\n2\tneutral\n"


def test_missing_tasks_are_named(predictions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = predictions.parent / "out.zip"
    (predictions / "cola" / "test.tsv").unlink()
    (predictions / "mnli" / "ax.tsv").unlink()
    assert main([str(predictions), str(archive)]) == 2 and not archive.exists()
    assert "no predictions for CoLA.tsv (cola/test.tsv), AX.tsv (mnli/ax.tsv), expected" in capsys.readouterr().err
    assert main([str(predictions), str(archive), "--partial"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == ["CoLA.tsv", "AX.tsv"]
    assert len(contents(archive)) == 9


def test_of_a_folder_without_predictions_no_part_is_advised(
    predictions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (predictions / "none").mkdir()
    assert main([str(predictions / "none"), str(predictions.parent / "out.zip"), "--partial"]) == 2
    said = capsys.readouterr().err
    assert "no predictions for CoLA.tsv" in said and "or take --partial" not in said


def test_folders_of_other_names(predictions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = predictions.parent / "out.zip"
    (predictions / "cola").rename(predictions / "my-cola")
    (predictions / "sst2").rename(predictions / "SST-2")
    assert main([str(predictions), str(archive), "--task", "CoLA=my-cola"]) == 0
    capsys.readouterr()
    for option, message in (
        ("CoLA=cola", "no such folder in"),
        ("CoLAX=my-cola", "unknown GLUE task 'CoLAX'"),
        ("AX=mnli", "no folder of its own"),
    ):
        assert main([str(predictions), str(archive), "--task", option]) == 2
        assert message in capsys.readouterr().err
    (predictions / "sst2").mkdir()
    assert main([str(predictions), str(archive)]) == 2
    assert "found SST-2 and sst2, expected one folder for sst2" in capsys.readouterr().err
    assert main([str(predictions / "none"), str(archive)]) == 2
    assert "none: no such directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0\t1\n1\t1\n", "found 2 predictions and the index '2' out of place, expected those of the 3 rows"),
        ("0\t1\n1\t1\n2\t1\n3\t1\n", "found 4 predictions and the index '3' out of place"),
        ("0\t1\n1\tyes\n2\t1\n", "test.tsv:3: found the label 'yes', expected one of: 0, 1"),
    ],
)
def test_other_predictions_are_refused(
    content: str, message: str, predictions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (predictions / "cola" / "test.tsv").write_text("index\tprediction\n" + content)
    archive = predictions.parent / "out.zip"
    assert main([str(predictions), str(archive)]) == 2 and not archive.exists()
    assert message in capsys.readouterr().err


def test_the_numbers_of_rows_are_those_of_the_real_test_sets(shared_data: Path) -> None:
    for name in ("CoLA", "SST-2", "MRPC", "STS-B", "QNLI", "RTE", "WNLI"):
        member = MEMBERS[f"{name}.tsv"]
        path = shared_data / "glue" / name / "test.tsv.zst"
        assert glue.read_file(member.task, path, labelled=False).num_rows == member.rows
