"""A report as data: sections of paragraphs, tables and pictures, rendered as Markdown or as one HTML page.

Text may hold `code` between backticks; everything else in it stands for itself.
"""

import base64
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_CODE = re.compile(r"`([^`]+)`")


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


def to_markdown(document: Document) -> str:
    blocks = [f"# {document.title}", _markdown_text(document.introduction)]
    for section in document.sections:
        blocks.append(f"## {section.title}")
        for part in section.parts:
            if isinstance(part, Paragraph):
                blocks.append(_markdown_text(part.text))
            elif isinstance(part, Picture):
                blocks.append(f"![{part.alternative}]({part.name}.png)")
            else:
                blocks.extend(_markdown_table(part))
    return "\n\n".join(blocks) + "\n"


def to_html(document: Document, pictures: Mapping[str, bytes]) -> str:
    """One page that needs no other file; `pictures` are the SVG files by name."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["text"] = _html_text
    page = environment.get_template("page.html.jinja")
    return page.render(document=document, svg=lambda name: _data_uri(pictures[name]))


def _markdown_table(table: Table) -> list[str]:
    rule = [":--" if table.is_left(column) else "--:" for column in range(len(table.header))]
    rows = [[_markdown_text(cell).replace("|", "\\|") for cell in row] for row in (table.header, *table.rows)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, f"|{'|'.join(rule)}|")
    return [*([f"**{_markdown_text(table.caption)}**"] if table.caption else []), "\n".join(lines)]


def _markdown_text(text: str) -> str:
    """Angle brackets, stars and underscores would be taken for markup outside `code`."""
    pieces = _CODE.split(text)
    pieces[::2] = [re.sub(r"([<>*\\]|(?<!\w)_|_(?!\w))", r"\\\1", piece) for piece in pieces[::2]]
    pieces[1::2] = [f"`{piece}`" for piece in pieces[1::2]]
    return "".join(pieces)


def _html_text(text: str) -> Markup:
    return Markup(_CODE.sub(r"<code>\1</code>", html.escape(text)))


def _data_uri(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"
