"""The tables of a Markdown report."""

from pathlib import Path

from flows.report import cells, tables

REPORT = """# Report

Text with a | in it.

## Tasks

| task | f1 |
|:-----|---:|
| `topic` | **0.75** |

![curve](curve.png)

| alone | |
|---|---|
"""


def test_tables_stand_below_their_headings(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text(REPORT)
    first, second = tables(tmp_path / "report.md")
    assert first.startswith("## Tasks\n\n| task | f1 |")
    assert cells(first) == [["task", "f1"], ["topic", "0.75"]]
    assert cells(second) == [["alone", ""]]


def test_no_report_has_no_tables(tmp_path: Path) -> None:
    assert tables(tmp_path / "report.md") == []
