"""A report as data: sections of paragraphs, tables and pictures.

Text may hold `code` between backticks; everything else in it stands for itself.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

TABLES = "tables.json"
"""The file of a report that holds its tables, for who shows them elsewhere."""

SIGNS = ("Sign", "Found", "Remedy")
"""The header of its table of what went wrong, which is there only where something did."""

NOTHING = "–"
"""A cell for which there is no number."""


def percent(share: float) -> str:
    """A share times 100."""
    return f"{100 * share:.1f}".replace("-", "−")


def count(number: float) -> str:
    return f"{round(number):,}"


def counted(counts: Mapping[str, float]) -> list[tuple[str, str]]:
    """Names with their counts, the largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(name, count(number)) for name, number in ordered]


def signed(number: float, digits: int) -> str:
    return f"{number:+.{digits}f}".replace("-", "−")


@dataclass(frozen=True)
class Paragraph:
    text: str

    kind = "paragraph"


@dataclass(frozen=True)
class Table:
    """Cells are text already; the first column is flush left, so are those named in `left`."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Sequence[str] = ()
    """Names of further columns that hold words."""
    strong: str | None = None
    """The column that matters."""
    verdicts: str | None = None
    """The column that says how good a row is; the page colours it by `tones`."""
    tones: Sequence[str] = ()
    """`good`, `mixed` or `bad`, one for each row; classes of the page's style sheet."""
    caption: str = ""

    kind = "table"

    def is_left(self, column: int) -> bool:
        return column == 0 or self.header[column] in (*self.left, self.verdicts)


@dataclass(frozen=True)
class Picture:
    """`NAME.png` beside the Markdown file; the page holds it as SVG."""

    name: str
    alternative: str
    """What the picture shows, for those who cannot see it."""

    kind = "picture"


@dataclass(frozen=True)
class Section:
    title: str
    parts: Sequence[Paragraph | Table | Picture]

    @property
    def anchor(self) -> str:
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


@dataclass(frozen=True)
class Card:
    """A number that stands out on the page, and what it is."""

    value: str
    label: str
    remark: str = ""


@dataclass(frozen=True)
class Document:
    title: str
    introduction: str
    sections: Sequence[Section]
    cards: Sequence[Card] = field(default_factory=list)


def write_tables(document: Document, path: Path) -> None:
    """Every table of `document` with the title of its section, in order."""
    tables = [
        [section.title, asdict(part)] for section in document.sections for part in section.parts if part.kind == "table"
    ]
    path.write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_tables(path: Path) -> list[tuple[str, Table]]:
    """What `write_tables` wrote; empty where there is no such file."""
    if not path.is_file():
        return []
    return [(title, Table(**fields)) for title, fields in json.loads(path.read_text(encoding="utf-8"))]
