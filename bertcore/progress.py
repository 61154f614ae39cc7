"""Progress of long work: a bar in a terminal, else a line every few seconds that a log (or a flow) can read."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")


_SECONDS = 5.0
"""Between two lines of a log."""


class Progress:
    """Counts up to `total` steps of the work called `name`, which may be an estimate; None where there is none.

    The lines are ``NAME  37% 296/800 note``, without a total ``NAME   ?% 296 note``: at most one every five seconds,
    and always that of the last step.
    """

    def __init__(self, name: str, total: int | None, start: int = 0, shown: bool = True):
        self._name, self._total, self._done = name, total, start
        self._shown = shown
        self._next_line = time.monotonic() + _SECONDS
        self._bar = tqdm(total=total, initial=start, desc=name) if shown and sys.stderr.isatty() else None

    def advance(self, note: str = "", steps: int = 1) -> None:
        """`steps` more are done; `note` is shown behind the count."""
        before, self._done = self._done, self._done + steps
        last = self._total is not None and before < self._total <= self._done
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(steps)
        elif self._shown and (time.monotonic() >= self._next_line or last):
            self._next_line = time.monotonic() + _SECONDS
            print(f"{self._name} {self._counted()} {note}".rstrip(), file=sys.stderr, flush=True)

    def _counted(self) -> str:
        if self._total is None:
            return f"  ?% {self._done}"
        return f"{min(100 * self._done // max(self._total, 1), 100):3d}% {self._done}/{self._total}"

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def track(items: Iterable[Item], name: str, total: int) -> Iterator[Item]:
    """`items`, with their progress shown."""
    progress = Progress(name, total)
    for item in items:
        yield item
        progress.advance()
    progress.close()
