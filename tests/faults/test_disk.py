"""A disk that is full or read-only while a real training writes: it is said, and what was good before stays."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bertcore.instances.store import verify_instances
from tasks import mask
from tasks.status import exit_status
from tests.faults.trainings import Training, assert_equal, params, prepare

Mount = Callable[[Path, str], None]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Puts a file system with the given mount options under a directory, which keeps its content."""
    mounted: list[Path] = []

    def put(place: Path, options: str) -> None:
        kept = shutil.copytree(place, tmp_path / "kept") if place.exists() else None
        place.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("mounting a small file system needs the right to do so")
        mounted.append(place)
        if kept:
            shutil.copytree(kept, place, dirs_exist_ok=True)

    yield put
    for place in mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)


def error(training: Training) -> str:
    """The one error line of the last attempt, which had no traceback."""
    text = training.log.read_text()
    assert "Traceback" not in text, text
    (line,) = [line for line in text.splitlines() if line.startswith("error: ")]
    return line


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("disk") / "tree", params(max_steps=40))


def test_a_full_disk_of_checkpoints_stops_the_training_which_goes_on_with_room(
    prepared: Path, tmp_path: Path, mount: Mount
) -> None:
    whole = Training(shutil.copytree(prepared, tmp_path / "whole"))
    assert whole.finish() == 0
    training = Training(shutil.copytree(prepared, tmp_path / "full"))
    checkpoints = training.root / ".checkpoints"
    mount(checkpoints, "size=1200k")
    assert training.finish() == 2
    kept = training.steps()[-1]
    said = error(training)
    assert f"the checkpoint of step {kept + 7} cannot be written (" in said and "No space left on device" in said
    assert f"that of step {kept} is kept; make room" in said
    remount(checkpoints, "size=20m")
    assert training.finish() == 0 and training.resumed == [kept]
    assert_equal(training, whole)


def test_a_full_disk_of_models_leaves_the_model_before_and_the_checkpoint(
    prepared: Path, tmp_path: Path, mount: Mount
) -> None:
    training = Training(shutil.copytree(prepared, tmp_path / "tree"))
    before = training.root / "models/pretrained/model.safetensors"
    before.parent.mkdir()
    before.write_bytes(b"an earlier model")
    mount(training.root / "models", "size=100k")
    assert training.finish() == 2
    assert error(training).startswith("error: models/pretrained: no space left on the disk (0 MiB free")
    assert before.read_bytes() == b"an earlier model"
    assert sorted(path.name for path in (training.root / "models").iterdir()) == ["pretrained", "tokenizer"]
    remount(training.root / "models", "size=20m")
    assert training.finish() == 0
    assert training.resumed, "the training itself is not done again"


def test_checkpoints_that_may_not_be_written_are_said_at_the_start(
    prepared: Path, tmp_path: Path, mount: Mount
) -> None:
    training = Training(shutil.copytree(prepared, tmp_path / "tree"))
    training.kill_at_first_checkpoint()
    mount(training.root / ".checkpoints", "size=20m")
    remount(training.root / ".checkpoints", "ro")
    assert training.finish() == 2
    assert "the checkpoints cannot be written (Read-only file system); that of step 7 is kept" in error(training)


class _Silent:
    def log_metrics(self, metrics: object) -> None:
        """Nothing of the mask stage is looked at here."""


def test_a_stage_whose_disk_is_full_leaves_its_outputs_as_they_were(
    prepared: Path, tmp_path: Path, mount: Mount, capsys: pytest.CaptureFixture[str]
) -> None:
    root = shutil.copytree(prepared, tmp_path / "tree")
    size = sum(path.stat().st_size for path in (root / "data").rglob("*") if path.is_file())
    mount(root / "data", f"size={size // 1024 + 60}k")
    with contextlib.chdir(root):
        assert exit_status(lambda: mask.run(_Silent())) == 2  # type: ignore[arg-type]
        assert "error: data/instances: no space left on the disk (0 MiB free" in capsys.readouterr().err
        verify_instances(Path("data/instances"), Path("data/shards"))
        assert sorted(path.name for path in Path("data").iterdir()) == [
            "inputs",
            "instances",
            "seed-0",
            "seed-1",
            "shards",
        ]
