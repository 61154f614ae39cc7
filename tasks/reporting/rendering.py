"""A report's document as Markdown, or as one HTML page that needs no other file."""

import base64
import html
import re
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tasks.reporting.document import Document, Paragraph, Picture, Table

_CODE = re.compile(r"`([^`]+)`")


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
                blocks.extend(markdown_table(part))
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


def markdown_table(table: Table) -> list[str]:
    """The caption, where there is one, and the table."""
    rule = [":--" if table.is_left(column) else "--:" for column in range(len(table.header))]
    rows = [[_markdown_text(cell).replace("|", "\\|") for cell in row] for row in (table.header, *table.rows)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, f"|{'|'.join(rule)}|")
    return [*([f"**{_markdown_text(table.caption)}**"] if table.caption else []), "\n".join(lines)]


def plain_text(text: str) -> str:
    """`text` without the marks of code."""
    return _CODE.sub(r"\1", text)


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
