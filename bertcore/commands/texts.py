"""The texts that a command is given: as arguments, from a file, or from a pipe."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bertcore.apply import directory
from bertcore.apply.finetuned import UNSEEN, FineTuned
from bertcore.compressed import plain_ending, read_lines, refuse_directory
from bertcore.config import Config, describe, parse, suggest
from bertcore.errors import ConfigError, InputError, TextError
from bertcore.examples.bad_rows import NOT_UTF8, BadRowError, decode, has_words
from bertcore.examples.table_rows import READERS, TextLayout, advice_on, read_rows
from bertcore.finetune.texts import Text

FORMATS = ("txt", "csv", "tsv", "jsonl", "parquet")
LINES = ".txt"
COLUMN = "text"
PARTED = (".csv", ".tsv", ".txt")
"""Endings of tables whose columns something parts."""
PIPES = (Path("-"), Path("/dev/stdin"))
"""What --file names for the pipe."""

Item = TypeVar("Item", bound=Iterable[str])
Row = TypeVar("Row")
Result = TypeVar("Result")

AT_ONCE = 2**15
"""Texts that are read, computed and written at once. Below it, batches are those of the evaluation, to the last bit."""


def at_least_one(option: str) -> Callable[[str], int]:
    """What reads the value of such an option; `ConfigError` for any other one."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise ConfigError(f"{option}: found {text}, expected at least 1; give a whole number, or leave it out")
        return int(text)

    return read


def refuse(options: argparse.Namespace, names: Iterable[str], said: str) -> None:
    """`ConfigError` for the first of the options `names` that is given, and would have no effect; `said` tells so, with
    {} in place of its value."""
    for name in names:
        if (value := getattr(options, name, None)) is not None:
            raise ConfigError(f"{option_of(name)}: found {said.format(value)}")


def add_model(parser: argparse.ArgumentParser) -> None:
    """The option --model."""
    parser.add_argument("--model", type=Path, metavar="DIR", help="default: the last one of this tree for this use")


def model_directory(options: argparse.Namespace, *uses: str) -> Path:
    """What --model says, or the last model of this tree for one of `uses`, which is then said."""
    if options.model is not None:
        return Path(options.model)
    second = [getattr(options, name) for name in ("pair", "pair_column") if hasattr(options, name)]
    found = directory.default(uses, pairs=any(each is not None for each in second) if second else None)
    print(f"model: {found}", file=sys.stderr)
    return found


def add_input(parser: argparse.ArgumentParser, *, pairs: bool = False) -> None:
    """The arguments that say where the texts are; with `pairs` also those of second texts."""
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="without any: --file, or what comes through a pipe")
    endings = f".txt, a text a line, or {', '.join(FORMATS[1:])}; also .gz, .zst; - for the pipe"
    parser.add_argument("--file", type=Path, help=endings)
    parser.add_argument("--column", help=f"of the texts in a table (default: {COLUMN})")
    add_layout(parser)
    if pairs:
        parser.add_argument("--pair", metavar="TEXT", help="the second text, for models of two")
        parser.add_argument("--pair-column", metavar="NAME", help="of the second texts in a table")
    parser.add_argument("--input-format", choices=FORMATS, help=f"of a pipe (default: {FORMATS[0]})")


LAYOUT = ("delimiter", "quotes", "header")
"""The options of `add_layout`, each a field of `TextLayout`."""


def add_layout(parser: argparse.ArgumentParser, *, named: bool = False) -> None:
    """The options that `layout_of` reads; `named` where the names of the columns are given."""
    said = "of the columns of .csv and .tsv (default: a comma, a tab); \\t is a tab"
    parser.add_argument("--delimiter", type=lambda given: given.replace("\\t", "\t"), help=said)
    flag = argparse.BooleanOptionalAction
    parser.add_argument("--quotes", action=flag, help="whether quotes enclose cells (default: where no tab parts them)")
    if not named:
        said = "whether the first row names the columns (default), else 0, 1, …"
        parser.add_argument("--header", action=flag, help=said)


def layout_of(options: argparse.Namespace, file: Path) -> TextLayout:
    """How the cells of `file` are told apart; `ConfigError` where it has none, or --delimiter is no character."""
    if (ending := plain_ending(file)) not in PARTED:
        refuse(options, LAYOUT, f"{{!r}} for {ending}, expected {', '.join(PARTED)}; leave it out")
    return parse_arguments(TextLayout, given(options, LAYOUT))


def given(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """The values of those of the options `names` that are given."""
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def option_of(field: str) -> str:
    """The argument that has the value of a config's field."""
    return f"--{field.replace('_', '-')}"


def parse_arguments(
    config_class: type[Config], values: Mapping[str, Any], option: Callable[[str], str] = option_of
) -> Config:
    """`values` of arguments as their dataclass; `ConfigError` that names the argument, as `option` gives it."""
    try:
        return parse(config_class, values, "")
    except ConfigError as error:
        field, _, said = str(error).removeprefix(".").partition(": ")
        raise ConfigError(f"{option(field)}: {said}") from None


def texts_of(options: argparse.Namespace) -> list[str]:
    """The texts that the arguments of `add_input` name; `InputError` where there are none or one cannot be read."""
    return [text for text in read(options) if isinstance(text, str)]


def read(options: argparse.Namespace) -> list[Text]:
    """The texts or pairs that the arguments of `add_input` name; `InputError` where there are none, or one of them
    cannot be read, `ConfigError` for arguments that contradict each other."""
    _check_input(options)
    second, pair_column = getattr(options, "pair", None), getattr(options, "pair_column", None)
    if options.texts:
        check_arguments([*options.texts, *([second] if second else [])])
        given: list[Text] = list(options.texts) if second is None else [(options.texts[0], second)]
        refuse_wordless(given)
        return given
    read_it = partial(_read, options, pair_column)
    if options.file is not None and options.file not in PIPES:
        return _told(read_it(options.file, str(options.file)), str(options.file))
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("found no text, expected one as an argument, in --file FILE or through a pipe; give one")
    with tempfile.TemporaryDirectory(prefix="bertcore-pipe-") as folder:
        piped = Path(folder) / f"stdin.{options.input_format or FORMATS[0]}"
        with piped.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return _told(read_it(piped, "the pipe"), "the pipe")


def refuse_wordless(given: Iterable[Text]) -> None:
    """`InputError` for the first text of a command line that holds no word."""
    for each in given:
        if not has_words(each):
            raise InputError(f"the command line: found the text {each!r}, expected words; give some")


def texts_in(options: argparse.Namespace) -> list[str]:
    """The texts of --file, in its --column; see `read`."""
    found = _told(_read(options, None, options.file, str(options.file)), str(options.file))
    return [text for text in found if isinstance(text, str)]


def _read(options: argparse.Namespace, pair_column: str | None, path: Path, name: str) -> list[Text]:
    if plain_ending(path) == LINES and pair_column is None:
        remedy = "add --input-format csv, or what it is" if name == "the pipe" else "leave it out"
        refuse(options, ("column", *LAYOUT), f"{{}}, but {name} has a text a line; {remedy}")
        return read_file(path, name=name)
    return read_file(path, options.column or COLUMN, pair_column, name, layout_of(options, path))


def _check_input(options: argparse.Namespace) -> None:
    """`ConfigError` for arguments of `add_input` that contradict each other, or would have no effect."""
    second = getattr(options, "pair", None)
    if options.texts and options.file:
        raise ConfigError(f"found a text and --file {options.file}, expected one of them; leave one out")
    if options.texts:
        beside = "{} beside a text, expected a table; give --file, or "
        refuse(options, ("column", *LAYOUT), f"{beside}leave it out")
        refuse(options, ("pair_column",), f"{beside}--pair")
        refuse(options, ("input_format",), "{} beside a text; leave it out")
    if options.file not in (None, *PIPES):
        refuse(options, ("input_format",), "{} beside --file, whose ending says it; leave it out")
    if second is not None and len(options.texts) != 1:
        raise ConfigError(f"--pair: found {len(options.texts)} first texts, expected one; give a table of pairs")


def _told(found: list[Text], name: str) -> list[Text]:
    empty = [number for number, text in enumerate(found, start=1) if not has_words(text)]
    if not found:
        print(f"{name}: holds no text", file=sys.stderr)
    elif empty:
        said = f"{name}: texts without a word: {len(empty):,} (the first is number {empty[0]})"
        print(said, file=sys.stderr)
    return found


def read_file(
    path: Path,
    column: str = COLUMN,
    pair_column: str | None = None,
    name: str | None = None,
    layout: TextLayout = TextLayout(),  # noqa: B008 # frozen
) -> list[Text]:
    """The texts of a file, or the pairs of a table, of which a second text that is null is empty, as for tasks; `name`
    stands for it in errors."""
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
            if not isinstance(row[column], str) and (row[column] is not None or column == columns[0]):
                found = describe(row[column])
                raise InputError(f"{where}:{number}: {column}: found {found}, expected a text; correct the row")
            check_encodable(row[column] or "", f"{where}:{number}: {column}")
        yield [row[column] or "" for column in columns]


def in_parts(
    texts: Sequence[Item],
    compute: Callable[[Sequence[Item]], Iterable[Row]],
    check: Callable[[Sequence[Item]], object] = lambda part: None,
    nothing: Row | None = None,
) -> Iterator[tuple[Item, Row]]:
    """Each of `texts` with what `compute` says of it, `AT_ONCE` of them at a time, when `check` has found all of them
    to be usable. `InputError` says which one of several is not. One without a word is not asked about where there is
    `nothing` to say of it: rows keep the numbers of their texts."""
    for _ in _each_part(texts, check, nothing is not None):
        pass
    for places, rows in _each_part(texts, compute, nothing is not None):
        found = iter(rows)
        for place in places:
            text = texts[place]
            yield text, nothing if nothing is not None and not has_words(text) else next(found)


def _each_part(
    texts: Sequence[Item], work: Callable[[Sequence[Item]], Result], of_words: bool
) -> Iterator[tuple[range, Result]]:
    """The places of `AT_ONCE` texts after the other, and the work on them; on those that have words, if `of_words`."""
    for start in range(0, len(texts), AT_ONCE):
        places = range(start, min(start + AT_ONCE, len(texts)))
        asked = [place for place in places if not of_words or has_words(texts[place])]
        try:
            done = work([texts[place] for place in asked])
        except TextError as error:
            which = f"text {asked[error.place] + 1}: " if len(texts) > 1 else ""
            raise InputError(f"{which}{error}") from None
        yield places, done


def say_unseen(model: FineTuned) -> None:
    """What the model did not see of the texts, a line on the standard error for each reason."""
    for reason, said in UNSEEN.items():
        if count := model.unseen[reason]:
            print(f"{said}: {count:,}", file=sys.stderr)


def progress_of(name: str, count: int) -> str | None:
    """The name that work on `count` texts is shown under; None where it is too little to be shown."""
    return name if count > _SHOWN_FROM else None


_SHOWN_FROM = 32
