"""Installing says how far it is, from what pip prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.install import EVERY, steps, write_command
from tests.import_closure import ROOT

OUTPUT = """\
Requirement already satisfied: one==1.0 in ./lib (from -r a.lock (line 1)) (1.0)
Collecting torch==2.13.0 (from -r a.lock (line 2))
  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (29 kB)
  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (821.5 MB)
Collecting small==3 (from -r a.lock (line 3))
  Downloading small-3-py3-none-any.whl (99 kB)
Installing collected packages: torch, small
Successfully installed small-3 torch-2.13.0
""".splitlines()


def test_a_terminal_sees_every_package() -> None:
    assert list(steps(OUTPUT, 3, all_of_them=True)) == [
        "1 of 3  one==1.0",
        "2 of 3  torch==2.13.0",
        "2 of 3  downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (821.5 MB)",
        "3 of 3  small==3",
        "3 of 3  downloading small-3-py3-none-any.whl (99 kB)",
        "unpacking them, which takes a minute or more",
    ]


def test_a_log_sees_large_downloads_and_some_packages() -> None:
    many = [f"Collecting p{number}==1" for number in range(2 * EVERY)]
    found = list(steps([*OUTPUT, *many], 3 + 2 * EVERY, all_of_them=False))
    assert [line.split("  ")[0] for line in found] == [
        "2 of 53", "unpacking them, which takes a minute or more", "25 of 53", "50 of 53"
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["python", "a python"])
def test_the_command_runs_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / name).symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / name))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # of the environment that the link is none of
    write_command(tmp_path)
    done = subprocess.run([tmp_path / "bertcore", "--help"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: bertcore COMMAND") and not done.stderr


def test_pips_own_error_and_status_are_kept(tmp_path: Path) -> None:
    lock = tmp_path / "wrong.lock"
    lock.write_text("this/is/nowhere.whl\n")
    done = subprocess.run(
        [sys.executable, ROOT / "infra/install.py", lock], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0 and "nowhere.whl" in done.stderr
    assert done.stdout.startswith("installing the 1 packages of ") and "pip ended with status" in done.stdout
