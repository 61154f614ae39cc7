"""What counts as an edit of a dependency while a stage runs."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bertcore.errors import ArtifactError
from tasks.tracking import lineage


def touch(path: Path) -> None:
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 10**9))


def switch_branch_and_back(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    touch(path)


def edit_unseen(path: Path) -> None:
    state = path.stat()
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.fixture
def deps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("code/__pycache__").mkdir(parents=True)
    Path("code/module.py").write_text("a = 1\n")
    Path("data").write_bytes(bytes(2**20 + 1))
    return ["code", "data"]


@pytest.mark.parametrize("harmless", [touch, switch_branch_and_back])
def test_code_with_the_same_content_is_unchanged(deps: list[str], harmless: Callable[[Path], None]) -> None:
    before = lineage.fingerprint(deps)
    harmless(Path("code/module.py"))
    Path("code/__pycache__/module.pyc").write_text("compiled")
    lineage.check_unchanged(before, deps)


@pytest.mark.parametrize(
    ("path", "edit"),
    [
        ("code/module.py", edit_unseen),
        ("code/module.py", Path.unlink),
        ("code/new.py", Path.touch),
        ("data", touch),
        ("data", Path.unlink),
    ],
)
def test_an_edit_is_seen(deps: list[str], path: str, edit: Callable[[Path], None]) -> None:
    before = lineage.fingerprint(deps)
    edit(Path(path))
    with pytest.raises(ArtifactError, match=f"^{path}: changed while the stage was running"):
        lineage.check_unchanged(before, deps)
