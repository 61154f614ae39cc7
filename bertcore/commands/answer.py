"""`bertcore answer`."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from bertcore.apply.answer import answer, answer_pairs, check_pairs
from bertcore.apply.finetuned import FineTuned
from bertcore.commands.options import LAYOUT, add_layout, add_model, at_least_one, layout_of, model_directory, refuse
from bertcore.commands.parts import in_parts, progress_of, say_unseen
from bertcore.commands.results import Record, add_output, check_output, check_place, write
from bertcore.commands.texts import check_arguments, read_file, text_or_file, told
from bertcore.errors import ConfigError
from bertcore.examples.bad_rows import has_words
from bertcore.examples.squad import read_file as read_squad
from bertcore.files import write_json

EXAMPLES = """\
  bertcore answer --question "What is the type of size?" --context page.txt
  bertcore answer --file questions.csv --out answers.jsonl    # columns question and context
  bertcore answer --squad dev-v1.1.json --out predictions.json   # as bertcore.evaluation.squad scores them
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--question", action="append", help="may be given several times")
    parser.add_argument("--context", help="a text of any length, or a file with one; also .gz, .zst")
    parser.add_argument("--file", type=Path, help="a table with the columns question and context")
    add_layout(parser, named=True)
    parser.add_argument("--squad", type=Path, help="a file in SQuAD's layout; also .gz, .zst")
    parser.add_argument(
        "--top", type=at_least_one("--top"), help="answers for each question (default: 3; at most the task's n_best)"
    )
    add_output(parser, ".json with --squad")


def run(options: argparse.Namespace) -> None:
    given = [options.squad is not None, options.file is not None, options.question is not None]
    if options.file is None:
        refuse(options, LAYOUT, "{!r} without --file, whose columns it is about; leave it out")
    if sum(given) != 1 or (options.question is None) != (options.context is None):
        raise ConfigError("found no --question with a --context, expected both of them, or --file, or --squad alone")
    if options.squad is not None:
        _squad(options)
        return
    check_output(options)
    if options.file is not None:
        found = read_file(options.file, "question", "context", layout=layout_of(options, options.file))
        pairs = [pair for pair in found if not isinstance(pair, str)]
        # What has a question or a context alone has no answer, as what has neither.
        asked = told([pair if all(map(has_words, pair)) else ("", "") for pair in pairs], str(options.file))
    else:
        context = text_or_file(options.context)
        check_arguments([context, *options.question])
        asked = pairs = [(question, context) for question in options.question]
    model = FineTuned.load(model_directory(options, "answer"), "answer")
    progress = progress_of("answer", len(pairs))
    nothing = None if options.file is None else _NOTHING
    answered = in_parts(asked, lambda part: answer_pairs(model, part, progress), check_pairs, nothing)
    records: Iterator[Record] = (
        {"number": number, "question": question, "answer": row["answer"], "best": row["best"][: options.top or 3]}
        for number, ((question, _), (_, row)) in enumerate(zip(pairs, answered, strict=True), start=1)
    )
    write(options, records, _rows)
    say_unseen(model)


_NOTHING: Record = {"answer": None, "best": []}


def _squad(options: argparse.Namespace) -> None:
    if options.out is None or options.out.suffix != ".json":
        raise ConfigError(f"--out: found {options.out}, expected a .json file with --squad; name one")
    if options.format is not None or options.top is not None:
        raise ConfigError(
            "--squad: found --format or --top, expected neither: the file has one answer for each question"
        )
    check_place(options.out, options.squad)
    questions = read_squad(options.squad, is_train=False, labelled=False)
    model = FineTuned.load(model_directory(options, "answer"), "answer")
    write_json(options.out, answer(model, questions, progress_of("answer", questions.num_rows)).predicted)
    say_unseen(model)


def _rows(record: Record) -> Iterator[Record]:
    for rank, each in enumerate(record["best"], start=1):
        shown = each["text"] or "(no answer)"
        yield {"number": record["number"], "question": record["question"], "rank": rank, **each, "text": shown}
