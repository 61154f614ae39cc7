"""Search by meaning: passages and queries as vectors of an encoder, and the cosines of all of them.

An index is a directory: the passages, their vectors, and what both were made from. It is made anew where the texts, the
model or the settings are others, with the vectors of the passages that were there before; readers of an index see the
old one or the new one.
"""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bertcore.apply.compact import Precision, compact
from bertcore.apply.embed import Embedder, nearest
from bertcore.compressed import plain_ending, plain_name, read_text
from bertcore.embedding.vectors import normalized
from bertcore.errors import InputError
from bertcore.files import checksum, disk_errors, replace_directory, unwritable, visible_files, write_json

ENDINGS = (".txt", ".md", ".rst")
"""Of the files of a directory that are read; also .gz, .zst."""
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")

_MADE_FROM, _PASSAGES, _VECTORS = "index.json", "passages.parquet", "vectors.npy"
_LAYOUT = 1
"""Of an index; raised where what an index holds changes."""


@dataclass(frozen=True)
class Passage:
    """Something that can be found."""

    text: str
    source: str
    """The file that it stands in."""
    line: int
    """Where it begins there, counted from 1."""


@dataclass(frozen=True)
class Found:
    """A passage for a query."""

    score: float
    """Cosine of the two vectors."""
    passage: Passage


def read_passages(place: Path, words: int) -> list[Passage]:
    """The paragraphs of a file, or of all files with `ENDINGS` below a directory, in pieces of at most `words` words;
    `InputError` where there is none."""
    if not place.exists():
        raise InputError(f"{place}: no such file or directory; correct the path")
    if place.is_file() and plain_ending(place) in TABLES:
        raise InputError(
            f"{place}: found a table, expected text, such as {', '.join(ENDINGS)}; write its texts as .txt, with a "
            "blank line between them"
        )
    files = (
        [place] if place.is_file() else [path for path in visible_files(place) if plain_name(path).endswith(ENDINGS)]
    )
    found = [
        Passage(text, _name(file.relative_to(place) if file != place else Path(file.name)), line)
        for file in files
        for text, line in _paragraphs(read_text(file), words)
    ]
    if not found:
        raise InputError(f"{place}: found no text, expected a file, or a directory of {', '.join(ENDINGS)}; add some")
    return found


def _name(file: Path) -> str:
    """As UTF-8 has it: a name may be any bytes."""
    return os.fsencode(file.as_posix()).decode(errors="replace")


def _paragraphs(text: str, words: int) -> Iterator[tuple[str, int]]:
    """The paragraphs between blank lines, long ones in pieces, each with the line where it begins."""
    line = 1
    for block in re.split(r"(\n\s*\n)", text):
        found = list(re.finditer(r"\S+", block))
        for start in range(0, len(found), words):
            piece = found[start : start + words]
            yield " ".join(word.group() for word in piece), line + block.count("\n", 0, piece[0].start())
        line += block.count("\n")


@dataclass(frozen=True)
class Index:
    """Passages and their vectors of length 1, (P, H), as `compact` leaves them."""

    passages: list[Passage]
    vectors: NDArray[Any]
    embedded: int
    """How many of the passages were new when the index was opened."""
    cut: int
    """How many of those were longer than what the model reads: their ends are not found."""
    precision: Precision = "float32"

    @classmethod
    def open(
        cls,
        place: Path,
        directory: Path,
        embedder: Embedder,
        words: int = 120,
        progress: str | None = None,
        precision: Precision = "float32",
    ) -> "Index":
        """The index in `directory` of the texts at `place`, made anew as far as it is not of these texts, this model
        and these settings."""
        if directory.exists() and not _is_index(directory):
            raise InputError(
                f"{directory}: found something that is no index, expected one or nothing; name another place"
            )
        passages = read_passages(place, words)
        made_by = {
            "layout": _LAYOUT,
            "model": model_hash(embedder.directory),
            "precision": precision,
            **{name: getattr(embedder, name) for name in ("pooling", "layer", "max_length", "dimensions")},
        }
        made_from = {**made_by, "words": words, "passages": _hash_of(passages)}
        before = _made_from(directory)
        if before == made_from and (kept := _vectors(directory)) is not None and len(kept) == len(passages):
            return cls(passages, kept, 0, 0, precision)
        known = _known(directory) if {name: before.get(name) for name in made_by} == made_by else {}
        new = list(dict.fromkeys(each.text for each in passages if each.text not in known))
        cut = 0
        _check_place(directory)
        if new:
            embedded, cut = embedder.embed(new, progress)
            known |= dict(zip(new, compact(normalized(embedded), precision), strict=True))
        vectors = np.stack([known[each.text] for each in passages])
        _write(directory, passages, vectors, made_from)
        return cls(passages, vectors, len(new), cut, precision)

    def search(self, queries: NDArray[np.float32], top: int) -> list[list[Found]]:
        """For each of (Q, H) vectors of length 1 the `top` passages, the nearest first."""
        rows, cosines = nearest(queries, self.vectors, top, self.precision)
        return [
            [Found(cosine, self.passages[row]) for row, cosine in zip(*pair, strict=True)]
            for pair in zip(rows.tolist(), cosines.tolist(), strict=True)
        ]


def _is_index(directory: Path) -> bool:
    """Whether an index lies there, perhaps a damaged one, and nothing beside it: it is replaced as a whole."""
    files = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    return _MADE_FROM in files and files <= {_MADE_FROM, _PASSAGES, _VECTORS}


def _check_place(directory: Path) -> None:
    if found := unwritable(directory.parent):
        raise InputError(
            f"{found[0]}: found a place where nothing can be written, expected one for the index {directory.name}; "
            "name another one: --index DIR"
        )


def model_hash(directory: Path) -> str:
    """SHA-256 over the names and contents of a model's own files."""
    digest = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        if path.suffix in (".json", ".safetensors", ".txt"):
            digest.update(f"{path.name} {checksum(path)}\n".encode())
    return digest.hexdigest()


def _hash_of(passages: Sequence[Passage]) -> str:
    lines = (json.dumps(dataclasses.astuple(each)) for each in passages)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _made_from(directory: Path) -> dict[str, Any]:
    """What the index in `directory` was made from; nothing where there is none, or one that cannot be read."""
    try:
        found = json.loads((directory / _MADE_FROM).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _vectors(directory: Path) -> NDArray[Any] | None:
    """Those of the index in `directory`, read as they are needed; None where they are damaged."""
    try:
        found: NDArray[Any] = np.load(directory / _VECTORS, mmap_mode="r")
    except (OSError, ValueError):
        return None
    return found


def _known(directory: Path) -> dict[str, NDArray[Any]]:
    """Text -> vector of the index in `directory`; nothing where it is damaged."""
    try:
        texts = pq.read_table(directory / _PASSAGES, columns=["text"])["text"].to_pylist()
        vectors = np.load(directory / _VECTORS)
    except (OSError, ValueError, pa.ArrowException):
        return {}
    return dict(zip(texts, vectors, strict=True)) if len(texts) == len(vectors) else {}


def _write(directory: Path, passages: Sequence[Passage], vectors: NDArray[Any], made_from: dict[str, Any]) -> None:
    with disk_errors(directory), replace_directory(directory) as beside:
        table = pa.Table.from_pylist([dataclasses.asdict(each) for each in passages])
        pq.write_table(table, beside / _PASSAGES, compression="zstd")
        np.save(beside / _VECTORS, vectors)
        write_json(beside / _MADE_FROM, made_from)
