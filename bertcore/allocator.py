"""How the C library gives out memory."""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Of glibc's malloc.h."""


def keep_freed_memory() -> None:
    """Let glibc keep what arrays and tensors free instead of giving it back to the system after every operation.

    Each large one would else be mapped anew and cleared page by page: up to an eighth of a small model's step. Dask
    starts its workers with `MALLOC_TRIM_THRESHOLD_`, by which it is more than half of the time of work that makes many
    arrays. Nothing with other libraries.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_MAX, 0)
        library.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def give_back_freed_memory() -> None:
    """Give back once what was kept."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
