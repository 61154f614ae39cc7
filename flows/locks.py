"""Locks on files that the kernel frees when their holder ends, however it ends."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

PIPELINE = Path(".dvc/tmp/pipeline.lock")
"""Below a tree's root, held by the flow run that works in it. A plain `dvc repro` is kept apart by DVC's own locks."""


class HeldError(Exception):
    """Somebody else holds the lock; the message is what the holder wrote about itself."""


@contextlib.contextmanager
def hold(path: Path, holder: str, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock for the block, and leave no file. Raises HeldError at once when it is taken, unless told to wait.

    A link in the place of the file is not followed: OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path, wait) as file:
        file.truncate(0)
        file.write(holder)
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def private(directory: Path) -> Path:
    """The directory, made where it is missing, for this user alone; ValueError, with a line for the user, where it
    cannot be that."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise ValueError(
                f"{directory}: found a link or a directory of user {found.st_uid}, expected a directory of user "
                f"{os.getuid()}; remove it"
            )
        directory.chmod(0o700)
    except OSError as error:
        raise ValueError(
            f"{directory}: cannot be made ({error.strerror}); have HOME name a directory that can be written to"
        ) from None
    return directory


@contextlib.contextmanager
def _locked(path: Path, wait: bool) -> Iterator[IO[str]]:
    """The file at `path`, locked. One that its last holder has removed since it was opened is nobody's."""
    while True:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise HeldError(file.read().strip()) from None
            if _lies_at(path, file):
                yield file
                return


def _lies_at(path: Path, file: IO[str]) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.lstat(), os.fstat(file.fileno()))
    return False
