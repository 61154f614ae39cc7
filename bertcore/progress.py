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
    """Counts up to `total` steps of the work called `name`.

    The lines are ``NAME  37% 296/800 note``, at most one every five seconds, and always the last one.
    """

    def __init__(self, name: str, total: int, start: int = 0, shown: bool = True):
        self._name, self._total, self._done = name, total, start
        self._shown = shown
        self._next_line = time.monotonic() + _SECONDS
        self._bar = tqdm(total=total, initial=start, desc=name) if shown and sys.stderr.isatty() else None

    def advance(self, note: str = "", steps: int = 1) -> None:
        """`steps` more are done; `note` is shown behind the count."""
        self._done += steps
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(steps)
        elif self._shown and (time.monotonic() >= self._next_line or self._done >= self._total):
            self._next_line = time.monotonic() + _SECONDS
            share = 100 * self._done // max(self._total, 1)
            print(f"{self._name} {share:3d}% {self._done}/{self._total} {note}".rstrip(), file=sys.stderr, flush=True)

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
