"""`bertcore choose`."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from bertcore.apply.choose import Asked, choose, choose_rows
from bertcore.apply.finetuned import FineTuned
from bertcore.commands.options import (
    LAYOUT,
    add_layout,
    add_model,
    at_least_one,
    given,
    layout_of,
    model_directory,
    parse_arguments,
    refuse,
)
from bertcore.commands.parts import AT_ONCE, progress_of, say_unseen
from bertcore.commands.results import Record, add_output, check_output, write
from bertcore.commands.texts import check_arguments, text_or_file
from bertcore.errors import ConfigError
from bertcore.examples.bad_rows import BadRows
from bertcore.examples.choices import ChoicesOptions, table_of
from bertcore.examples.table_rows import Rows, read_rows

EXAMPLES = """\
  bertcore choose --context "It reads a file." "The lines are returned." "The sum is returned."
  bertcore choose --context page.txt --question "What is returned?" "a list" "a number" "nothing"
  bertcore choose --file swag.csv --context-column sent1 --question-column sent2 \\
      --choices-column ending0 ending1 ending2 ending3 --top 1 --out chosen.csv
"""


_OF_TABLES = ("context_column", "question_column", "choices_column", *LAYOUT)
"""Options of --file, each a field of `ChoicesOptions`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("choices", nargs="*", metavar="CHOICE", help="two or more, for one --context")
    parser.add_argument("--context", help="a text, or a file with one; also .gz, .zst")
    parser.add_argument("--question", help="what is put before each choice")
    parser.add_argument("--file", type=Path, help="a table: .csv, .tsv, .jsonl or .parquet; also .gz, .zst")
    parser.add_argument("--context-column", metavar="NAME", help="(default: context)")
    parser.add_argument("--question-column", metavar="NAME", help="(default: none)")
    help_of_choices = "with a list (in CSV as JSON), or a column for each choice (default: choices)"
    parser.add_argument("--choices-column", metavar="NAME", nargs="+", help=help_of_choices)
    add_layout(parser)
    parser.add_argument(
        "--top", type=at_least_one("--top"), help="choices of each context, the best first (default: all)"
    )
    add_output(parser)


def run(options: argparse.Namespace) -> None:
    if (options.context is None) == (options.file is None) or bool(options.choices) != (options.context is not None):
        raise ConfigError("found no --context with its choices, expected both of them, or --file alone; give either")
    if options.file is None:
        refuse(options, _OF_TABLES, "it beside --context, where it has no effect; leave it out")
    else:
        refuse(options, ("question",), "it beside --file, where it has no effect; leave it out")
    check_output(options)
    table = None if options.file is None else _read(options)
    model = FineTuned.load(model_directory(options, "choose"), "choose")
    found = _of_one(options, model) if table is None else _of_table(table, model)
    write(options, ({**row, "ranked": row["ranked"][: options.top]} for row in found), _rows)
    say_unseen(model)


def _read(options: argparse.Namespace) -> pa.Table:
    layout_of(options, options.file)  # where that is no table whose columns something parts
    columns = options.choices_column
    values = given(options, _OF_TABLES)
    if columns is not None and len(columns) == 1:
        values["choices_column"] = columns[0]
    layout = parse_arguments(ChoicesOptions, values)
    rows, bad = Rows(str(options.file), read_rows(options.file, layout)), BadRows(remedy="correct it")
    return table_of(rows, layout, bad, labelled=False)


def _of_one(options: argparse.Namespace, model: FineTuned) -> Iterator[Record]:
    context = text_or_file(options.context)
    check_arguments([context, *options.choices, options.question or ""])
    for row in choose(model, [Asked(context, options.choices, options.question)]):
        yield {"number": 1, **row, "context": context, "question": options.question}


def _of_table(table: pa.Table, model: FineTuned) -> Iterator[Record]:
    for start in range(0, table.num_rows, AT_ONCE):
        part = table.slice(start, AT_ONCE)
        found = choose_rows(model, part, progress_of("choose", table.num_rows))
        given = part.select(["context", "question"]).to_pylist()
        for number, (row, asked) in enumerate(zip(found, given, strict=True), start=start + 1):
            yield {"number": number, **row, **asked}


def _rows(record: Record) -> Iterator[Record]:
    asked = {name: record[name] for name in ("context", "question")}
    for rank, each in enumerate(record["ranked"], start=1):
        yield {"number": record["number"], "rank": rank, **each, **asked}
