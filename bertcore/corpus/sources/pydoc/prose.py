"""The English prose of a documentation string, one paragraph a line."""

import re

from bertcore.corpus.sources.pydoc.layout import BULLET, TERM, Paragraph, paragraphs

MIN_PARAGRAPH_WORDS = 3  # shorter ones are titles, lone names and remains of code
MIN_LETTERS = 0.75  # share of letters and spaces in a paragraph; formulas, paths and number columns have fewer
MAX_BACKSLASHES = 0.05  # per word; more is TeX
ENGLISH_FROM = 12  # words; shorter texts need not contain a function word
FUNCTION_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "do",
        "for",
        "from",
        "has",
        "have",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "may",
        "must",
        "no",
        "not",
        "of",
        "on",
        "one",
        "only",
        "or",
        "should",
        "than",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "this",
        "to",
        "used",
        "using",
        "was",
        "when",
        "where",
        "which",
        "will",
        "with",
        "you",
    ]
)

HEADER = re.compile(r"([*`]{0,2}[A-Za-z_][\w.*`, ]*?)\s+:(?:\s+(\S.*)|$)")
SPHINX_PARAMETER = re.compile(
    r"[:@](?:param|parameter|arg|argument|key|keyword|kwarg|ivar|cvar|var|attr|attribute|type|vartype)"
    r"\s+(?:([^:]+?)\s+)?(\\?\*{0,2}\w[\w.]*)\s*:\s*(.*)",
    re.DOTALL,
)
SPHINX_RETURN = re.compile(r"[:@](?:returns?|yields?)\s*:\s*(?=\S)")
SPHINX_RAISES = re.compile(r"[:@](?:raises?|except|exception)\s+([\w.~!]+)\s*:\s*(?=\S)")
SPHINX_OTHER = re.compile(
    r"[:@](?:rtype|meta|caption|linenos|lineno-start|class|width|align|name|group|source)\b.*", re.DOTALL
)

LETTERED_WORD = re.compile(r"(?:^|(?<= ))\W?[^\W\d_]")
NEITHER_LETTER_NOR_SPACE = re.compile(r"[^\w ]|[\d_]")

# (a string without which the pattern cannot match: looking for it is much cheaper, pattern, replacement), in this order
INLINE = [
    ("`", re.compile(r"(?::[\w.+-]+)+:`[!.]?~(?:[\w.]*\.)?(\w+)(?:\(\))?`"), r"\1"),  # :class:`~a.b.C` -> C
    ("`", re.compile(r"(?::[\w.+-]+)+:`([^`<]+?)\s*<[^`>]*>`"), r"\1"),  # :ref:`text <target>` -> text
    ("`", re.compile(r"(?::[\w.+-]+)+:`[!.]?([^`]*)`"), r"\1"),  # :class:`C` -> C
    ("`", re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}"), r"\1"),  # `text <url>`_ -> text
    ("](", re.compile(r"!?\[([^\]]+)\]\([^)\s]+\)"), r"\1"),  # [text](url) -> text
    ("]_", re.compile(r"\s?\[[\w#*-]+\]_(?!\w)"), ""),  # footnote [1]_
    ("://", re.compile(r"<?\b(?:https?|ftp)://[^\s>)\]]+>?"), ""),
    ("`", re.compile(r"`{1,3}([^`]+)`{1,3}_{0,2}"), r"\1"),  # ``x``, `x`, `x`_ -> x
    ("*", re.compile(r"(?<![\w*\\/])(\*{1,2})(?=[^\s*])([^*]+?)(?<=[^\s*])\1(?![\w*])"), r"\2"),  # **x**
    ("`", re.compile(r"`"), ""),
    ("\\", re.compile(r"\\(?:\s|([*_|`\\]))"), r"\1"),
    ("()", re.compile(r"(?<!\S)\(\)(?!\S)"), ""),  # brackets that held an address only
    (" ", re.compile(r" (?=[,.;:!?](?: |$))"), ""),
]
INVISIBLE = dict.fromkeys(  # control characters that are no spaces, zero-width marks
    [*range(9), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0), *range(0x200B, 0x2010), 0xFEFF]
)


def prose(docstring: str) -> str:
    """The prose of `docstring` (as `inspect.cleandoc` gives it): paragraphs unwrapped, one a line, markup resolved.

    Doctests, code, tables, formulas, references, directive lines and section titles are dropped. An entry of a
    parameter section becomes one line, `alpha: float, default=1.0. Strength of the penalty.`
    """
    texts = (paragraph_text(paragraph) for paragraph in paragraphs(docstring) if not paragraph.is_code())
    return "\n".join(text for text in texts if _is_prose(text))


def paragraph_text(paragraph: Paragraph) -> str:
    """The paragraph on one line: entry header, field or bullet mark turned into words, inline markup resolved."""
    return plain(_fields(_joined(paragraph)))


def plain(text: str) -> str:
    """`text` without inline markup of reStructuredText or Markdown, without addresses, with single spaces."""
    if not text.isprintable():
        text = text.translate(INVISIBLE)
    for needed, pattern, replacement in INLINE:
        if needed in text:
            text = pattern.sub(replacement, text)
    return " ".join(text.split())


def is_english(text: str) -> bool:
    """Whether `text` is in Latin letters and, if long enough to tell, has one English function word in 25 words."""
    if not text.isascii() and sum(character < "\u0250" for character in text) < 0.9 * len(text):
        return False
    words = text.lower().split()
    return len(words) < ENGLISH_FROM or sum(word in FUNCTION_WORDS for word in words) * 25 >= len(words)


def _joined(paragraph: Paragraph) -> str:
    first, rest = paragraph.lines[0], " ".join(paragraph.lines[1:])
    if not rest or paragraph.indents[1] <= paragraph.indents[0]:
        header = HEADER.fullmatch(first) if not rest else None
        return f"{header[1]}: {header[2]}" if header and header[2] else f"{first} {rest}"
    if header := HEADER.fullmatch(first):  # NumPy: `alpha : float` over an indented description
        kind = f"{header[2].rstrip('.')}. " if header[2] else ""
        return f"{header[1]}: {kind}{rest}"
    if TERM.fullmatch(first):
        return f"{first}: {rest}"
    return f"{first} {rest}"


def _fields(text: str) -> str:
    """Sphinx and Epydoc fields as the same entries that NumPy and Google sections give; bullets without their mark."""
    if bullet := BULLET.match(text):
        return text[bullet.end() :]
    if text[0] not in ":@":
        return text
    if match := SPHINX_PARAMETER.match(text):
        kind = f" ({match[1]})" if match[1] else ""
        return f"{match[2].lstrip(chr(92))}{kind}: {match[3]}"
    if SPHINX_OTHER.match(text):
        return ""
    text = SPHINX_RETURN.sub("Returns: ", text, count=1)
    return SPHINX_RAISES.sub(r"Raises \1: ", text, count=1)


def _is_prose(text: str) -> bool:
    words = text.count(" ") + 1
    if words < MIN_PARAGRAPH_WORDS or len(LETTERED_WORD.findall(text)) < MIN_PARAGRAPH_WORDS:
        return False
    return len(NEITHER_LETTER_NOR_SPACE.findall(text)) <= (1 - MIN_LETTERS) * len(text) and (
        text.count("\\") <= MAX_BACKSLASHES * words
    )
