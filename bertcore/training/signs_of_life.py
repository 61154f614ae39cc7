"""Signs of life among the processes of a training on several machines: a machine that has lost its power or its network
closes no connection, and the others would wait for it for half an hour."""

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from torch.distributed import Store, TCPStore

from bertcore.errors import StoppedError, TrainingError
from bertcore.memory import TooLargeError
from bertcore.training.control import Control

EVERY = 4.0
"""Seconds from one sign of life to the next."""
PATIENCE = 40.0
"""Seconds of silence after which a process is lost: the training ends within a minute of the loss."""
_LEFT = 2**40
"""What a process adds to its count at its end; signs of life are fewer."""


class SignsOfLife:
    """While open, gives signs of life from a thread of its own, whatever the training does, and follows the others'."""

    def __init__(
        self, store: Store, rank: int, world_size: int, lost: Callable[[int], None], patience: float = PATIENCE
    ) -> None:
        """`store` is that of process 0. `lost` is told a silent process, once, from another thread."""
        self._store, self._rank, self._lost, self._patience = store, rank, lost, patience
        self._names = [str(each) for each in range(world_size)]
        self._counts = [b""] * world_size
        self._heard = [time.monotonic()] * world_size
        self._ended = threading.Event()
        store.add(self._names[rank], 1)

    def __enter__(self) -> "SignsOfLife":
        for work in (self._give, self._follow):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """One that leaves says so: others may have work to do before they end, such as what is for a tracking store.

        It leaves, too, with what all processes raise together: a stop, or a `TrainingError` other than that of too
        little memory. Any other exception is its own: the others wait for it at a step, and hear of it no more.
        """
        together = kind is None or issubclass(kind, (StoppedError, TrainingError))
        if together and kind is not TooLargeError:
            with contextlib.suppress(RuntimeError):  # where process 0 has ended, there is nobody to tell
                self._store.add(self._names[self._rank], _LEFT)
        self._ended.set()

    def _give(self) -> None:
        while not self._ended.wait(min(EVERY, self._patience / 10)):
            try:
                self._store.add(self._names[self._rank], 1)
                found = self._store.multi_get(self._names)
            except RuntimeError:
                return  # the store has closed: whoever is still here in a while waits for process 0 in vain
            for rank, count in enumerate(found):
                if int(count) >= _LEFT:
                    self._heard[rank] = math.inf
                elif count != self._counts[rank]:
                    self._counts[rank], self._heard[rank] = count, time.monotonic()

    def _follow(self) -> None:
        """A machine that does not answer holds `_give` up, too; then process 0 is silent first of all."""
        looked = time.monotonic()
        while not self._ended.wait(self._patience / 40):
            before, looked = looked, time.monotonic()
            if looked - before > self._patience / 4:  # this process itself was stopped, and could hear nobody
                self._heard = [max(when, looked) for when in self._heard]
            silent = [rank for rank, when in enumerate(self._heard) if time.monotonic() - when > self._patience]
            if silent:
                self._ended.set()
                self._lost(silent[0])


def store_of(control: Control) -> Store:
    """A store at process 0, on a free port, that all reach under the address by which they have found each other."""
    address, wait = os.environ["MASTER_ADDR"], timedelta(seconds=PATIENCE)
    if control.main:
        store = TCPStore(address, 0, is_master=True, wait_for_workers=False, timeout=wait)
        control.gather(store.port)
        return store
    port, *_ = control.gather(0)
    return TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=wait)
