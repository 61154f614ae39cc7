"""Locks on files that the kernel frees when their holder ends, however it ends."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

PIPELINE = Path(".dvc/tmp/pipeline.lock")
"""Below a tree's root, held by the flow run that works in it. A plain `dvc repro` is kept apart by DVC's own locks."""


class HeldError(Exception):
    """Somebody else holds the lock; the message is what the holder wrote about itself."""


@contextlib.contextmanager
def hold(path: Path, holder: str, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock for the block. Raises HeldError at once when it is taken, unless told to wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            file.seek(0)
            raise HeldError(file.read().strip()) from None
        file.truncate(0)
        file.write(holder)
        file.flush()
        yield
