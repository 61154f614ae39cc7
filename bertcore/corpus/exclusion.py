"""Documents that somebody wants out of the corpus, by their ids: of a source that others keep, they cannot be removed
from the source itself."""

from collections.abc import Iterable
from pathlib import Path

from bertcore.compressed import read_text


def excluded_ids(files: Iterable[Path]) -> frozenset[str]:
    """The ids in `files`, one a line, as the column `id` of the corpus has them; `InputError` for one that is not
    UTF-8. Blank lines are no ids."""
    lines = (line.removesuffix("\r") for file in files for line in read_text(file).split("\n"))
    return frozenset(line for line in lines if line.strip())
