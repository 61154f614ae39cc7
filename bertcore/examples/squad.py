"""SQuAD 1.1 and 2.0 from their JSON files: `train-v*.json` and `dev-v*.json`, plain, `.gz` or `.zst`."""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from bertcore.compressed import plain_name, read_json
from bertcore.errors import InputError
from bertcore.examples.schema import QUESTION_ANSWERING, ExampleSet

_FILE = re.compile(r"(?P<split>train|dev|test)(?P<version>-v[0-9.]+)?\.json")

REPAIRED = "answer_start moved to where the answer stands"
ANSWER_DROPPED = "answer not in the context"
QUESTION_DROPPED = "question without an answer in the context"
NOWHERE = -1
"""`answer_start` of a dev answer whose text does not occur in the context; scoring needs the text only."""


def read(directory: Path, *, strict: bool = False) -> ExampleSet:
    """The train file of `directory` and the dev (and test) file of the same version; any others are not read.

    An `answer_start` that does not fit is moved to the nearest place where the answer's text stands in the context. An
    answer that stands nowhere is dropped, in train with its question if it was the only one; dev and test keep theirs
    with `NOWHERE`, since the official score is over all questions. All of it is counted; `strict` raises `InputError`
    for the first.
    """
    dropped: Counter[str] = Counter()
    paths = _find(directory)
    splits = {split: read_file(path, split == "train", strict=strict, dropped=dropped) for split, path in paths.items()}
    return ExampleSet(
        family="question_answering",
        labels=None,
        metrics=["f1", "exact_match"],
        splits=splits,
        dropped=dict(dropped),
    )


def read_file(path: Path, is_train: bool, *, strict: bool = False, dropped: Counter[str] | None = None) -> pa.Table:
    """One file's questions in order, with `answers` empty where a question has none (2.0)."""
    drops: Counter[str] = Counter() if dropped is None else dropped
    content = read_json(path)
    rows: list[dict[str, Any]] = []
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    answers = _answers(question, paragraph["context"], path, is_train, strict, drops)
                    if question.get("answers") and not answers:
                        drops[QUESTION_DROPPED] += 1
                        continue
                    rows.append(
                        {
                            "id": question["id"],
                            "title": article.get("title", ""),
                            "context": paragraph["context"],
                            "question": question["question"],
                            "answers": answers,
                        }
                    )
    except (KeyError, TypeError, AttributeError) as error:
        after = f" after question {rows[-1]['id']}" if rows else ""
        raise InputError(
            f"{path}: not SQuAD's layout{after} ({type(error).__name__}: {error}); give a SQuAD file"
        ) from None
    _check_ids(rows, path)
    return pa.Table.from_pylist(rows, QUESTION_ANSWERING)


def to_articles(table: pa.Table) -> list[dict[str, Any]]:
    """What stands under "data" in a SQuAD file of these examples; `bertcore.evaluation.squad` scores against it."""
    articles = []
    for title, of_title in groupby(table.to_pylist(), key=lambda row: row["title"]):
        paragraphs = []
        for context, of_context in groupby(of_title, key=lambda row: row["context"]):
            questions = [
                {
                    "id": row["id"],
                    "question": row["question"],
                    "answers": row["answers"],
                    "is_impossible": not row["answers"],
                }
                for row in of_context
            ]
            paragraphs.append({"context": context, "qas": questions})
        articles.append({"title": title, "paragraphs": paragraphs})
    return articles


def _answers(
    question: Mapping[str, Any], context: str, path: Path, is_train: bool, strict: bool, drops: Counter[str]
) -> list[dict[str, Any]]:
    kept = []
    for answer in [] if question.get("is_impossible") else question["answers"]:
        text, start = answer["text"], answer["answer_start"]
        place = start if start >= 0 and context.startswith(text, start) else _nearest(context, text, start)
        if place != start:
            if strict:
                found = context[max(start, 0) :][: len(text)]
                raise InputError(
                    f"{path}: question {question['id']}: found {found!r} at answer_start {start}, expected the answer "
                    f"{text!r}; correct the file, or let such answers be mended and counted"
                )
            drops[ANSWER_DROPPED if place == NOWHERE else REPAIRED] += 1
        if place != NOWHERE or not is_train:
            kept.append({"text": text, "answer_start": place})
    return kept


def _nearest(context: str, text: str, start: int) -> int:
    """Where `text` stands in `context` nearest to `start` (the earlier of two as near); `NOWHERE` if it does not."""
    if not text:
        return NOWHERE
    before = context.rfind(text, 0, max(start, 0) + len(text))
    after = context.find(text, max(start, 0))
    places = [place for place in (before, after) if place != NOWHERE]
    return min(places, key=lambda place: abs(place - start), default=NOWHERE)


def _check_ids(rows: list[dict[str, Any]], path: Path) -> None:
    counts = Counter(row["id"] for row in rows)
    if not rows or (twice := [key for key, count in counts.items() if count > 1]):
        found = f"the id {twice[0]!r} for {counts[twice[0]]} questions" if rows else "no question"
        raise InputError(f"{path}: found {found}, expected questions with an id of their own; correct the file")


def _find(directory: Path) -> dict[str, Path]:
    """Split -> file, all of the version of the one train file."""
    found: dict[tuple[str, str], Path] = {}
    for path in sorted(directory.iterdir()):
        if match := _FILE.fullmatch(plain_name(path)):
            found.setdefault((match["split"], match["version"] or ""), path)
    versions = sorted(version for split, version in found if split == "train")
    if len(versions) != 1:
        raise InputError(
            f"{directory}: found {len(versions)} train-v*.json, expected one (also .gz, .zst); "
            f"give a directory with the files of one version"
        )
    if ("dev", versions[0]) not in found:
        raise InputError(f"{directory}: no dev{versions[0]}.json beside train{versions[0]}.json; add it")
    return {split: found[split, versions[0]] for split in ("train", "dev", "test") if (split, versions[0]) in found}
