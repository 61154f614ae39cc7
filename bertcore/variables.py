"""The environment variables of the project, and how their values are read: unset and empty are the same."""

import os
from collections.abc import Sequence

from bertcore.errors import ConfigError

VARIABLES = tuple(
    f"BERTCORE_{name}"
    for name in (
        "ACCELERATE_CONFIG",
        "ACTIVATION_CHECKPOINTING",
        "CACHE",
        "COMPILE",
        "DASK",
        "DATA",
        "DETERMINISTIC",
        "DVC_REMOTE",
        "GRACE",
        "FINETUNE_PROCESSES",
        "LOG_MODELS",
        "MAIN_ADDRESS",
        "MICRO_BATCH",
        "PRECISION",
        "PROCESSES",
        "SBATCH_DATA",
        "SBATCH_FINETUNE",
        "SBATCH_PRETRAIN",
        "STAGES_AT_ONCE",
        "TOKEN",
    )
)
"""Those of docs/machine.md, which says what they mean."""


def positive(variable: str, expected: str = "a whole number of at least 1") -> int | None:
    """The number that `variable` holds, None where it is not set; `ConfigError` where it is not what is `expected`."""
    found = os.environ.get(variable)
    if not found:
        return None
    if not (found.isascii() and found.isdecimal()) or int(found) < 1:
        raise ConfigError(f"{variable}: found {found!r}, expected {expected}; correct the variable")
    return int(found)


def choice(variable: str, among: Sequence[str]) -> str | None:
    """What `variable` holds, None where it is not set; `ConfigError` where it is none `among` those."""
    found = os.environ.get(variable)
    if found and found not in among:
        raise ConfigError(f"{variable}: found {found!r}, expected {' or '.join(among)}; correct the variable")
    return found or None


def switch(variable: str, *, default: bool = False) -> bool:
    """Whether `variable` is 1; `ConfigError` where it is neither that nor 0."""
    found = choice(variable, ("0", "1"))
    return default if found is None else found == "1"
