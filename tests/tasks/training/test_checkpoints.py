"""Checkpoints of a finished training stay until DVC has recorded its outs, and go with the next stage that starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks import stage
from tasks.tracking import runs
from tasks.training import checkpoints
from tests.import_closure import ROOT

PIPELINE = """
stages:
  pretrain:
    cmd: python train.py {seed}
    outs:
      - models/pretrained
      - metrics/timing/pretrain.json
  report:
    cmd: python -m tasks.report
"""
TRAIN = """
import sys
from pathlib import Path
from tasks.training import checkpoints
model, timing = Path("models/pretrained"), Path("metrics/timing/pretrain.json")
(model / "heads").mkdir(parents=True)
(model / "weights").write_text("weights")
(model / "heads" / "more").write_text("more")
timing.parent.mkdir(parents=True, exist_ok=True)
timing.write_text(sys.argv[1])
checkpoints.mark_finished(Path(".checkpoints/pretrain/key"), "pretrain")
sys.exit(int(sys.argv[1]) % 2)
"""

FINISHED, KILLED = Path(".checkpoints/pretrain/key"), Path(".checkpoints/finetune/topic")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A DVC project in which one training has been killed and another one is about to be."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for directory in (FINISHED, KILLED):
        (directory / "step-00000100").mkdir(parents=True)
    Path(".dvc").mkdir()
    Path(".dvc/config").write_text("[core]\n    no_scm = true\n    analytics = false\n")
    Path("train.py").write_text(TRAIN)
    Path("params.yaml").write_text("{}\n")
    return tmp_path


def repro(seed: int) -> int:
    Path("dvc.yaml").write_text(PIPELINE.format(seed=seed))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(["dvc", "repro", "pretrain"], env=environment, capture_output=True).returncode


def test_they_go_when_dvc_has_recorded_what_came_of_them(tree: Path) -> None:
    assert repro(2) == 0
    checkpoints.clear_finished()
    assert not FINISHED.exists() and KILLED.is_dir()
    assert not list(Path(".checkpoints").glob(".removed*"))

    # The same weights again, but their stage fails after the training: the record is that of the earlier one.
    (FINISHED / "step-00000100").mkdir(parents=True)
    assert repro(3) != 0
    checkpoints.clear_finished()
    assert (FINISHED / "step-00000100").is_dir()
    assert repro(4) == 0
    checkpoints.clear_finished()
    assert not FINISHED.exists()


def test_any_stage_clears_before_it_asks_for_its_own(tree: Path) -> None:
    Path("dvc.yaml").write_text(PIPELINE.format(seed=0))
    for out in ("models/pretrained", "metrics/timing"):
        Path(out).mkdir(parents=True)
    Path("metrics/timing/pretrain.json").write_text("{}")
    checkpoints.mark_finished(FINISHED, "pretrain")
    checkpoints.clear_finished()
    assert FINISHED.is_dir(), "DVC has recorded nothing yet"
    Path("dvc.lock").write_text(
        "stages: {pretrain: {outs: [{path: models/pretrained, md5: d751713988987e9331980363e24189ce.dir}, "
        "{path: metrics/timing/pretrain.json, md5: 99914b932bd37a50b983c5e7c90ae93b}]}}"
    )

    def run_file() -> Path:
        assert not FINISHED.exists()
        return FINISHED / "mlflow-run"

    def body(_: runs.StageRun) -> None:
        assert (FINISHED / "mlflow-run").is_file()

    assert stage.main("report", body, run_file=run_file) == 0


def test_a_tree_without_checkpoints_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoints.clear_finished()
    assert list(tmp_path.iterdir()) == []
