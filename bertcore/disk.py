"""A full disk, said in one line."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from bertcore.errors import InputError
from bertcore.files import nearest_existing

FULL = (errno.ENOSPC, errno.EDQUOT)


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
