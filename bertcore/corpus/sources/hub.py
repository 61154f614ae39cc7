"""Documents streamed from a data set on the Hugging Face hub: `hf://ORG/NAME[/CONFIG][@REVISION]?split=train&column=text`."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bertcore import hub
from bertcore.corpus.documents import Document
from bertcore.corpus.sources.local import NO_TEXT
from bertcore.errors import InputError


def read(uri: str, paths: list[Path], statistics: Counter[str]) -> Iterator[Document]:
    """One document per row, with the id `ORG/NAME[/CONFIG]:SPLIT:ROW`; rows without text are counted and left out.

    Nothing is kept on disk: the rows arrive while they are read. `paths` is not used.
    """
    location = hub.parse_uri(uri)
    rows = hub.load(location, split=location.split, streaming=True)
    name = "/".join(filter(None, (location.repository, location.config)))
    with hub.one_line_errors(location):
        for index, row in enumerate(rows):
            if location.column not in row:
                raise InputError(
                    f"{uri}: no column {location.column!r} among {', '.join(row)}; name one with ?column=…"
                )
            text = row[location.column]
            if isinstance(text, str):
                yield Document(f"{name}:{location.split}:{index}", text, uri)
            else:
                statistics[NO_TEXT] += 1
