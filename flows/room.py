"""This machine's room for stages, divided among all flow runs of a user on it, whatever their tree and their server.

There is a slot for each stage that may run at once (`flows.devices`). Which slots a stage has, and thereby which GPUs
or which of the cores, are locks on files, which the kernel frees however their holder ends.
"""

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from flows.devices import CORES, cuda_devices, stages_at_once
from flows.locks import HeldError, hold, private

POLL = 0.5
"""Seconds between two looks for slots that were not free."""
MOMENT = 0.1
"""Seconds after the first look: a stage that begins at the same time gathers its own, and nobody has to be told."""


class StoppedWaitingError(Exception):
    """The run is being stopped, and the stage has not begun."""


@contextlib.contextmanager
def room(slots: int, stopping: threading.Event, say: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Wait for `slots` of the machine's slots (all, where it has fewer) and hold them for the block.

    Yields the variables by which the stage keeps to its share. `say` is called with a line if it has to wait. Raises
    `StoppedWaitingError` when `stopping` is set meanwhile.
    """
    total, directory = stages_at_once(), slots_directory()
    slots = min(slots, total)
    looks = itertools.count()

    def wait() -> None:
        look = next(looks)
        if look == 1:
            say(f"waiting for {slots} of the {total} slots of {directory}, which other stages have")
        if stopping.wait(POLL if look else MOMENT):
            raise StoppedWaitingError

    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as turn:
            # One stage at a time gathers its slots, so that no two wait for what the other one has.
            _hold_one(turn, [directory / "turn"], wait)
            numbers = [_hold_one(stack, [directory / str(slot) for slot in range(total)], wait) for _ in range(slots)]
        yield share(numbers, total)


def share(numbers: list[int], total: int) -> dict[str, str]:
    """What the holder of the slots `numbers` among `total` is told: its GPUs; without any GPU, its cores."""
    if devices := cuda_devices():
        count = len(devices)
        chosen = {index for index in range(count) for slot in numbers if slot == index % total or slot % count == index}
        own = [devices[index] for index in sorted(chosen)]
        return {"CUDA_VISIBLE_DEVICES": ",".join(own)} if len(own) < len(devices) else {}
    if len(numbers) == total or not hasattr(os, "sched_getaffinity"):
        return {}
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < total:
        return {}
    return {CORES: ",".join(str(core) for index, core in enumerate(cores) if index * total // len(cores) in numbers)}


def slots_directory() -> Path:
    """Where the locks of this user's slots on this machine lie: below the home, which other machines may share, so that
    all runs see the same ones, whatever their TMPDIR. ValueError where it cannot be made."""
    return private(Path.home() / ".cache" / "bertcore" / f"slots-{socket.gethostname()}-{os.getuid()}")


def _hold_one(stack: contextlib.ExitStack, locks: Sequence[Path], wait: Callable[[], None]) -> int:
    """Hold the first of the `locks` that nobody has, until `stack` closes; which one it is."""
    while True:
        for number, lock in enumerate(locks):
            with contextlib.suppress(HeldError):
                stack.enter_context(hold(lock, f"process {os.getpid()}"))
                return number
        wait()
