"""What `make pretrain` and `make finetune` refuse before anything is started."""

from pathlib import Path
from typing import NoReturn

import pytest

from flows import deployment_run, server


def never() -> int:
    raise AssertionError("begun")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(server, "STATE", tmp_path / ".prefect")
    monkeypatch.setattr(server, "end_as_by_ctrl_c", lambda: None)
    return tmp_path / ".prefect"


def test_a_user_without_a_home_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def nowhere() -> NoReturn:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert deployment_run.launched("make pretrain", never) == 1
    assert capsys.readouterr().err == (
        "error: Could not determine home directory; set HOME, and write paths without ~\n"
    )


def test_a_tree_of_another_user_is_told(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deployment_run, "unwritable", lambda directory: (directory, "Permission denied"))
    assert deployment_run.launched("make pretrain", never) == 1
    assert capsys.readouterr().err == (
        f"error: {state}: Permission denied; work in a clone that this user may write to\n"
    )
