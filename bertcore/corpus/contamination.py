"""Evaluation texts that occur in the corpus: long n-grams of words, compared by hash.

Case, punctuation, layout and the encoding of accents make no difference (see `ngrams`). Two texts that share 13 words
in a row have them from one another or from a common source (Brown et al. 2020, appendix C).
"""

import csv
import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bertcore import workers
from bertcore.compressed import plain_ending, read_bytes, read_json, read_lines
from bertcore.config import within
from bertcore.corpus.documents import RowGroup, training_parts
from bertcore.corpus.ngrams import ngram_hashes
from bertcore.errors import InputError
from bertcore.progress import track

NGRAM = 13


@dataclass(frozen=True, kw_only=True)
class ContaminationConfig:
    """Section `corpus.contamination` of params.yaml."""

    texts: list[str] = field(default_factory=list)
    """Files of evaluation texts (`.tsv`, `.csv`, `.json`, `.jsonl`, `.parquet`, `.txt`, in which a blank line ends a
    text, and `.conll`, whose first column are the words, or the second one where the first numbers them; `.gz`,
    `.zst`); documents that share an n-gram with any text in them are dropped."""
    ngram: int = NGRAM
    """Words of an n-gram; in scripts without blanks between words, two characters count as a word."""

    def __post_init__(self) -> None:
        within(self, "ngram", "at least 5 words; fewer are shared by chance", least=5)
        if remote := [text for text in self.texts if "://" in text]:
            raise ValueError(f"texts: found {remote[0]}, expected a local file; download it and name the file")


@dataclass(frozen=True)
class _Part:
    """Some blocks of the training text, with absolute paths, and all evaluation texts."""

    texts: Sequence[str]
    groups: Sequence[RowGroup]


def find_in_corpus(texts: Sequence[str], corpus: Path, count: int | None = None) -> NDArray[np.bool_]:
    """(2, texts) which of `texts` have an n-gram at all, and which share one with the training text. `count`: worker
    processes, see `workers.run`."""
    parts = [_Part(texts, groups) for groups in training_parts(corpus)]
    return reduce(np.logical_or, track(workers.run(_find, parts, count), "contamination", len(parts)))


def _find(part: _Part) -> NDArray[np.bool_]:
    ngrams = Ngrams(part.texts)
    for group in part.groups:
        ngrams.meet([" ".join(document) for document in group.read().to_pylist()])
    return np.stack([ngrams.long_enough, ngrams.met])


class Ngrams:
    """The n-grams of evaluation texts, and which of them have been met elsewhere."""

    def __init__(self, texts: Sequence[str], ngram: int = NGRAM):
        self._ngram = ngram
        hashes, self._owner = ngram_hashes(texts, ngram)
        self._known, self._which = np.unique(hashes, return_inverse=True)
        self._met = np.zeros(len(self._known), bool)
        self._texts = len(texts)

    def meet(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Remember which n-grams occur in `texts`; which of `texts` have any."""
        hashes, owner = ngram_hashes(texts, self._ngram)
        shared = np.zeros(len(texts), bool)
        if len(self._known):
            place = np.minimum(np.searchsorted(self._known, hashes), len(self._known) - 1)
            same = self._known[place] == hashes
            self._met[place[same]] = True
            shared[owner[same]] = True
        return shared

    @property
    def long_enough(self) -> NDArray[np.bool_]:
        """Which evaluation texts have an n-gram at all."""
        return np.bincount(self._owner, minlength=self._texts).astype(bool)

    @property
    def met(self) -> NDArray[np.bool_]:
        """Which evaluation texts have an n-gram that was met."""
        return np.bincount(self._owner[self._met[self._which]], minlength=self._texts).astype(bool)


def evaluation_texts(path: Path) -> Iterator[str]:
    """Every text in a file of examples, whatever its layout says of it: cells of a table, strings of JSON, lines up to
    a blank one."""
    ending = plain_ending(path)
    if ending not in READERS:
        raise InputError(f"{path}: unknown ending, expected {', '.join(READERS)} (also .gz, .zst); convert the file")
    return READERS[ending](path)


def _lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{path}:{number}: not UTF-8; convert the file to UTF-8") from None


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    for ends, group in itertools.groupby(lines, key=lambda line: not line.strip()):
        if not ends:
            yield "\n".join(group)


def _words(path: Path) -> Iterator[str]:
    """The first of the columns, which white space parts; where that numbers the words, as in CoNLL-U, the second one,
    without comments."""
    lines = list(_lines(path))
    rows = [line.split() for line in lines if not line.startswith("# ")]
    if all(len(row) > 1 and row[0][0].isdecimal() for row in rows if row):
        return (row[1] if row else "" for row in rows)
    return (line.split()[0] if line.strip() else "" for line in lines)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):  # half of a surrogate pair, which JSON can escape, has no UTF-8
        yield value if value.isascii() else value.encode(errors="replace").decode()
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _strings(member)


def _cells(path: Path) -> Iterator[str]:
    csv.field_size_limit(sys.maxsize)  # the default of 131,072 characters is less than a long document has
    reader = csv.reader(line + "\n" for line in _lines(path))
    try:
        for row in reader:
            yield from row
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not CSV ({error}); correct the file") from None


def _json(path: Path) -> Iterator[str]:
    """One value, or JSON lines, as tasks read both: those are lines of which the first one is a value by itself."""
    try:
        first = list(itertools.islice((line for line in _lines(path) if line.strip()), 2))
    except InputError:  # one value on a line longer than any of a text, say
        first = []
    return _json_lines(path) if len(first) == 2 and _is_json(first[0]) else _strings(read_json(path))


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _json_lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(_lines(path), start=1):
        try:
            yield from _strings(json.loads(line) if line.strip() else None)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{number}: not JSON ({error}); correct the file") from None


def _columns(path: Path) -> Iterator[str]:
    try:
        with pq.ParquetFile(pa.BufferReader(read_bytes(path))) as file:
            for batch in file.iter_batches(1024):
                yield from _strings(batch.to_pylist())
    except (pa.ArrowException, OSError, OverflowError, ValueError) as error:  # also of values that Python has not
        raise InputError(f"{path}: damaged ({str(error).splitlines()[0]}); fetch the file again") from None


def _is_tagged(path: Path) -> bool:
    """Whether the last column of nearly all its lines marks entities, as in files of tagged words."""
    rows = [line.split() for line in itertools.islice((line for line in _lines(path) if line.strip()), _LOOKED_AT)]
    return sum(len(row) > 1 and _ENTITY.fullmatch(row[-1]) is not None for row in rows) > _TAGGED * len(rows)


_ENTITY = re.compile(r"O|[BIESLU]-.+")
_LOOKED_AT, _TAGGED = 1000, 0.9


READERS = {
    ".txt": lambda path: _paragraphs(_words(path) if _is_tagged(path) else _lines(path)),
    ".conll": lambda path: _paragraphs(_words(path)),
    ".tsv": lambda path: (
        _paragraphs(_words(path)) if _is_tagged(path) else (cell for line in _lines(path) for cell in line.split("\t"))
    ),
    ".csv": _cells,
    ".json": _json,
    ".jsonl": _json_lines,
    ".parquet": _columns,
}
