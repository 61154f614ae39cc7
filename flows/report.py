"""The tables of reports/report.md, for Prefect's artifact page and for the end of `make pretrain`."""

import re
from pathlib import Path

HEADING = re.compile(r"^#+\s")
RULE = re.compile(r"^\|[\s:|-]+\|$")


def tables(report: Path) -> list[str]:
    """The Markdown tables of a file in order, each below the heading it stands under; empty without such a file."""
    if not report.is_file():
        return []
    found: list[str] = []
    heading, rows = "", list[str]()
    for line in [*report.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            rows.append(line.strip())
            continue
        if len(rows) > 1:
            found.append("\n".join([heading, "", *rows] if heading else rows))
        rows = []
        if HEADING.match(line):
            heading = line.strip()
    return found


def cells(table: str) -> list[list[str]]:
    """The rows of a Markdown table, its header first, as plain text without emphasis and code marks."""
    rows = [line for line in table.splitlines() if line.startswith("|") and not RULE.match(line)]
    return [[re.sub(r"[*`]", "", cell).strip() for cell in row.strip("|").split("|")] for row in rows]
