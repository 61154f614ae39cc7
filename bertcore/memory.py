"""One line with the remedy in place of torch's own words, where memory does not suffice."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from bertcore.errors import TrainingError


@contextmanager
def explained(what: str, *remedies: str) -> Iterator[None]:
    """Where torch or numpy cannot get the memory, raise a `TrainingError` that `what` ("9 sequences at once do") does
    not fit, with the `remedies` to set."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        known = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)
        if not known:
            raise
        raise TrainingError(f"{what} not fit into the memory; set {' or '.join(remedies)}") from error
