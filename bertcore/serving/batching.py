"""Requests that wait are computed together: while one batch is computed, the next one gathers.

Nobody waits for a batch to fill, so that a lone request is as fast as it can be, and the more wait, the larger the
batches. The library orders the texts of a batch by length and pads nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from bertcore.errors import UnavailableError
from bertcore.serving.limits import Limits

Work = Callable[[Sequence[Any]], list[Any]]
"""Texts (or what a model reads) -> a result for each."""


class FullError(UnavailableError):
    """More waits than the server takes."""


@dataclass(frozen=True)
class Job:
    """What one request asks for."""

    key: Hashable
    """Jobs with equal keys are computed by the same work."""
    work: Work
    items: Sequence[Any]
    size: int
    """How many texts that are, one for each item at least."""
    result: "asyncio.Future[list[Any]]"


@dataclass
class Batcher:
    """One computation at a time, in a thread of its own that has all cores; the loop of requests goes on meanwhile."""

    limits: Limits
    on_batch: Callable[[int], None] = lambda size: None
    """Told the number of texts of each batch."""
    busy: bool = False
    """Whether a batch is being computed."""
    _jobs: deque[Job] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "bertcore-model"))
    _ending: bool = False

    @property
    def waiting(self) -> int:
        """Texts that have not been begun."""
        return sum(job.size for job in self._jobs)

    async def submit(self, key: Hashable, work: Work, items: Sequence[Any], size: int | None = None) -> list[Any]:
        """The results of `items`, which are `size` texts, by default one each; `FullError` where too many wait,
        `BertcoreError` for an item that cannot be used."""
        assert not self._ending, "the server ends its lifespan when no request is open any more"
        size = len(items) if size is None else size
        if self.waiting + size > self.limits.queue:
            raise FullError(f"{self.waiting} texts wait, expected room for {size} more of {self.limits.queue}")
        job = Job(key, work, items, size, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._wake.set()
        return await job.result

    async def run(self) -> None:
        """Compute what comes, until `end` was called and nothing waits any more."""
        while self._jobs or not self._ending:
            await self._wake.wait()
            self._wake.clear()
            while self._jobs:
                await self._compute(self._next())
        self._thread.shutdown(wait=False)

    def end(self) -> None:
        """Take nothing new, and let `run` return when all is done."""
        self._ending = True
        self._wake.set()

    def _next(self) -> list[Job]:
        """The oldest job, and those that can be computed with it, oldest first, as far as a batch goes."""
        first = self._jobs[0]
        taken: list[Job] = []
        size = 0
        for job in list(self._jobs):
            if job.key == first.key and (not taken or size + job.size <= self.limits.batch):
                taken.append(job)
                size += job.size
        kept = set(map(id, taken))
        self._jobs = deque(job for job in self._jobs if id(job) not in kept)
        return [job for job in taken if not job.result.cancelled()]

    def _work(self, work: Work, items: Sequence[Any]) -> list[Any]:
        self.busy = True
        try:
            return work(items)
        finally:
            self.busy = False

    async def _compute(self, jobs: list[Job]) -> None:
        if not jobs:
            return
        items = [item for job in jobs for item in job.items]
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, self._work, jobs[0].work, items)
        except Exception as error:  # not to be lost: its request answers 422 or 500, and the server goes on
            if len(jobs) > 1:  # one of them cannot be used: the others are not to pay for it
                for job in jobs:
                    await self._compute([job])
            elif not jobs[0].result.done():
                jobs[0].result.set_exception(error)
            return
        self.on_batch(sum(job.size for job in jobs))
        start = 0
        for job in jobs:
            if not job.result.done():
                job.result.set_result(found[start : start + len(job.items)])
            start += len(job.items)
