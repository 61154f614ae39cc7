"""What of this machine stages may use, its CUDA devices and cores, found without importing torch."""

import contextlib
import functools
import os
import shutil
import subprocess
from pathlib import Path

from bertcore.variables import positive

CORES = "BERTCORE_CORES"
"""The cores to which `flows.guard` keeps a stage, as numbers with commas between them."""


def cuda_devices() -> list[str]:
    """Names of the visible devices as CUDA_VISIBLE_DEVICES takes them; empty on a machine without one."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [device.strip() for device in visible.split(",") if device.strip() not in {"", "-1"}]
    return [str(index) for index in range(_count())]


def stages_at_once() -> int:
    """How many stages may run at the same time: BERTCORE_STAGES_AT_ONCE, else one per CUDA device, else one.

    `ConfigError` where the variable is not a whole number of at least 1.
    """
    return positive("BERTCORE_STAGES_AT_ONCE") or max(1, len(cuda_devices()))


def keep_to_cores() -> None:
    """Keep this process, and what it will start, to the cores that `flows.room` gave it."""
    if cores := os.environ.pop(CORES, ""):
        os.sched_setaffinity(0, [int(core) for core in cores.split(",")])


def _count() -> int:
    program = shutil.which("nvidia-smi")
    listed = _listed(program) if program is not None else None
    if listed is not None:
        return listed
    driver = Path("/proc/driver/nvidia/gpus")
    return len(list(driver.iterdir())) if driver.is_dir() else 0


@functools.cache
def _listed(program: str) -> int | None:
    """The GPUs that nvidia-smi lists, None where it cannot; asked once, as a waiting stage looks every two seconds."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        listing = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=30, check=False)
        if listing.returncode == 0:
            return sum(line.startswith("GPU ") for line in listing.stdout.splitlines())
    return None
