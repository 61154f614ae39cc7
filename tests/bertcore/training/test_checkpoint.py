"""What is kept comes back bit for bit; damage is told and passed over; a full disk leaves what there was."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bertcore.errors import TrainingError
from bertcore.training.checkpoint import Checkpoints, training_key


def state(step: int) -> dict[str, object]:
    shared = torch.arange(6.0).reshape(2, 3) + step
    return {
        "step": step,
        "model": {"a": shared, "tied": shared, "half": torch.ones(3, dtype=torch.bfloat16), "t": shared.T},
        "optimizer": {
            "state": {0: {"step": torch.tensor(3.0)}},
            "param_groups": [{"betas": (0.9, 0.98), "lr": 0.1 + 0.2}],
        },
        "random": torch.get_rng_state(),
        "curves": [{"step": 3, "train/loss": float("nan")}],
        "none": None,
    }


def test_a_state_comes_back_with_its_types(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(5, state(5))
    found = Checkpoints(tmp_path).latest()
    assert found is not None
    for name, tensor in state(5)["model"].items():  # type: ignore[attr-defined]
        assert torch.equal(found["model"][name], tensor) and found["model"][name].dtype == tensor.dtype
    (group,) = found["optimizer"]["param_groups"]
    assert group == {"betas": (0.9, 0.98), "lr": 0.1 + 0.2}
    assert found["optimizer"]["state"][0]["step"] == 3 and found["none"] is None
    assert torch.equal(found["random"], torch.get_rng_state())
    assert str(found["curves"][0]["train/loss"]) == "nan"


def test_what_is_read_holds_no_file(tmp_path: Path) -> None:
    """A removed file that is mapped stays on the disk, and on NFS its directory cannot be removed."""
    Checkpoints(tmp_path).save(5, state(5))
    found = Checkpoints(tmp_path).latest()
    assert found is not None and str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_a_directory_that_cannot_be_removed_ends_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(path: Path, *, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise OSError(39, "Directory not empty")

    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, state(1))
    with monkeypatch.context() as patch:
        patch.setattr("bertcore.training.checkpoint.shutil.rmtree", fail)
        checkpoints.save(2, state(2))
    assert "step-00000001: cannot be removed" in caplog.text
    found = checkpoints.latest()
    assert found is not None and found["step"] == 2


def test_nothing_in_a_checkpoint_is_pickled(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(5, state(5))
    assert {path.name for path in (tmp_path / "step-00000005").iterdir()} == {
        "tensors.safetensors",
        "state.json",
        "summary.json",
    }


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 13):
        checkpoints.save(step, state(step))
    assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-00000002", "step-00000013"]
    assert checkpoints.latest_step() == 13
    before = checkpoints.latest(12)
    assert before is not None and before["step"] == 2
    empty = Checkpoints(tmp_path / "other")
    assert empty.latest() is None and empty.latest_step() is None


def test_one_of_fewer_steps_than_those_that_are_kept_stays_when_it_is_written(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (20, 30, 10):
        checkpoints.save(step, state(step))
    found = checkpoints.latest(10)
    assert found is not None and found["step"] == 10


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize("harm", [_flip, _truncate, Path.unlink])
@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "summary.json"])
def test_a_damaged_one_falls_back_to_the_one_before(
    tmp_path: Path, harm: Callable[[Path], None], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(step, state(step))
    harm(tmp_path / "step-00000002" / name)
    found = checkpoints.latest()
    assert found is not None and found["step"] == 1
    assert "step-00000002 is damaged" in caplog.text and "trying the one before it" in caplog.text


def test_a_full_disk_leaves_the_one_before(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, state(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # as a full disk does, it ends a write in its middle
    try:
        with pytest.raises(
            TrainingError, match=r"checkpoint of step 2 cannot be written .* that of step 1 is kept; make room"
        ):
            checkpoints.save(2, state(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    found = checkpoints.latest()
    assert found is not None and found["step"] == 1


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        TrainingError, match=r"file/c: the checkpoints cannot be written \(Not a directory\); there is none"
    ):
        Checkpoints(tmp_path / "file" / "c").hold()


HOLDER = """
import sys, time
from pathlib import Path
from bertcore.training.checkpoint import Checkpoints
Checkpoints(Path(sys.argv[1])).hold()
print("held", flush=True)
time.sleep(60)
"""


def test_one_that_was_being_replaced_by_a_killed_process_is_put_back(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(5, state(5))
    (tmp_path / "step-00000005").rename(tmp_path / ".step-00000005-abcdefgh.unfinished.before")
    (tmp_path / ".step-00000005-abcdefgh.unfinished").mkdir()
    (tmp_path / ".step-00000010-abcdefgh.unfinished").mkdir()
    checkpoints = Checkpoints(tmp_path)
    checkpoints.hold()
    assert checkpoints.latest_step() == 5 and checkpoints.latest() is not None
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "step-00000005"}
    checkpoints.release()


def test_two_processes_are_never_at_one_training(tmp_path: Path) -> None:
    (tmp_path / ".step-00000007-abcdefgh.unfinished").mkdir()
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(TrainingError, match="another process is at this training; wait for it or stop it"):
            Checkpoints(tmp_path).hold(seconds=0.3)
        other.kill()
    checkpoints = Checkpoints(tmp_path)
    checkpoints.hold()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"], "what a killed process left half-written stays"
    checkpoints.release()
    Checkpoints(tmp_path).hold(seconds=0.0)


def test_a_key_changes_with_every_part() -> None:
    assert training_key("ab", "c") != training_key("a", "bc")
