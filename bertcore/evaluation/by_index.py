"""Files with one row for each example: its index, a tab, and what is said of it."""

from collections.abc import Iterator
from pathlib import Path

from bertcore.compressed import read_lines
from bertcore.errors import InputError


def read_by_index(path: Path, what: str) -> Iterator[tuple[str, str, str]]:
    """(where, index, cell) of every row; a header, where there is one, begins with `index` or `id`.

    `what` names the second column in errors. `InputError` for a row of other than two columns or an index that stands
    twice.
    """
    seen: set[str] = set()
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}:{number}"
        cells = line.decode("utf-8-sig", errors="replace").split("\t")
        if cells == [""] or (number == 1 and cells[0].lower() in ("index", "id")):
            continue
        if len(cells) != 2:
            raise InputError(f"{where}: found {len(cells)} columns, expected 2: index<TAB>{what}; correct the row")
        index, cell = cells
        if index in seen:
            raise InputError(f"{where}: the index {index!r} stands twice, expected each once; correct the file")
        seen.add(index)
        yield where, index, cell
