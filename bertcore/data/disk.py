"""A full disk, said in one line."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertcore.errors import InputError

FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def disk_errors(output: Path) -> Iterator[None]:
    """Within it, a disk that is full (or a quota that is used up) while `output` is made raises `InputError`."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        existing = next(parent for parent in (output, *output.absolute().parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        raise InputError(
            f"{output}: no space left on the disk ({free / 2**20:,.0f} MiB free{_named(error)}); nothing of the output "
            "is kept half-written: free some space and run the stage again"
        ) from None


def _named(error: OSError) -> str:
    return f", while writing {error.filename}" if error.filename else ""
