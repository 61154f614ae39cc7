"""Source `pydoc`: the documentation strings of the Python installation itself, found by parsing, never by importing.

Every machine that can run the project has this text: the standard library and the distributions of `requirements.lock`.
Files are parsed on all cores; order and content do not depend on how many there are.
"""

import ast
import gc
import hashlib
import inspect
import itertools
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from bertcore.corpus.documents import Document
from bertcore.corpus.sources.pydoc.installation import ModuleFile, check_installation, module_files
from bertcore.corpus.sources.pydoc.prose import is_english, prose
from bertcore.corpus.sources.source import Keep, Source
from bertcore.errors import ConfigError
from bertcore.workers import on_this_machine

URI = "pydoc"
TEXT_BYTES = 40_000_000  # at most: 33 MB with the packages of the lock
DOCUMENT_BYTES = 3_800  # the mean, of the same packages
LOCK = Path("requirements.lock")  # of the project root, where every stage runs
MIN_WORDS = 5  # of prose; shorter ones ("Return self.") say little and repeat everywhere
SHORTEST_NAME = 4  # characters; shorter names of definitions are parts of ordinary words
MIN_QUOTED = 0.08  # share of a file's bytes inside triple quotes; below it lie 31 % of all bytes but 3 % of the prose
FILES_PER_CHUNK = 24  # small enough that no worker idles at the end, large enough that pickling costs nothing

KINDS: dict[type, str] = {ast.Module: "module", ast.ClassDef: "class"}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, kw_only=True)
class Docstring:
    """One kept documentation string."""

    document_id: str
    """``pydoc:MODULE``, the id of the document that it becomes part of."""
    package: str
    """Top-level import name."""
    qualname: str
    """Dotted name inside the module; empty for the module's own documentation."""
    kind: str
    """``module``, ``class`` or ``function``."""
    parameters: list[str]
    """Names of the signature's arguments without self and cls; of a class, those of its ``__init__``."""
    docstring: str
    """With the indentation removed (`inspect.cleandoc`) and the layout kept."""
    prose: str
    """Its English sentences, one paragraph a line (see `prose`)."""


RECORD_SCHEMA = pa.schema(
    [
        ("document_id", pa.string()),
        ("split", pa.string()),
        ("package", pa.string()),
        ("qualname", pa.string()),
        ("kind", pa.string()),
        ("parameters", pa.list_(pa.string())),
        ("docstring", pa.string()),
    ]
)


class PydocSource(Source):
    """The installation's modules as documents; their single docstrings are kept, too."""

    RECORDS = ("docstrings.parquet", RECORD_SCHEMA)

    def __init__(self, uri: str, *, wrapped: bool = False, column: str | None = None) -> None:
        if wrapped:
            raise ConfigError(f"{uri}: found wrapped true, expected false, as its lines are paragraphs; leave it out")
        if column is not None:
            raise ConfigError(f"{uri}: found column {column!r}, expected none, as it has no columns; leave it out")
        super().__init__(uri)

    @property
    def files(self) -> Sequence[Path]:
        """The lock that names the distributions."""
        return [LOCK]

    def documents(self, files: Sequence[Path], dropped: Counter[str], keep: Keep) -> Iterator[Document]:
        lock = files[0] if files else LOCK
        for document, members in documents(read_docstrings(lock, dropped)):
            for docstring in members:
                keep(vars(docstring))
            yield document

    def warnings(self, files: Sequence[Path]) -> list[str]:
        return check_installation(files[0] if files else LOCK)

    def text_bytes(self, documents: int | None = None) -> float:
        return TEXT_BYTES if documents is None else min(TEXT_BYTES, documents * DOCUMENT_BYTES)


def read_docstrings(lock: Path, statistics: Counter[str], workers: int | None = None) -> Iterator[Docstring]:
    """The docstrings of the standard library and of the locked distributions, by module name, then in source order.

    `statistics` counts what is dropped, by reason. `workers` (processes, default: one per core that this process
    may use) changes the time only. `InputError` for a lock that cannot be read.
    """
    yield from parse_files(module_files(lock, statistics), statistics, workers)


def parse_files(files: list[ModuleFile], statistics: Counter[str], workers: int | None = None) -> Iterator[Docstring]:
    """The docstrings of `files`, in their order, without those whose prose an earlier one has already.

    Prose that differs in nothing but the definition's own names (generated accessors, thousands of them) is the same.
    """
    seen: set[bytes] = set()
    chunks = (files[start : start + FILES_PER_CHUNK] for start in range(0, len(files), FILES_PER_CHUNK))
    for docstrings, counts in on_this_machine(_parse_chunk, chunks, workers):
        statistics.update(counts)
        for docstring in docstrings:
            digest = hashlib.blake2b(_template(docstring).encode(), digest_size=16).digest()
            if digest in seen:
                statistics["duplicate_docstring"] += 1
                continue
            seen.add(digest)
            yield docstring


def documents(docstrings: Iterable[Docstring]) -> Iterator[tuple[Document, list[Docstring]]]:
    """Each module's `Document` with the docstrings that it was made from; `docstrings` in the order they were read."""
    for _, group in itertools.groupby(docstrings, key=lambda docstring: docstring.document_id):
        members = list(group)
        yield module_document(members), members


def module_document(docstrings: list[Docstring]) -> Document:
    """One module's docstrings as one `Document`: the paragraphs of their prose, in source order."""
    return Document(id=docstrings[0].document_id, text="\n".join(each.prose for each in docstrings), source=URI)


def _template(docstring: Docstring) -> str:
    text = docstring.prose
    for name in docstring.qualname.split("."):
        if len(name) >= SHORTEST_NAME:
            text = text.replace(name, "\0")
    return text


def _parse_chunk(files: list[ModuleFile]) -> tuple[list[Docstring], Counter[str]]:
    kept: list[Docstring] = []
    statistics: Counter[str] = Counter()
    collecting = gc.isenabled()
    gc.disable()  # syntax trees hold no cycles; looking for them costs 40 % of the parsing time
    try:
        for file in files:
            kept.extend(_parse_file(file, statistics))
    finally:
        if collecting:
            gc.enable()
    return kept, statistics


def _parse_file(file: ModuleFile, statistics: Counter[str]) -> Iterator[Docstring]:
    try:
        source = Path(file.path).read_bytes()
    except OSError:
        statistics["file_cannot_be_read"] += 1
        return
    if _quoted_bytes(source) < MIN_QUOTED * len(source):
        statistics["hardly_documented_file"] += 1
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's strings
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        statistics["file_does_not_parse"] += 1
        return
    for qualname, node in itertools.chain([("", tree)], _definitions(tree.body, "")):
        docstring = _docstring(file.module, qualname, node, statistics)
        if docstring is not None:
            yield docstring


def _quoted_bytes(source: bytes) -> int:
    """About how many bytes stand inside triple quotes: a hundred times cheaper than parsing."""
    return sum(sum(map(len, source.split(quotes)[1::2])) for quotes in (b'"""', b"'''"))


def _definitions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Definition]]:
    """Functions and classes in source order, also inside classes, `if` and `try`; not inside functions."""
    for node in body:
        if isinstance(node, Definition):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _definitions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            blocks = [node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])]
            blocks[1:1] = [handler.body for handler in getattr(node, "handlers", [])]
            for block in blocks:
                yield from _definitions(block, prefix)


def _docstring(module: str, qualname: str, node: ast.Module | Definition, statistics: Counter[str]) -> Docstring | None:
    raw = ast.get_docstring(node, clean=False)
    if raw is None:
        return None
    text = inspect.cleandoc(raw).strip()
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        statistics["docstring_not_unicode"] += 1
        return None
    paragraphs = prose(text)
    if len(paragraphs.split()) < MIN_WORDS:
        statistics["too_short_docstring"] += 1
        return None
    if not is_english(paragraphs):
        statistics["docstring_not_english"] += 1
        return None
    return Docstring(
        document_id=f"{URI}:{module}",
        package=module.partition(".")[0],
        qualname=qualname,
        kind=KINDS.get(type(node), "function"),
        parameters=_parameters(node),
        docstring=text,
        prose=paragraphs,
    )


def _parameters(node: ast.Module | Definition) -> list[str]:
    if isinstance(node, ast.ClassDef):
        initialisers = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        return _parameters(initialisers[-1]) if initialisers else []
    if isinstance(node, ast.Module):
        return []
    signature = node.args
    named = [*signature.posonlyargs, *signature.args, signature.vararg, *signature.kwonlyargs, signature.kwarg]
    return [argument.arg for argument in named if argument is not None and argument.arg not in ("self", "cls")]
