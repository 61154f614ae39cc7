"""Arguments that several commands have, and what they come to."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bertcore.apply.uses import default_model
from bertcore.compressed import plain_ending
from bertcore.config import Config, parse
from bertcore.errors import ConfigError
from bertcore.examples.table_rows import TextLayout

FORMATS = ("txt", "csv", "tsv", "jsonl", "parquet")
COLUMN = "text"
PARTED = (".csv", ".tsv", ".txt")
"""Endings of tables whose columns something parts."""
PIPES = (Path("-"), Path("/dev/stdin"))
"""What --file names for the pipe."""
LAYOUT = ("delimiter", "quotes", "header")
"""The options of `add_layout`, each a field of `TextLayout`."""


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


def add_model(parser: argparse.ArgumentParser) -> None:
    """The option --model."""
    parser.add_argument("--model", type=Path, metavar="DIR", help="default: the last one of this tree for this use")


def model_directory(options: argparse.Namespace, *uses: str) -> Path:
    """What --model says, or the last model of this tree for one of `uses`, which is then said."""
    if options.model is not None:
        return Path(options.model)
    second = [getattr(options, name) for name in ("pair", "pair_column") if hasattr(options, name)]
    found = default_model(uses, pairs=any(each is not None for each in second) if second else None)
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


def check_input(options: argparse.Namespace) -> None:
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
