"""The documented parameters of a docstring, from its NumPy, Google or Sphinx sections."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bertcore.corpus.sources.pydoc.prose import plain

MAX_TYPE_WORDS = 8
NOT_IN_TYPES = frozenset(  # a "type" with one of these words is a description in the type's place
    ["a", "an", "the", "to", "by", "for", "that", "which", "is", "are", "be", "if", "when", "from", "used", "in", "on"]
    + ["this", "will", "should", "must", "can", "as", "at", "it", "its", "see", "whether", "same", "has", "not"]
)

NUMPY_TITLE = re.compile(r"(other )?parameters", re.IGNORECASE)
GOOGLE_TITLE = re.compile(r"(args|arguments|parameters|params|keyword args|keyword arguments):", re.IGNORECASE)
UNDERLINE = re.compile(r"[-=~]{3,}")
NUMPY_ENTRY = re.compile(r"(?P<names>[*`]{0,4}\w+[`*]{0,2}(?:,\s*[*`]{0,4}\w+[`*]{0,2})*)(?:\s*:(?:\s+(?P<type>.+))?)?")
GOOGLE_ENTRY = re.compile(r"(?P<names>[*`]{0,4}\w+[`*]{0,2})\s*(?:\((?P<type>.+?)\))?\s*:(?:\s+(?P<text>.*)|$)")
SPHINX_ENTRY = re.compile(
    r":(?:param|parameter|arg|argument|keyword)\s+(?:(?P<type>[^:]+?)\s+)?(?P<names>\*{0,2}\w+)\s*:\s*(?P<text>.*)"
)
SPHINX_TYPE = re.compile(r":type\s+(?P<name>\*{0,2}\w+)\s*:\s*(?P<type>.*)")
TYPE_ALONE = re.compile(r"[A-Za-z_][\w.]*(\[[\w., \[\]]*\])?( \(optional\))?")  # on the line of `:param name:`

NOT_TYPE = re.compile(  # what follows the type in its place
    r"(?:^|[,;.\s(]+)(?:optional\b(?!\[)|required|defaults?\b|by default|keyword[- ]only|positional[- ]only"
    r"|must be|with\b|shape\b|of shape|of length|of size).*",
    re.IGNORECASE | re.DOTALL,
)
DEFAULT = re.compile(
    r"\b[Dd]efaults?(?: value)?(?:\s*[=:]\s*|\s+(?:is|to|are)\s+|\s+)"
    r"[\"'(]?(?P<value>-?[\w.+-]*\w)[\"')]*"
    r"(?=[,.;)\]}]|\s*$)",
    re.MULTILINE,
)
WORD = re.compile(r"\w")


@dataclass(frozen=True)
class Parameter:
    """One documented parameter; texts have no markup and single spaces."""

    name: str
    type: str
    """Empty where none is given; without "optional" and the default."""
    after_type: str
    """What stands beside the type, such as "optional, default=1"; often empty."""
    description: str


@dataclass
class _Entry:
    names: str
    type: str
    lines: list[str]


def parse_parameters(docstring: str, signature: tuple[str, ...]) -> list[Parameter]:
    """The documented parameters that are in `signature` (without asterisks), in the documented order, each once."""
    lines = docstring.expandtabs().splitlines()
    entries = [*_numpy(lines)] or [*_google(lines)] or [*_sphinx(lines)]
    found: dict[str, Parameter] = {}
    for entry in entries:
        for name in re.findall(r"\w+", entry.names):
            if name in signature and name not in found:
                found[name] = _parameter(name, entry)
    return list(found.values())


def _parameter(name: str, entry: _Entry) -> Parameter:
    given = plain(entry.type).strip(" .,")
    kind = NOT_TYPE.sub("", given).strip(" .,;(")
    end = next((index for index, line in enumerate(entry.lines) if index and not line.strip()), len(entry.lines))
    description = plain(" ".join(line.strip() for line in entry.lines[:end]))
    words = kind.lower().split()
    undescribed = not description and len(words) > 2  # `nrows : number of rows` and nothing below
    if len(words) > MAX_TYPE_WORDS or NOT_IN_TYPES.intersection(words) or undescribed:
        return Parameter(name, "", "", f"{given} {description}".strip())
    if not WORD.search(kind):
        return Parameter(name, "", given, description)
    return Parameter(name, kind, given[given.index(kind) + len(kind) :].strip(" ,;."), description)


def _numpy(lines: list[str]) -> Iterator[_Entry]:
    for number, (line, below) in enumerate(zip(lines, lines[1:], strict=False)):
        if NUMPY_TITLE.fullmatch(line.strip()) and UNDERLINE.fullmatch(below.strip()):
            yield from _numpy_section(lines[number + 2 :], _indent(line))


def _numpy_section(lines: list[str], indent: int) -> Iterator[_Entry]:
    entry: _Entry | None = None
    for number, line in enumerate(lines):
        if not line.strip() or _indent(line) > indent:
            if entry is not None:
                entry.lines.append(line)
            continue
        if entry is not None:
            yield entry
        following = lines[number + 1] if number + 1 < len(lines) else ""
        match = NUMPY_ENTRY.fullmatch(line.strip())
        if match is None or UNDERLINE.fullmatch(following.strip()):
            return
        entry = _Entry(match["names"], match["type"] or "", [])
    if entry is not None:
        yield entry


def _google(lines: list[str]) -> Iterator[_Entry]:
    for number, line in enumerate(lines):
        if GOOGLE_TITLE.fullmatch(line.strip()):
            yield from _google_section(lines[number + 1 :], _indent(line))


def _google_section(lines: list[str], outer: int) -> Iterator[_Entry]:
    entry: _Entry | None = None
    inner: int | None = None
    for line in lines:
        if line.strip() and _indent(line) <= outer:
            break
        inner = _indent(line) if inner is None and line.strip() else inner
        match = GOOGLE_ENTRY.fullmatch(line.strip()) if _indent(line) == inner else None
        if match is not None:
            if entry is not None:
                yield entry
            entry = _Entry(match["names"], match["type"] or "", [match["text"] or ""])
        elif entry is not None:
            entry.lines.append(line)
    if entry is not None:
        yield entry


def _sphinx(lines: list[str]) -> Iterator[_Entry]:
    types = {match["name"]: match["type"] for line in lines if (match := SPHINX_TYPE.match(line.strip()))}
    entry: _Entry | None = None
    indent = 0
    for number, line in enumerate([*lines, ":end"]):
        match = SPHINX_ENTRY.match(line.strip())
        if entry is not None and (match or (line.strip() and _indent(line) <= indent)):
            yield entry
            entry = None
        if match:
            entry = _Entry(match["names"], match["type"] or types.get(match["names"], ""), [match["text"]])
            indent = _indent(line)
            below = lines[number + 1].strip() if number + 1 < len(lines) else ""
            if not entry.type and below and TYPE_ALONE.fullmatch(match["text"]):
                entry.type, entry.lines = match["text"], []
        elif entry is not None:
            entry.lines.append(line)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
