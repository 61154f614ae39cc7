"""SQuAD 1.1 and 2.0, and other sets in their layout, from JSON files, plain, `.gz` or `.zst`."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bertcore.compressed import plain_name, read_json
from bertcore.errors import InputError
from bertcore.examples.bad_rows import EMPTY_TEXT, BadRowError, BadRows, OnError, has_words
from bertcore.examples.schema import QUESTION_ANSWERING, ExampleSet
from bertcore.examples.splits import SplitOptions, find_splits, log_unused, with_dev

_FILE = re.compile(r"(?P<split>train|dev|test)(?P<version>-v[0-9.]+)\.json")

REPAIRED = "answer_start moved to where the answer stands"
ANSWER_DROPPED = "answer not in the context"
QUESTION_DROPPED = "question without an answer in the context"
NOWHERE = -1
"""`answer_start` of a dev answer whose text does not occur in the context; scoring needs the text only."""


@dataclass(frozen=True, kw_only=True)
class SquadOptions(SplitOptions):
    """Where the questions are, and how to read them."""

    on_error: OnError = "skip"
    """What becomes of an answer that does not stand at its place, and of an empty text. `strict`: it is named and ends
    the stage; `skip`: it is mended or left out, and counted."""


def read(directory: Path, options: SquadOptions) -> ExampleSet:
    """The files of `directory` as one task: beside a `train-v*.json` those of its version, or else as `splits`
    finds them.

    An `answer_start` that does not fit is moved to the nearest place where the answer's text stands in the context. An
    answer that stands nowhere is dropped, in train with its question if it was the only one; dev and test keep theirs
    with `NOWHERE`, since the official score is over all questions. A question without words, or whose context has none,
    is dropped in train. All of it is counted; `on_error: strict` raises `InputError` for the first. A test file may
    have no answers, or only empty lists of them where no question is marked as impossible: its `answers` are null.
    """
    bad = BadRows(on_error=options.on_error)
    paths = _of_one_version(directory, options) or find_splits(directory, options, (".json",))
    tables = {split: read_file(path, split == "train", bad, labelled=split != "test") for split, path in paths.items()}
    return from_tables(tables, str(paths["train"]), options, bad)


def from_tables(tables: Mapping[str, pa.Table], where: str, options: SquadOptions, bad: BadRows) -> ExampleSet:
    """The questions of each split as one task; `where`: the file or set that train is from."""
    return ExampleSet(
        family="question_answering",
        labels=None,
        metrics=["f1", "exact_match"],
        splits=with_dev(tables, options, where),
        dropped=dict(bad.counts),
    )


def read_file(path: Path, is_train: bool, bad: BadRows | None = None, *, labelled: bool = True) -> pa.Table:
    """One file's questions in order, with `answers` empty where a question has none (2.0), and null where `labelled` is
    off and the file has none. Without `bad`, bad answers are mended or dropped."""
    bad = BadRows(on_error="skip") if bad is None else bad
    content = read_json(path)
    rows: list[dict[str, Any]] = []
    read = 0
    try:
        for row in _questions(content, labelled):
            read += 1
            if (checked := check(row, str(path), is_train, bad)) is not None:
                rows.append(checked)
    except (KeyError, TypeError, AttributeError) as error:
        after = f" after question {rows[-1]['id']}" if rows else ""
        raise InputError(
            f"{path}: not SQuAD's layout{after} ({type(error).__name__}: {error}); give a SQuAD file"
        ) from None
    if read and not rows:
        raise InputError(
            f"{path}: found no question to train on among {read} ({', '.join(bad.counts)}), expected answers that "
            "stand in their context; correct or replace it"
        )
    check_ids(rows, str(path))
    return pa.Table.from_pylist(rows, QUESTION_ANSWERING)


def _questions(content: Any, labelled: bool) -> Iterator[dict[str, Any]]:
    """Every question in the schema's columns, as `read_file` describes them."""
    paragraphs = [(article, paragraph) for article in content["data"] for paragraph in article["paragraphs"]]
    every = (question for _, paragraph in paragraphs for question in paragraph["qas"])
    hidden = not labelled and not any(each.get("answers") or each.get("is_impossible") for each in every)
    for article, paragraph in paragraphs:
        for question in paragraph["qas"]:
            answers = [] if question.get("is_impossible") else question.get("answers")
            if answers is None and labelled:
                raise KeyError("answers")
            yield {
                "id": question["id"],
                "title": article.get("title") or "",
                "context": paragraph["context"],
                "question": question["question"],
                "answers": None if hidden else answers,
            }


def check(row: dict[str, Any], where: str, is_train: bool, bad: BadRows) -> dict[str, Any] | None:
    """`row`, a question of the schema's columns, with its answers as `read` describes; None where it is dropped.

    An id may be a whole number. `InputError` for anything else that is no text, and for an answer that is none.
    """
    where = f"{where}: question {row['id']}"
    row = {**row, "id": str(row["id"]) if type(row["id"]) is int else row["id"]}
    for name in ("id", "title", "context", "question"):
        if not isinstance(row[name], str):
            found = f"{row[name]!r} ({type(row[name]).__name__})"
            raise InputError(f"{where}: found {found} as its {name}, expected a text; correct the file")
    if is_train and not (has_words(row["question"]) and has_words(row["context"])):
        bad.add(where, BadRowError(EMPTY_TEXT, "found an empty question or context, expected words"))
        return None
    if row["answers"] is None:
        return row
    for answer in row["answers"]:
        if not isinstance(answer["text"], str) or not isinstance(answer["answer_start"], int):
            raise InputError(
                f"{where}: found the answer {answer!r}, expected a text, and a whole number as answer_start; correct it"
            )
    answers = list(_answers(row["answers"], row["context"], where, is_train, bad))
    return None if row["answers"] and not answers else {**row, "answers": answers}


def _answers(
    answers: Sequence[Mapping[str, Any]], context: str, where: str, is_train: bool, bad: BadRows
) -> Iterator[dict[str, Any]]:
    """The answers that are kept. Where train keeps none, the question is counted and not each of them."""
    places = [_nearest(context, answer["text"], answer["answer_start"]) for answer in answers]
    lost = is_train and set(places) == {NOWHERE}
    for answer, place in zip(answers, places, strict=True):
        text, start = answer["text"], answer["answer_start"]
        if place != start or place == NOWHERE:
            found = context[max(start, 0) :][: len(text)]
            message = f"found {found!r} at answer_start {start}, expected the answer {text!r}"
            reason = QUESTION_DROPPED if lost else ANSWER_DROPPED if place == NOWHERE else REPAIRED
            bad.add(where, BadRowError(reason, message))
        if lost:
            return
        if place != NOWHERE or not is_train:
            yield {"text": text, "answer_start": place}


def _nearest(context: str, text: str, start: int) -> int:
    """Where `text` stands in `context` nearest to `start` (the earlier of two as near); `NOWHERE` if it does not."""
    if not text:
        return NOWHERE
    before = context.rfind(text, 0, max(start, 0) + len(text))
    after = context.find(text, max(start, 0))
    places = [place for place in (before, after) if place != NOWHERE]
    return min(places, key=lambda place: abs(place - start), default=NOWHERE)


def check_ids(rows: Sequence[Mapping[str, Any]], where: str) -> None:
    """`InputError` where there is no question, or two have one id."""
    counts = Counter(row["id"] for row in rows)
    if not rows or (twice := [key for key, count in counts.items() if count > 1]):
        found = f"the id {twice[0]!r} for {counts[twice[0]]} questions" if rows else "no question"
        raise InputError(f"{where}: found {found}, expected questions with an id of their own; correct or replace it")


def _of_one_version(directory: Path, options: SquadOptions) -> dict[str, Path]:
    """Split -> file, all of the version of the one `train-v*.json`; none where there is no such file, none for dev, or
    an option names one."""
    found: dict[tuple[str, str], Path] = {}
    for path in sorted(directory.iterdir()):
        if match := _FILE.fullmatch(plain_name(path)):
            found.setdefault((match["split"], match["version"]), path)
    versions = sorted(version for split, version in found if split == "train")
    if not versions or options.train_file or options.dev_file or options.test_file:
        return {}
    if len(versions) > 1:
        raise InputError(
            f"{directory}: found {len(versions)} train-v*.json, expected one (also .gz, .zst); give a directory with "
            "the files of one version, or name the files with the options train_file and dev_file"
        )
    if ("dev", versions[0]) not in found:
        if others := sorted(version for split, version in found if split == "dev"):
            raise InputError(
                f"{directory}: found dev{others[0]}.json beside train{versions[0]}.json, expected one version; add "
                f"dev{versions[0]}.json, or name the file with the option dev_file"
            )
        return {}
    taken = {split: found[split, versions[0]] for split in ("train", "dev", "test") if (split, versions[0]) in found}
    log_unused(directory, (path for path in directory.iterdir() if plain_name(path).endswith(".json")), taken.values())
    return taken
