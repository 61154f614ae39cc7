"""A stage's progress and its held-out losses as Prefect artifacts, written beside the work and never in its way."""

import contextlib
import contextvars
import queue
import re
import threading
from typing import Generic, TypeVar
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from prefect.exceptions import PrefectException

Item = TypeVar("Item")


class _Beside(Generic[Item]):
    """An artifact that a thread of its own writes.

    A call to a server that has died lasts a minute, with all its attempts: whoever reads a stage's output must not make
    it, or the stage would soon wait for its reader. What comes in the meantime is passed over but for the last of it.
    """

    def __init__(self, kind: str, stage: str) -> None:
        self._key = f"{kind}-" + re.sub(r"[^a-z0-9]+", "-", stage.lower()).strip("-")
        self._items: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def _give(self, item: Item) -> None:
        if self._thread is None:
            # The context names the task run that the artifact belongs to.
            context = contextvars.copy_context()
            self._thread = threading.Thread(target=context.run, args=[self._write], daemon=True, name=self._key)
            self._thread.start()
        self._items.put(item)

    def close(self, timeout: float = 3.0) -> None:
        """Give the last of it at most `timeout` seconds to be written."""
        if self._thread is not None:
            self._items.put(None)
            self._thread.join(timeout)

    def _write(self) -> None:
        closed = False
        while not closed:
            waiting = [self._items.get()]
            while not self._items.empty():
                waiting.append(self._items.get())
            closed = waiting[-1] is None
            # RuntimeError: the task run has ended meanwhile and has closed its connection.
            with contextlib.suppress(httpx.HTTPError, PrefectException, RuntimeError):
                for item in [item for item in waiting if item is not None][-1:]:
                    self._put(item)

    def _put(self, item: Item) -> None:
        raise NotImplementedError


class Bar(_Beside[tuple[int, str]]):
    """The artifact `progress-STAGE`."""

    def __init__(self, stage: str) -> None:
        super().__init__("progress", stage)
        self._artifact: UUID | None = None

    def show(self, percent: int, line: str) -> None:
        """Per cent done, and the line that says so."""
        self._give((percent, line))

    def _put(self, item: tuple[int, str]) -> None:
        percent, line = float(item[0]), item[1]
        if self._artifact is not None:
            update_progress_artifact(self._artifact, percent, description=line)
            return
        artifact = create_progress_artifact(percent, key=self._key, description=line)
        assert isinstance(artifact, UUID), "called without an event loop"
        self._artifact = artifact


HELD_OUT = "held-out"
"""What the keys of the artifacts of `HeldOut` begin with."""


class HeldOut(_Beside[dict[str, list[float]]]):
    """The artifact `held-out-STAGE`: a training's loss on held-out text so far, by which a sweep may stop it."""

    def __init__(self, stage: str) -> None:
        super().__init__(HELD_OUT, stage)
        self._points: dict[int, float] = {}

    def add(self, step: int, loss: float) -> None:
        """The loss at a step; a training that goes on says those before again."""
        self._points[step] = loss
        self._give({"step": list(self._points), "loss": list(self._points.values())})

    def _put(self, item: dict[str, list[float]]) -> None:
        create_table_artifact(item, key=self._key, description="Loss on held-out text")
