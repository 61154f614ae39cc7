"""Documents streamed from a data set on the Hugging Face hub: `hf://ORG/NAME[/CONFIG][@REVISION]?split=train&column=text`."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bertcore import hub
from bertcore.corpus.documents import Document
from bertcore.corpus.sources.formats.blocks import NO_TEXT
from bertcore.corpus.sources.source import Keep, Source
from bertcore.errors import ConfigError, InputError

_SETTLE_SECONDS = 1.0
"""What Arrow's threads have to end the reads that they began ahead. Python before 3.14 aborts when it ends beneath one,
and the error's exit status is lost: with reads of 50 ms in 5 of 8 processes, in none of 20 that waited."""


class HubSource(Source):
    """A data set of the hub. Nothing is kept on disk: the rows arrive while they are read."""

    def __init__(self, uri: str, *, wrapped: bool = False, column: str | None = None) -> None:
        super().__init__(uri, wrapped=wrapped, column=column)
        location = hub.parse_uri(uri)
        if column is not None and "column=" in uri:
            raise ConfigError(
                f"{uri}: found column {column!r} beside ?column={location.column}, expected one of them; leave one out"
            )
        self._location = location if column is None else replace(location, column=column)

    def revisions(self) -> dict[str, str | None]:
        return {self.uri: hub.commit_of(self._location)}

    def documents(self, files: Sequence[Path], dropped: Counter[str], keep: Keep) -> Iterator[Document]:
        """One document per row, with the id `ORG/NAME[/CONFIG]:SPLIT:ROW`; rows without text are left out."""
        location = self._location
        rows = hub.load(location, split=location.split, streaming=True)
        name = "/".join(filter(None, (location.repository, location.config)))
        with hub.one_line_errors(location):
            for index, row in enumerate(rows):
                if location.column not in row:
                    time.sleep(_SETTLE_SECONDS)
                    raise InputError(
                        f"{self.uri}: no column {location.column!r} among {', '.join(row)}; name one with column"
                    )
                text = row[location.column]
                if isinstance(text, str):
                    yield Document(f"{name}:{location.split}:{index}", text, self.uri)
                else:
                    dropped[NO_TEXT] += 1
