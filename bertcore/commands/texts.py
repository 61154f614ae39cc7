"""The texts that a command is given: as arguments, from a file, or from a pipe."""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from bertcore.commands.options import COLUMN, FORMATS, LAYOUT, PIPES, check_input, layout_of, refuse
from bertcore.compressed import plain_ending, read_lines, read_text, refuse_directory
from bertcore.config import describe, suggest
from bertcore.errors import InputError
from bertcore.examples.bad_rows import NOT_UTF8, BadRowError, decode, has_words
from bertcore.examples.table_rows import READERS, TextLayout, advice_on, read_rows
from bertcore.finetune.texts import Text

Given = TypeVar("Given", bound=Text)

LINES = ".txt"
_ENDINGS = (".txt", ".md", ".html", ".rst", ".pdf", ".json", ".jsonl", ".csv", ".gz", ".zst")
"""Of what is rather the name of a file than a text."""


def texts_of(options: argparse.Namespace) -> list[str]:
    """The texts that the arguments of `add_input` name; `InputError` where there are none or one cannot be read."""
    return [text for text in read(options) if isinstance(text, str)]


def read(options: argparse.Namespace) -> list[Text]:
    """The texts or pairs that the arguments of `add_input` name; `InputError` where there are none, or one of them
    cannot be read, `ConfigError` for arguments that contradict each other."""
    check_input(options)
    second, pair_column = getattr(options, "pair", None), getattr(options, "pair_column", None)
    if options.texts:
        check_arguments([*options.texts, *([second] if second else [])])
        given: list[Text] = list(options.texts) if second is None else [(options.texts[0], second)]
        refuse_wordless(given)
        return given
    read_it = partial(_read, options, pair_column)
    if options.file is not None and options.file not in PIPES:
        return told(read_it(options.file, str(options.file)), str(options.file))
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("found no text, expected one as an argument, in --file FILE or through a pipe; give one")
    with tempfile.TemporaryDirectory(prefix="bertcore-pipe-") as folder:
        piped = Path(folder) / f"stdin.{options.input_format or FORMATS[0]}"
        with piped.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return told(read_it(piped, "the pipe"), "the pipe")


def refuse_wordless(given: Iterable[Text]) -> None:
    """`InputError` for the first text of a command line that holds no word."""
    for each in given:
        if not has_words(each):
            raise InputError(f"the command line: found the text {each!r}, expected words; give some")


def texts_in(options: argparse.Namespace) -> list[str]:
    """The texts of --file, in its --column; see `read`."""
    found = told(_read(options, None, options.file, str(options.file)), str(options.file))
    return [text for text in found if isinstance(text, str)]


def _read(options: argparse.Namespace, pair_column: str | None, path: Path, name: str) -> list[Text]:
    if plain_ending(path) == LINES and pair_column is None:
        remedy = "add --input-format csv, or what it is" if name == "the pipe" else "leave it out"
        refuse(options, ("column", *LAYOUT), f"{{}}, but {name} has a text a line; {remedy}")
        return read_file(path, name=name)
    return read_file(path, options.column or COLUMN, pair_column, name, layout_of(options, path))


def told(found: list[Given], name: str) -> list[Given]:
    """`found` in the file `name`, when how many of it hold no word has been said."""
    empty = [number for number, text in enumerate(found, start=1) if not has_words(text)]
    if not found:
        print(f"{name}: holds no text", file=sys.stderr)
    elif empty:
        said = f"{name}: texts without a word: {len(empty):,} (the first is number {empty[0]})"
        print(said, file=sys.stderr)
    return found


def text_or_file(given: str) -> str:
    """The text of a file of that name, or what was given itself; `InputError` where that can be no text but a name."""
    try:
        is_file = Path(given).is_file()
    except OSError:  # longer than any name of a file
        is_file = False
    if not is_file and (given.endswith(_ENDINGS) or os.sep in given) and len(given.split()) == 1:
        raise InputError(f"--context: found {given!r}, but there is no such file; correct its name, or give a text")
    return read_text(Path(given)) if is_file else given


def read_file(
    path: Path,
    column: str = COLUMN,
    pair_column: str | None = None,
    name: str | None = None,
    layout: TextLayout = TextLayout(),  # noqa: B008 # frozen
) -> list[Text]:
    """The texts of a file, or the pairs of a table; one that is null is empty, as for tasks. `name` stands for the file
    in errors."""
    refuse_directory(path)
    where, ending = name or str(path), plain_ending(path)
    if ending not in READERS:
        raise InputError(f"{where}: found the ending {ending!r}, expected {', '.join(READERS)}; convert or rename it")
    if ending == LINES and pair_column is None:
        return list(_lines(path, where))
    columns = [column] if pair_column is None else [column, pair_column]
    found: list[Text] = []
    for cells in _cells(path, columns, where, layout):
        found.append(cells[0] if pair_column is None else (cells[0], cells[1]))
    return found


def check_arguments(texts: Iterable[str]) -> None:
    """`check_encodable` for texts that are arguments."""
    for text in texts:
        check_encodable(text, "the command line")


def check_encodable(text: str, where: str) -> None:
    """`InputError` for a text that is no Unicode: with bytes that are not UTF-8, or half of a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: found a text that is not UTF-8 ({error.reason}); convert it") from None


def _lines(path: Path, where: str) -> Iterator[str]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            yield decode(line, first=number == 1)
        except BadRowError as error:
            raise InputError(f"{where}:{number}: {error}; convert the file") from None


def _cells(path: Path, columns: Sequence[str], where: str, layout: TextLayout) -> Iterator[list[str]]:
    for number, row in read_rows(path, layout):
        if isinstance(row, BadRowError):
            remedy = "convert the file to UTF-8" if row.reason == NOT_UTF8 else "correct the row"
            raise InputError(f"{where}:{number}: {row}; {remedy}")
        for column in columns:
            if column not in row:
                known = list(map(str, row))
                others = suggest(column, known) if column != COLUMN else f"name it with --column: {', '.join(known)}"
                advice = advice_on(list(row), column) or others
                raise InputError(f"{where}:{number}: found no column {column!r}; {advice}")
            if row[column] is not None and not isinstance(row[column], str):
                found = describe(row[column])
                raise InputError(f"{where}:{number}: {column}: found {found}, expected a text; correct the row")
            check_encodable(row[column] or "", f"{where}:{number}: {column}")
        yield [row[column] or "" for column in columns]
