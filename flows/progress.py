"""A stage's progress as a Prefect artifact, written beside the work and never in its way."""

import contextlib
import contextvars
import queue
import re
import threading
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.exceptions import PrefectException


class Bar:
    """The artifact `progress-STAGE`, which a thread of its own writes.

    A call to a server that has died lasts a minute, with all its attempts: whoever reads a stage's output must not make
    it, or the stage would soon wait for its reader. What comes in the meantime is passed over but for the last line.
    """

    def __init__(self, stage: str) -> None:
        self._key = "progress-" + re.sub(r"[^a-z0-9]+", "-", stage.lower()).strip("-")
        self._lines: queue.SimpleQueue[tuple[int, str] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._artifact: UUID | None = None

    def show(self, percent: int, line: str) -> None:
        """Per cent done, and the line that says so."""
        if self._thread is None:
            # The context names the task run that the artifact belongs to.
            context = contextvars.copy_context()
            self._thread = threading.Thread(target=context.run, args=[self._write], daemon=True, name=self._key)
            self._thread.start()
        self._lines.put((percent, line))

    def close(self, timeout: float = 3.0) -> None:
        """Give the last line at most `timeout` seconds to be written."""
        if self._thread is not None:
            self._lines.put(None)
            self._thread.join(timeout)

    def _write(self) -> None:
        closed = False
        while not closed:
            waiting = [self._lines.get()]
            while not self._lines.empty():
                waiting.append(self._lines.get())
            closed = waiting[-1] is None
            shown = [line for line in waiting if line is not None]
            # RuntimeError: the task run has ended meanwhile and has closed its connection.
            with contextlib.suppress(httpx.HTTPError, PrefectException, RuntimeError):
                for percent, line in shown[-1:]:
                    self._put(float(percent), line)

    def _put(self, percent: float, line: str) -> None:
        if self._artifact is not None:
            update_progress_artifact(self._artifact, percent, description=line)
            return
        artifact = create_progress_artifact(percent, key=self._key, description=line)
        assert isinstance(artifact, UUID), "called without an event loop"
        self._artifact = artifact
