"""What a check found: a line that is green, or a line with its remedy. Needs nothing but Python, so that the flow may
import it."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["ok", "warn", "FAIL"]

_COLOURS = {"ok": 32, "warn": 33, "FAIL": 31}
_NAME_WIDTH = 10


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The outcome of one check."""

    level: Level
    """`ok`; `warn`: the run can go on; `FAIL`: it could not succeed, or something is damaged."""
    name: str
    """Of the check, one word."""
    text: str
    """What was found."""
    remedy: str = ""
    """What to do about it; of every finding that is not ok."""

    def lines(self, colour: bool = False) -> list[str]:
        """As a person reads it: one line, and below it the remedy. `colour`: with a terminal's escape codes."""
        mark = f"{self.level:4}"
        if colour:
            mark = f"\x1b[{_COLOURS[self.level]}m{mark}\x1b[0m"
        found = f"{mark}  {self.name:{_NAME_WIDTH}}  {self.text}"
        return [found, f"{'':6}{'':{_NAME_WIDTH}}  -> {self.remedy}"] if self.remedy else [found]


def ok(name: str, text: str) -> Finding:
    return Finding(level="ok", name=name, text=text)


def warn(name: str, text: str, remedy: str) -> Finding:
    return Finding(level="warn", name=name, text=text, remedy=remedy)


def fail(name: str, text: str, remedy: str) -> Finding:
    return Finding(level="FAIL", name=name, text=text, remedy=remedy)


def failed(findings: Iterable[Finding]) -> list[Finding]:
    """Those that the run could not survive."""
    return [finding for finding in findings if finding.level == "FAIL"]


def dump(findings: Iterable[Finding]) -> str:
    """JSON that `load` reads."""
    return json.dumps([asdict(finding) for finding in findings])


def load(text: str) -> list[Finding]:
    """What `dump` wrote; `ValueError` or `TypeError` for anything else."""
    return [Finding(**values) for values in json.loads(text)]
