"""Tagged words in columns, one word a line and a blank line between sentences: CoNLL-2003, WNUT, CoNLL-U and their kin.

Tags that mark entities are converted to IOB2, whatever the scheme of the files; others, such as parts of speech, are
kept and scored by accuracy. Lines that begin a document (`-DOCSTART-`, CoNLL-U's `# newdoc`) are no words, and neither
are CoNLL-U's ranges (`3-4`) and empty nodes.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Literal

import pyarrow as pa

from bertcore.compressed import read_lines
from bertcore.errors import InputError
from bertcore.examples import tag_schemes
from bertcore.examples.bad_rows import (
    EMPTY_TEXT,
    UNSEEN_LABEL,
    WRONG_COLUMNS,
    BadRowError,
    BadRows,
    OnError,
    decode,
)
from bertcore.examples.schema import TAGGING, ExampleSet, composed
from bertcore.examples.splits import SplitOptions, find_splits, with_dev

BROKEN_TAG, REPAIRED = "tag without a form", "tag that breaks the scheme, repaired"

_DOCUMENT = b"-DOCSTART-"
_NEW_DOCUMENT = re.compile(rb"#\s*newdoc\b")
"""Of CoNLL-U, a comment."""
_NO_WORD = re.compile(r"\d+[-.]\d+")


@dataclass(frozen=True, kw_only=True)
class ConllOptions(SplitOptions):
    """Where words and tags stand, and what the tags mean."""

    token_column: int = 0
    """Column of the words, counted from 0; negative: from the last one."""
    tag_column: int = -1
    """Column of the tags, counted from 0; negative: from the last one."""
    token_name: str = "tokens"
    """Of a data set on the hub: name of the column with the lists of words."""
    tag_name: str = "ner_tags"
    """Of a data set on the hub: name of the column with the lists of tags."""
    separator: Literal["auto", "tab", "whitespace"] = "auto"
    """What stands between columns. `auto`: tabs in a file whose first word line has one, else any white space."""
    comment: str | None = None
    """How lines begin that hold no word, such as `#` in CoNLL-U and GermEval; null: there are none, as a word may be
    `#`."""
    scheme: Literal["auto", "iob1", "iob2", "bioes", "none"] = "auto"
    """How tags mark entities. `auto`: the scheme that train's tags break least, BILOU among them; `none`: they mark no
    entities (parts of speech, say) and are scored by accuracy."""
    unit: Literal["sentence", "document"] = "sentence"
    """What is one text, of which `sequence_length` tokens are read at once: a sentence, or all sentences of a document,
    so that what was said before helps. Documents begin at lines `-DOCSTART-`, or `# newdoc` where comments begin with
    `#`; examples, batches and predictions are of documents then."""
    labels: list[str] | None = None
    """Types of entities (of scheme `none`: tags); null: those of train."""
    on_error: OnError = "strict"
    """What becomes of a bad row. `strict`: it is named and ends the stage; `skip`: a tag that breaks the scheme is
    mended, the sentence of any other bad row left out, and both are counted."""


@dataclass(frozen=True)
class Sentence:
    """Words with their tags."""

    words: list[str]
    tags: list[str] | None
    """None where the file has none."""
    rows: list[int]
    """Line numbers of the words, or of each the row of its sentence."""
    document: int = 0
    """How many documents have begun before it, or with it."""


def read(directory: Path, options: ConllOptions) -> ExampleSet:
    """The files of `directory` (plain, `.gz` or `.zst`) as a tagging task. A test file may hold words alone."""
    bad = BadRows(on_error=options.on_error)
    paths = find_splits(directory, options)
    sentences = {split: list(_read_file(path, options, split, bad)) for split, path in paths.items()}
    return from_sentences(sentences, {split: str(path) for split, path in paths.items()}, options, bad)


def from_sentences(
    sentences: Mapping[str, list[Sentence]], where: Mapping[str, str], options: ConllOptions, bad: BadRows
) -> ExampleSet:
    """The sentences of each split, train first, as a tagging task; errors name a split's file as `where` does."""
    sentences = _retagged(sentences, lambda tags: list(map(composed, tags)))
    if options.scheme == "auto" and tag_schemes.is_bilou(sentence.tags or [] for sentence in sentences["train"]):
        sentences = _retagged(sentences, tag_schemes.to_bioes)
        where = {split: f"{name} (BILOU, with E for L and S for U)" for split, name in where.items()}
    scheme = _scheme(options, sentences["train"], where["train"])
    names, tables = None if options.labels is None else list(map(composed, options.labels)), {}
    join = _documents if options.unit == "document" else iter
    for split, found in sentences.items():
        if scheme is not None:
            found = list(_in_iob2(found, scheme, where[split], bad))
        if names is None:
            names = sorted(_classes((tag for sentence in found for tag in sentence.tags or []), scheme))
        tables[split] = _table(join(_known(found, names, scheme, where[split], bad)))
        if not tables[split].num_rows:
            raise InputError(f"{where[split]}: found no usable sentence, expected some; check file and options")
    tables = with_dev(tables, options, where["train"])
    assert names is not None
    labels = names if scheme is None else tag_schemes.iob2_labels(names)
    if len(labels) < 2:
        raise InputError(
            f"{where['train']}: found {labels[0]!r} as the only tag of train, expected more; correct the option "
            "tag_column"
        )
    return ExampleSet(
        family="tagging",
        labels=labels,
        metrics=["accuracy"] if scheme is None else ["f1", "precision", "recall"],
        splits=tables,
        dropped=dict(bad.counts),
    )


def _retagged(
    sentences: Mapping[str, list[Sentence]], change: Callable[[list[str]], list[str]]
) -> dict[str, list[Sentence]]:
    """The same with other tags, where a sentence has any."""
    return {
        split: [each if each.tags is None else replace(each, tags=change(each.tags)) for each in found]
        for split, found in sentences.items()
    }


def _scheme(options: ConllOptions, train: list[Sentence], where: str) -> str | None:
    tagged = [sentence.tags or [] for sentence in train]
    if options.scheme != "auto":
        return None if options.scheme == "none" else options.scheme
    scheme = tag_schemes.detect(tagged)
    if scheme is None and (tag := tag_schemes.misspelt(tagged)) is not None:
        raise InputError(
            f"{where}: found the tag {tag!r}, expected B-, I-, E- or S- and a type where tags mark entities, such as "
            "B-PER; convert the tags, or, if they mark none, give the option scheme: none"
        )
    if scheme is None and tag_schemes.is_mostly_outside(tagged):
        raise InputError(
            f"{where}: found O as the most frequent tag, and no B- or I- before the types of the others; put I- before "
            "them where they mark entities, which are then found and scored, or give the option scheme: none"
        )
    return scheme


@dataclass(frozen=True)
class _Layout:
    """The columns of one file, as its first word line has them."""

    width: int
    token: int
    tag: int | None
    separator: str
    marked: bool
    """Whether the line begins as comments do."""

    @classmethod
    def of(cls, line: str, options: ConllOptions, split: str, where: str) -> "_Layout":
        separator = options.separator if options.separator != "auto" else "tab" if "\t" in line else "whitespace"
        width = len(tag_schemes.cells(line, separator))
        token, tag = (at + width if at < 0 else at for at in (options.token_column, options.tag_column))
        if not 0 <= token < width or (split != "test" and (tag == token or not 0 <= tag < width)):
            raise InputError(
                f"{where}: found {width} columns (separator: {separator}), expected words in column "
                f"{options.token_column} and tags in column {options.tag_column}, counted from 0; correct the options "
                "token_column, tag_column and separator"
            )
        tag_or_none = tag if tag != token and 0 <= tag < width else None
        return cls(width, token, tag_or_none, separator, line.startswith("#"))

    def word(self, line: str) -> tuple[str, str] | None:
        """Word and tag of a line; None for a line of CoNLL-U that is no word."""
        columns = tag_schemes.cells(line, self.separator)
        if len(columns) != self.width:
            comment = "; where that is a comment, give the option comment" if self.marked else ""
            raise BadRowError(
                WRONG_COLUMNS, f"found {len(columns)} columns, expected the {self.width} of the first line{comment}"
            )
        if self.token and _NO_WORD.fullmatch(columns[0]):
            return None
        word, tag = columns[self.token], "" if self.tag is None else columns[self.tag]
        if not word.strip(" \t"):  # one of control characters alone is a word, and scored as such
            raise BadRowError(EMPTY_TEXT, f"found the empty word {word!r}, expected a word")
        if self.tag is not None and not tag.strip():
            raise BadRowError(BROKEN_TAG, f"found no tag for {word!r}, expected one")
        return word, tag


def _read_file(path: Path, options: ConllOptions, split: str, bad: BadRows) -> Iterator[Sentence]:
    layout, document, sentences = None, 0, 0
    for document, lines in _blocks(path, options.comment):
        words, tags, rows = [], [], []
        for number, line in lines:
            try:
                text = decode(line)
                if "\r" in text:
                    raise InputError(
                        f"{path}:{number}: found a carriage return inside a line, expected line ends \\n or \\r\\n; "
                        "convert the file"
                    )
                layout = layout or _Layout.of(text, options, split, f"{path}:{number}")
                if (found := layout.word(text)) is not None:
                    words.append(found[0])
                    tags.append(found[1])
                    rows.append(number)
            except BadRowError as error:
                bad.add(f"{path}:{number}", error)
                break
        else:
            if words:
                assert layout is not None
                sentences += 1
                yield Sentence(words, None if layout.tag is None else tags, rows, document)
    if options.unit == "document" and sentences and not document:
        raise InputError(
            f"{path}: found no sentence behind a line -DOCSTART-, nor behind # newdoc as a comment, expected such a "
            "line before each document (unit: document); add them, or take unit: sentence"
        )


def _blocks(path: Path, comment: str | None) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """The numbered lines of each sentence, and how many documents have begun."""
    lines: list[tuple[int, bytes]] = []
    document = 0
    for number, line in enumerate(read_lines(path), start=1):
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        if comment is not None and line.startswith(comment.encode()):
            document += _NEW_DOCUMENT.match(line) is not None
        elif line.strip() and not line.startswith(_DOCUMENT):
            lines.append((number, line))
        elif lines:
            yield document, lines
            lines = []
        document += line.startswith(_DOCUMENT)
    if lines:
        yield document, lines


def _in_iob2(sentences: Iterable[Sentence], scheme: str, where: str, bad: BadRows) -> Iterator[Sentence]:
    """The sentences with their tags in IOB2, each tag that breaks `scheme` named or mended."""
    for sentence in sentences:
        if sentence.tags is None:
            yield sentence
            continue
        found = list(tag_schemes.violations(sentence.tags, scheme))
        broken = [each for each in found if not tag_schemes.is_entity_tag(sentence.tags[each[0]])]
        for position, expected in (broken or found)[:1]:  # a sentence is counted once
            message = f"found the tag {sentence.tags[position]!r}, expected {expected} (scheme {scheme})"
            bad.add(f"{where}:{sentence.rows[position]}", BadRowError(BROKEN_TAG if broken else REPAIRED, message))
        if not broken:
            yield replace(sentence, tags=tag_schemes.to_iob2(sentence.tags))


def _known(
    sentences: Iterable[Sentence], names: list[str], scheme: str | None, where: str, bad: BadRows
) -> Iterator[Sentence]:
    """The sentences whose tags all belong to `names`."""
    known_names = set(names)
    for sentence in sentences:
        unseen = [place for place, tag in enumerate(sentence.tags or []) if not _classes([tag], scheme) <= known_names]
        if not unseen:
            yield sentence
            continue
        assert sentence.tags is not None
        known = "one of" if scheme is None else "O or an entity of a type among"
        message = f"found the tag {sentence.tags[unseen[0]]!r}, expected {known}: {', '.join(names)}"
        bad.add(f"{where}:{sentence.rows[unseen[0]]}", BadRowError(UNSEEN_LABEL, message))


def _documents(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Of each document its sentences as one."""
    for document, parts in groupby(sentences, key=lambda sentence: sentence.document):
        words, tags, rows = [], [], []
        for part in parts:
            words += part.words
            tags += part.tags or []
            rows += part.rows
        yield Sentence(words, tags or None, rows, document)


def _classes(tags: Iterable[str], scheme: str | None) -> set[str]:
    """Types of entities, or the tags where they mark none."""
    return set(tags) if scheme is None else {tag.partition("-")[2] for tag in tags if tag != "O"}


def _table(sentences: Iterable[Sentence]) -> pa.Table:
    rows = [
        {"id": str(index), "words": sentence.words, "tags": sentence.tags} for index, sentence in enumerate(sentences)
    ]
    return pa.Table.from_pylist(rows, TAGGING)
