"""The line layout of documentation strings: which lines are prose, and where a paragraph ends.

Knows the layouts that Python packages use: reStructuredText, NumPy and Google sections, Sphinx fields, Markdown. Code,
doctests, tables, formulas, references and section titles are left out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

PARAMETER_TITLES = frozenset(
    ["args", "arguments", "parameters", "params", "other parameters", "keyword args", "keyword arguments", "kwargs"]
    + ["attributes", "raises", "warns", "returns", "return", "yields", "yield", "receives"]
)
SKIPPED_TITLES = frozenset(["see also", "references", "bibliography", "links"])
OTHER_TITLES = frozenset(
    [
        "examples",
        "example",
        "notes",
        "note",
        "warning",
        "warnings",
        "usage",
        "methods",
        "explanation",
        "description",
        "details",
        "caution",
        "todo",
        "tip",
        "important",
        "inputs",
        "outputs",
        "input",
        "output",
        "raise",
        "shape",
        "summary",
        "hint",
    ]
)
KNOWN_TITLES = PARAMETER_TITLES | SKIPPED_TITLES | OTHER_TITLES
ADMONITIONS = frozenset(
    [
        "note",
        "warning",
        "seealso",
        "tip",
        "important",
        "attention",
        "hint",
        "caution",
        "danger",
        "error",
        "admonition",
        "versionadded",
        "versionchanged",
        "deprecated",
        "versionremoved",
        "legacy",
        "topic",
        "rubric",
    ]
)
VERSION_NOTES = frozenset(["versionadded", "versionchanged", "deprecated", "versionremoved"])

DIRECTIVE = re.compile(r"\.\.\s+([\w:+-]+?)::\s*(.*)")
UNDERLINES = frozenset("=-~^\"'*+#`.:_")
DOCTEST_OR_GRID = (">>>", "+--", "+==")
UNDERLINE = re.compile(r"([=\-~^\"'*+#`.:_])\1{2,}")
INLINE_TITLE = re.compile(r"([A-Z][A-Za-z ]{3,20}):{1,2}")
BORDER = re.compile(r"[=\-]{2,}(\s+[=\-]{2,})+|\+[=\-+]{3,}|[|+].*[|+]|\|.*|[─-╿].*")
BULLET = re.compile(r"([-*+•]|\d{1,2}[.)]|\(\w{1,2}\)|#\.)\s+(?=\S)")
FIELD = re.compile(r"[:@]\w+[^:]{0,60}:(\s|$)")
ENTRY = re.compile(r"\*{0,2}[`\w.\[\]]+\s?(\([^)]*\)|\s*,\s*\*{0,2}[`\w.]+)*\s*:(\s|$)")
TERM = re.compile(r"(?:[*`]{0,2}[A-Za-z_][\w.]*[`*]{0,2}(?:,\s*|$))+")
CODE = re.compile(
    r"(import \w|from [\w.]+ import|def \w+\(|class \w+\W|@\w+[\w.]*(\(|$)|return$|return [\w.]+(\(.*|$)|print\("
    r"|[$%#] |</?\w|for \w[\w, ]* in .*:$|(el)?if .*(==|\(| not | is | in |[<>]).*:$|while .*:$|with .*\(.*:$|try:$"
    r"|except\b.*:$|else:$|raise \w+\(|assert |await \w|async \w"
    r"|pip install|In \[\d|[\w.\[\]\"', ]{1,40} [-+*/|]?= ?\S|[\w.]+\(.*\)[;,]?$"
    r"|[\])}]+[,;]?$|.*[({\[;\\|]$|[\"'][^\"']*[\"']: |\{|\[|#include|//|--?\w[\w-]*[ =]|\\)"
)


@dataclass
class Paragraph:
    """Consecutive lines of one thought, without their line breaks' indentation."""

    lines: list[str] = field(default_factory=list)
    indents: list[int] = field(default_factory=list)

    def is_code(self) -> bool:
        """Whether at least half of the lines look like program text or shell commands."""
        return 2 * sum(CODE.match(line) is not None for line in self.lines) >= len(self.lines)


def paragraphs(docstring: str) -> Iterator[Paragraph]:
    """The paragraphs of a docstring that `inspect.cleandoc` has cleaned, in order."""
    current = Paragraph()
    for indent, text in _Scanner(docstring.expandtabs().splitlines()).prose_lines():
        if not text or (current.lines and (indent < current.indents[-1] or _starts_paragraph(text))):
            if current.lines:
                yield current
            current = Paragraph()
        if text:
            current.lines.append(text)
            current.indents.append(indent)
    if current.lines:
        yield current


def _starts_paragraph(text: str) -> bool:
    if text[0] in ":@":
        return FIELD.match(text) is not None
    return not text[0].isalpha() and BULLET.match(text) is not None


class _Scanner:
    """Walks over the lines once and keeps what decides whether the next ones are prose."""

    def __init__(self, lines: list[str]):
        self._lines = lines
        self._fenced = False  # between two Markdown fences
        self._until_blank = False  # inside a doctest or a table
        self._block: int | None = None  # indent of a line whose deeper indented block is dropped
        self._section = False  # inside a section that is dropped, up to the next title
        self._entries: int | None = None  # entries of a parameter section are indented deeper than this

    def prose_lines(self) -> Iterator[tuple[int, str]]:
        """(indent, text) of the lines that may be prose; an empty text where a paragraph ends."""
        for number, line in enumerate(self._lines):
            text = line.strip()
            indent = len(line) - len(line.lstrip())
            if not text:
                self._until_blank = False
                yield 0, ""
            elif text.startswith("```"):
                self._fenced = not self._fenced
            elif self._is_dropped(indent) or _is_underline(text):
                continue
            elif self._following_is_underline(number, text):
                yield from self._title(indent, text, section=True)
            elif self._section:
                continue
            elif not text[0].isalnum() and (special := self._special(indent, text)) is not None:
                yield from special
            elif text[-1] == ":" and (inline := INLINE_TITLE.fullmatch(text)) and _name(inline[1]) in KNOWN_TITLES:
                yield from self._title(indent, inline[1], section=False)
            else:
                yield from self._text(indent, text, number)

    def _is_dropped(self, indent: int) -> bool:
        if self._block is not None and indent <= self._block:
            self._block = None
        return self._fenced or self._until_blank or self._block is not None

    def _following_is_underline(self, number: int, text: str) -> bool:
        following = self._lines[number + 1].strip() if number + 1 < len(self._lines) else ""
        return _is_underline(following) and 2 * len(following) >= len(text)

    def _title(self, indent: int, text: str, section: bool) -> Iterator[tuple[int, str]]:
        """A section's title, underlined (`section`) or with a colon; unknown ones are prose."""
        name = _name(text)
        if section:
            self._section = name in SKIPPED_TITLES
        elif name in SKIPPED_TITLES:
            self._block = indent
        self._entries = (indent - section) if name in PARAMETER_TITLES else None
        yield 0, ""
        if name not in KNOWN_TITLES:
            yield indent, text
            yield 0, ""

    def _special(self, indent: int, text: str) -> list[tuple[int, str]] | None:
        """Doctests, tables and reStructuredText's explicit markup; None where the line is ordinary after all."""
        if text.startswith(DOCTEST_OR_GRID) or BORDER.fullmatch(text):
            self._until_blank = text[0] not in "|"
            return [(0, "")]
        if not text.startswith(".. "):
            return None
        match = DIRECTIVE.match(text)
        if match is None or match[1] not in ADMONITIONS:  # code, pictures, formulas, footnotes, targets, comments
            self._block = indent
            return [(0, "")]
        argument = match[2].partition(" ")[2] if match[1] in VERSION_NOTES else match[2]
        return [(0, ""), (indent + 3, argument)] if argument else [(0, "")]

    def _text(self, indent: int, text: str, number: int) -> Iterator[tuple[int, str]]:
        if text.endswith("::"):  # a literal block follows
            self._block = indent
            text = text.rstrip(" :") + ":" if text != "::" else ""
        if self._entries is not None:
            if indent <= self._entries:
                self._entries = None
            elif ENTRY.match(text) or self._is_term(indent, text, number):
                yield 0, ""
        yield indent, text

    def _is_term(self, indent: int, text: str, number: int) -> bool:
        """A parameter's name alone on its line, with its description indented below."""
        following = self._lines[number + 1] if number + 1 < len(self._lines) else ""
        return len(following) - len(following.lstrip()) > indent and TERM.fullmatch(text) is not None


def _is_underline(text: str) -> bool:
    return text[:1] in UNDERLINES and UNDERLINE.fullmatch(text) is not None


def _name(title: str) -> str:
    return title.strip(" :*").lower()
