"""DVC's cache as .dvc/config has it: what a stage has made is stored once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.import_closure import ROOT

SIZE = 3_000_000
STAGE = f"""
stages:
  data:
    cmd: mkdir out && head -c {SIZE} /dev/zero > out/shard && echo 1 > metrics.json
    outs: [out, metrics.json]
"""


def repro(tree: Path, *options: str) -> None:
    subprocess.run([sys.executable, "-m", "dvc", "repro", *options], cwd=tree, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / ".dvc").mkdir()
    shutil.copy(ROOT / ".dvc" / "config", tmp_path / ".dvc" / "config")
    (tmp_path / "dvc.yaml").write_text(STAGE)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    repro(tmp_path)
    return tmp_path


def stored(tree: Path) -> int:
    """Bytes of all files, each inode once."""
    states = [path.stat() for path in tree.rglob("*") if path.is_file() and ".git" not in path.parts]
    return sum({state.st_ino: state.st_size for state in states}.values())


@pytest.mark.parametrize("again", [[], ["--force"]], ids=["first", "the same bytes once more"])
def test_an_output_is_stored_once(tree: Path, again: list[str]) -> None:
    repro(tree, *again)
    for output in ("out/shard", "metrics.json"):
        state = (tree / output).stat()
        assert state.st_nlink == 2, f"{output} is no file of the cache"
        assert not state.st_mode & 0o222, f"{output} can be written into, and the cache with it"
    assert SIZE <= stored(tree) < 1.5 * SIZE
