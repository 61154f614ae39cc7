"""Atomic writes: the old content or the new, never a part of it, and nothing left over."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bertcore.errors import InputError
from bertcore.files import (
    clear_unfinished,
    is_locked,
    replace_directory,
    replace_file,
    unfinished,
    visible_files,
    write_json,
)


def test_a_directory_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "out" / "data"
    for content in ("first", "second"):
        with replace_directory(target) as beside:
            (beside / "file").write_text(content)
            (beside / content).touch()
    assert sorted(path.name for path in target.iterdir()) == ["file", "second"]
    assert [path.name for path in target.parent.iterdir()] == ["data"]


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "index").mkdir(parents=True)
    (tmp_path / "elsewhere" / "index" / "old").touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "index")
    with replace_directory(tmp_path / "link") as beside:
        (beside / "new").touch()
    assert (tmp_path / "link").is_symlink() and (tmp_path / "elsewhere" / "index" / "new").exists()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["elsewhere", "index", "link", "new"]


def test_a_failure_leaves_the_previous_state_and_nothing_else(tmp_path: Path) -> None:
    directory, file = tmp_path / "data", tmp_path / "file"
    directory.mkdir()
    (directory / "kept").touch()
    file.write_text("kept")
    with pytest.raises(RuntimeError), replace_directory(directory) as beside:
        (beside / "half").touch()
        raise RuntimeError
    with pytest.raises(RuntimeError), replace_file(file) as beside:
        beside.write_text("half")
        raise RuntimeError
    assert [path.name for path in directory.iterdir()] == ["kept"] and file.read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "file"]


def test_what_a_killed_process_left_of_a_file_goes_with_its_next_write(tmp_path: Path) -> None:
    file = tmp_path / "file"
    killed = """
import os, sys
from pathlib import Path
from bertcore.files import replace_file
with replace_file(Path(sys.argv[1])) as beside:
    beside.write_text("half")
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", killed, str(file)]).returncode == -9
    (left,) = tmp_path.iterdir()
    living = left.with_suffix(f".{os.getppid()}")
    living.touch()
    with replace_file(file) as beside:
        assert not left.exists()
        beside.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([living, file]) and file.read_text() == "whole"


def test_json_has_the_same_bytes_for_the_same_values(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_json(tmp_path / name, {"z": np.float64(0.1), "a": [np.int64(3), "é"]})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_text(encoding="utf-8") == '{\n  "z": 0.1,\n  "a": [\n    3,\n    "é"\n  ]\n}\n'


def test_what_cannot_be_put_in_place_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "kept").touch()
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if (path / "new").exists():
            raise PermissionError(13, "Permission denied", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(PermissionError), replace_directory(directory) as beside:
        (beside / "new").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert [path.name for path in directory.iterdir()] == ["kept"]


KILLED = """
import os, signal, sys, time
from pathlib import Path
from bertcore.files import replace_directory
with replace_directory(Path(sys.argv[1])) as beside:
    (beside / "half").write_bytes(b"x" * 1000)
    print("ready", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_process_left_goes_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    target = tmp_path / "data"
    writers = [
        subprocess.Popen([sys.executable, "-c", KILLED, str(target)], stdout=subprocess.PIPE, text=True) for _ in "ab"
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        assert unfinished(target) == [] and len(list(tmp_path.glob(".data-*.unfinished"))) == 2
        writers[0].kill()
        writers[0].wait()
        (left,) = unfinished(target)
        with replace_directory(target) as beside:
            (beside / "whole").touch()
            assert not left.exists() and len(list(tmp_path.glob(".data-*.unfinished"))) == 2
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    clear_unfinished(target)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_the_lock_of_a_process_that_was_killed_at_its_beginning_goes_when_it_is_old(tmp_path: Path) -> None:
    old, new, held = (tmp_path / f".data-{name}.unfinished.lock" for name in ("oldoldol", "newnewne", "heldheld"))
    for lock in (old, new, held):
        lock.touch()
    for lock in (old, held):
        os.utime(lock, (1, 1))
    with held.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        clear_unfinished(tmp_path / "data")
    assert sorted(tmp_path.iterdir()) == [held, new]


def test_outputs_whose_names_begin_alike_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """A model of the task `qa-long`, moved away when its process was killed, is none of the task `qa`."""
    other, own = tmp_path / ".qa-long-abcdefgh.unfinished.before", tmp_path / ".qa-abcdefgh.unfinished"
    other.mkdir()
    own.mkdir()
    assert unfinished(tmp_path / "qa") == [own] and unfinished(tmp_path / "qa-long") == [other]
    with replace_directory(tmp_path / "qa") as beside:
        (beside / "new").touch()
    assert other.is_dir() and [path.name for path in (tmp_path / "qa").iterdir()] == ["new"]


def test_what_stood_in_a_place_outlives_a_kill_in_the_middle_of_the_exchange(tmp_path: Path) -> None:
    target = tmp_path / "data"
    target.mkdir()
    (target / "old").touch()
    killed = """
import os, sys
from pathlib import Path
from bertcore import files
moved = Path.rename
def rename(self, to):
    moved(self, to)
    if str(to).endswith(".before"):
        os.kill(os.getpid(), 9)
Path.rename = rename
with files.replace_directory(Path(sys.argv[1])) as beside:
    (beside / "new").touch()
"""
    assert subprocess.run([sys.executable, "-c", killed, str(target)]).returncode == -9
    assert not target.exists()
    with pytest.raises(RuntimeError), replace_directory(target):
        raise RuntimeError
    assert [path.name for path in target.iterdir()] == ["old"] and list(tmp_path.iterdir()) == [target]


def test_visible_files_are_those_behind_links_too_and_no_hidden_ones(tmp_path: Path) -> None:
    for name in ("elsewhere/b.txt", "[set]/a.txt", "[set]/.git/c.txt", "[set]/.d.txt", "[set]/deep/er/e.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    directory = tmp_path / "[set]"
    (directory / "link").symlink_to(tmp_path / "elsewhere")
    (directory / "deep" / "back").symlink_to(directory)
    (tmp_path / "elsewhere" / "round").symlink_to(directory / "deep")
    found = [str(path.relative_to(directory)) for path in visible_files(directory)]
    assert found == ["a.txt", "deep/er/e.txt", "link/b.txt", "link/round/er/e.txt"]
    (directory / "loop").symlink_to(directory / "loop")
    with pytest.raises(InputError, match="loop: found a link to .*loop, where nothing is"):
        visible_files(directory)


def test_a_folder_that_cannot_be_read_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    listed = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path.name == "closed":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)  # root may read everything
    with pytest.raises(InputError, match="closed: Permission denied, expected a folder that can be read"):
        visible_files(tmp_path)


def test_what_a_link_of_the_cache_protects_stays_protected(tmp_path: Path) -> None:
    cached, private = tmp_path / "cached", tmp_path / "private"
    for path, mode in ((cached, 0o444), (private, 0o600)):
        path.write_text("bytes")
        path.chmod(mode)
    with replace_directory(tmp_path / "out") as beside:
        for path in (cached, private):
            (beside / path.name).hardlink_to(path)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()}
    assert modes == {"cached": 0o444, "private": 0o644}


def test_who_looks_for_a_lock_holds_none(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    assert not is_locked(path) and not path.exists()
    path.touch()
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not is_locked(path)
    with path.open("r+b") as holding:
        fcntl.flock(holding, fcntl.LOCK_EX)
        assert is_locked(path)
    assert not is_locked(path)
