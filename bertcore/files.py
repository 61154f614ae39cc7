"""Writing so that a reader never sees half an output: beside the target, onto the disk, then renamed over it; and a
full disk, said in one line."""

import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from bertcore.errors import InputError

FULL = (errno.ENOSPC, errno.EDQUOT)
_UNFINISHED = ".unfinished"
"""Ends the name of what is being written, beside its place: nobody else calls a directory so."""
_LOCK = ".lock"
"""Ends the name of the file that is locked by who writes there. Of a directory, NFS would lock nothing for others."""
_BEFORE = ".before"
"""Ends the name of what stood in a place, while it is exchanged."""


_CACHED = 0o444
"""The mode of a file that DVC's cache holds, too, as a hard link: its protection stays."""


@contextmanager
def replace_directory(directory: Path) -> Iterator[Path]:
    """An empty directory to write into; it takes the place of `directory` when the block ends without an error.

    What killed processes have left of theirs is removed first (see `unfinished`). Where a link stands, what it leads to
    is replaced.
    """
    if directory.is_symlink():
        directory = directory.resolve()
    directory.parent.mkdir(parents=True, exist_ok=True)
    clear_unfinished(directory)
    ending = f"{_UNFINISHED}{_LOCK}"
    owned, name = tempfile.mkstemp(prefix=f".{directory.name}-", suffix=ending, dir=directory.parent)
    fcntl.flock(owned, fcntl.LOCK_EX)
    beside = Path(name.removesuffix(_LOCK))
    try:
        beside.mkdir()
        yield beside
        for path in sorted(beside.rglob("*")):
            if path.is_file() and not path.is_symlink():
                if path.stat().st_mode & 0o777 != _CACHED:
                    path.chmod(0o644)  # some writers make private files, which other users could not read
                sync(path)
        beside.chmod(0o755)  # as its files, whatever the umask of who makes it
        _exchange(beside, directory)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        os.unlink(name)
        os.close(owned)


def unfinished(directory: Path) -> list[Path]:
    """What `replace_directory` of processes that are no more has left beside `directory`; nothing of living ones, on
    other machines too, each of which holds a lock until it ends."""
    found = []
    for path in sorted(directory.parent.iterdir() if directory.parent.is_dir() else ()):
        if _begun(path) == directory and not path.is_symlink() and not is_locked(_lock_of(path)) and path.is_dir():
            found.append(path)
    return found


def is_locked(path: Path) -> bool:
    """Whether a process holds the exclusive lock on a file, which the system frees however that process ends; False
    where there is no file. Looking takes a shared lock for a moment, which other looks do not take for a holder."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(_BEFORE) + _LOCK)


def begun_in(parent: Path) -> list[Path]:
    """The directories in `parent` of which `unfinished` might tell, whether they are there or not."""
    found = map(_begun, parent.iterdir() if parent.is_dir() else ())
    return sorted({directory for directory in found if directory is not None})


def _begun(path: Path) -> Path | None:
    """What `path` was to become, or has been, by the name that `replace_directory` gave it."""
    own = re.fullmatch(rf"\.(.+)-[a-z0-9_]{{8}}\{_UNFINISHED}(?:\{_BEFORE})?", path.name)  # as `mkstemp` names them
    return path.with_name(own[1]) if own else None


def clear_unfinished(directory: Path) -> None:
    """Remove `unfinished` of `directory`. What stood there before goes back if a process was killed
    when it had moved that away and not put anything in its place."""
    for path in unfinished(directory):
        if path.suffix == _BEFORE and not directory.exists():
            path.rename(directory)
        else:
            shutil.rmtree(path, ignore_errors=True)
        _lock_of(path).unlink(missing_ok=True)
    for lock in directory.parent.glob(f"{glob.escape(f'.{directory.name}-')}*{_UNFINISHED}{_LOCK}"):
        # Its process was killed before it made the directory or after it renamed it. One that has only just made the
        # lock's file, and may not have locked it yet, is left alone.
        with suppress(FileNotFoundError):
            if time.time() - lock.stat().st_mtime > _BEGINNING and not is_locked(lock):
                lock.unlink()


_BEGINNING = 60.0
"""Seconds between making a lock's file and locking it, at most."""


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Within it, this process alone has `directory`, which is made where there is none; others that ask for it wait."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / _LOCK).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _exchange(beside: Path, directory: Path) -> None:
    """`beside` becomes `directory`; what was there before is whole until then, wherever this fails or is killed."""
    before = beside.with_name(f"{beside.name}{_BEFORE}")
    if not directory.exists():
        beside.rename(directory)
        return
    directory.rename(before)
    try:
        beside.rename(directory)
    except OSError:
        before.rename(directory)
        raise
    before.rename(beside)  # no longer what `clear_unfinished` would put back
    shutil.rmtree(beside)


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A path to write to; what stands there takes the place of `path` when the block ends without an error.

    What a killed process of this machine has left of the same file is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{path.name}.{socket.gethostname()}."  # workers of several machines may share the directory
    for left in path.parent.glob(f"{glob.escape(prefix)}*"):
        if not _lives(left.name.removeprefix(prefix)):
            left.unlink(missing_ok=True)
    beside = path.with_name(f"{prefix}{os.getpid()}")
    try:
        yield beside
        sync(beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _lives(pid: str) -> bool:
    """Whether a process of this machine has this number; also where it is no number."""
    if not pid.isdecimal():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def nearest_existing(path: Path) -> Path:
    """`path` itself, or the nearest directory above it that is there."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())


def unwritable(directory: Path) -> tuple[Path, str] | None:
    """The nearest existing directory to `directory`, or what else stands there, and why no file can be made in it; None
    where one can. Nothing is left there, not even for a moment."""
    nearest = nearest_existing(directory)
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"0")
    except OSError as error:
        return nearest, error.strerror or type(error).__name__
    return None


def visible_files(directory: Path) -> list[Path]:
    """The files at any depth, also in folders that links lead to, sorted, but for hidden ones and those in hidden
    folders, such as a notebook's checkpoints. A link back to a folder that it stands in is not followed.
    `InputError` for a folder that cannot be read."""
    return sorted(_visible_files(directory, frozenset()))


def _visible_files(directory: Path, above: frozenset[Path]) -> Iterator[Path]:
    inside = above | {directory.resolve()}
    try:
        paths = list(directory.iterdir()) if directory.is_dir() else []
    except OSError as error:
        raise InputError(f"{directory}: {error.strerror}, expected a folder that can be read; correct it") from None
    for path in paths:
        if path.name.startswith("."):
            continue
        if path.is_file():
            yield path
        elif not path.is_dir():
            check_link(path)
        elif path.resolve() not in inside:
            yield from _visible_files(path, inside)


def check_link(path: Path) -> None:
    """`InputError` for a link that leads nowhere, as where a disk is not mounted."""
    if path.is_symlink() and not path.exists():
        raise InputError(f"{path}: found a link to {path.readlink()}, where nothing is; fetch that, or remove the link")


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, values: Any) -> None:
    """`values` as indented JSON, keys in the order given; the same values give the same bytes."""
    with replace_file(path) as beside:
        beside.write_text(json.dumps(values, indent=2, ensure_ascii=False, default=_plain) + "\n", encoding="utf-8")


def sync(path: Path) -> None:
    """Have a file's content, or the names in a directory, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _plain(value: Any) -> Any:
    """NumPy numbers as Python's."""
    return value.item()


@contextmanager
def disk_errors(output: Path) -> Iterator[None]:
    """Within it, a disk that is full (or a quota that is used up) while `output` is made raises `InputError`."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        if getattr(error, "errno", None) not in FULL and not any(f"os error {number}" in str(error) for number in FULL):
            raise
        free = shutil.disk_usage(nearest_existing(output)).free
        raise InputError(
            f"{output}: no space left on the disk ({free / 2**20:,.0f} MiB free{_named(error)}); nothing of the output "
            "is kept half-written: free some space and run the stage again"
        ) from None


def _named(error: Exception) -> str:
    name = getattr(error, "filename", None)
    return f", while writing {name}" if name else ""
