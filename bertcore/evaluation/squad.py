"""Exact match and F1 of SQuAD 1.1 and 2.0, equal to the official evaluation scripts to the last digit.

    python -m bertcore.evaluation.squad DATASET.json PREDICTIONS.json [--na-probs FILE]

A prediction is a text for each question id, "" for "no answer". The version is the data set's own, or `--version`.
"""

import argparse
import json
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from bertcore.compressed import read_json
from bertcore.errors import BAD_INPUT, BertcoreError, InputError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Articles = Sequence[Mapping[str, Any]]
"""What stands under "data" in a SQuAD file."""


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, one blank between words."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact(gold: str, predicted: str) -> int:
    """1 where the normalised texts are equal, else 0."""
    return int(normalize_answer(gold) == normalize_answer(predicted))


def f1(gold: str, predicted: str) -> float:
    """F1 over the bags of normalised words, as 1.1 has it: 0 as soon as either is empty."""
    gold_words, predicted_words = normalize_answer(gold).split(), normalize_answer(predicted).split()
    common = sum((Counter(gold_words) & Counter(predicted_words)).values())
    if common == 0:
        return 0
    precision, recall = common / len(predicted_words), common / len(gold_words)
    return (2 * precision * recall) / (precision + recall)


def f1_or_nothing(gold: str, predicted: str) -> float:
    """F1 as 2.0 has it: two empty answers agree."""
    if not normalize_answer(gold) or not normalize_answer(predicted):
        return exact(gold, predicted)
    return f1(gold, predicted)


def evaluate_v1(dataset: Articles, predictions: Mapping[str, str]) -> dict[str, float]:
    """`exact_match` and `f1` in percent. A question without a prediction scores 0 and is named on stderr."""
    for question in questions(dataset):
        if question["id"] not in predictions:
            print(f"Unanswered question {question['id']} will receive score 0.", file=sys.stderr)
        elif not question["answers"]:
            raise InputError(
                f"question {question['id']}: no answers, expected at least one in SQuAD 1.1; score it as 2.0"
            )
    scores = [each for _, each in _raw_scores_v1(dataset, predictions)]  # of every question, be its id another's too
    _require(len(scores))
    return {name: 100.0 * sum(each[name] for each in scores) / len(scores) for name in _SCORES_V1}


def evaluate_v2(
    dataset: Articles,
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float] | None = None,
    na_prob_threshold: float = 1.0,
) -> dict[str, float]:
    """`exact`, `f1`, `total`, the same with `HasAns_` and `NoAns_`, in percent; with `na_probs` best thresholds too.

    `na_probs`: how likely (or by which score) a question has no answer; above the threshold its prediction counts as
    "". A question without a prediction or without its probability raises `InputError`; the official script fails there
    as well.
    """
    answerable = {question["id"]: bool(question["answers"]) for question in questions(dataset)}
    _require(len(answerable))
    probabilities = dict.fromkeys(predictions, 0.0) if na_probs is None else na_probs
    _require_all(answerable, predictions, "prediction")
    _require_all(answerable, probabilities, "no-answer probability")
    raw = {name: _raw_scores(dataset, predictions, score) for name, score in _SCORES_V2.items()}
    kept = {
        name: {
            key: float(not answerable[key]) if probabilities[key] > na_prob_threshold else value
            for key, value in scores.items()
        }
        for name, scores in raw.items()
    }
    result = _summary(kept, list(answerable))
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        if keys := [key for key, has_answer in answerable.items() if has_answer is wanted]:
            result |= {f"{prefix}_{name}": value for name, value in _summary(kept, keys).items()}
    if na_probs is not None:
        for name, scores in raw.items():
            best, threshold = _best_threshold(scores, predictions, na_probs, answerable)
            result |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return result


def evaluate(
    dataset: Articles, predictions: Mapping[str, str], na_probs: Mapping[str, float] | None = None
) -> dict[str, float]:
    """`exact_match` and `f1`, as 1.1 scores them, or where a question has no answer, with all that 2.0 adds."""
    if all(question["answers"] for question in questions(dataset)):
        return evaluate_v1(dataset, predictions)
    scores = evaluate_v2(dataset, predictions, na_probs)
    return {"exact_match": scores["exact"], **scores}


def shares(table: pa.Table, predictions: Mapping[str, str], metrics: Sequence[str]) -> dict[str, float]:
    """`metrics` of `evaluate` for the questions of a table (`schema.QUESTION_ANSWERING`), as shares like those of all
    other tasks."""
    scores = evaluate(to_articles(table), predictions)
    return {name: 0.01 * scores[name] for name in metrics}


def to_articles(table: pa.Table) -> list[dict[str, Any]]:
    """The questions of a table (`schema.QUESTION_ANSWERING`) as `evaluate` takes them, neighbours of one context
    together."""
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


def by_question(dataset: Articles, predictions: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """`exact_match` and `f1` of every question by its id, as shares; their means are what `evaluate` gives."""
    if all(question["answers"] for question in questions(dataset)):
        found = list(_raw_scores_v1(dataset, predictions))
        return {name: {key: each[name] for key, each in found} for name in _SCORES_V1}
    scores = {name: _raw_scores(dataset, predictions, score) for name, score in _SCORES_V2.items()}
    return {"exact_match": scores["exact"], "f1": scores["f1"]}


def questions(dataset: Articles) -> Iterator[Any]:
    """Every question of the articles, in order."""
    for article in dataset:
        for paragraph in article["paragraphs"]:
            yield from paragraph["qas"]


def _raw_scores_v1(dataset: Articles, predictions: Mapping[str, str]) -> Iterator[tuple[str, dict[str, float]]]:
    """The id and the scores of every question."""
    for question in questions(dataset):
        key, answers = question["id"], [answer["text"] for answer in question["answers"]]
        yield (
            key,
            {
                name: max(score(answer, predictions[key]) for answer in answers) if key in predictions else 0.0
                for name, score in _SCORES_V1.items()
            },
        )


def _raw_scores(
    dataset: Articles, predictions: Mapping[str, str], score: Callable[[str, str], float]
) -> dict[str, float]:
    scores = {}
    for question in questions(dataset):
        golds = [answer["text"] for answer in question["answers"] if normalize_answer(answer["text"])] or [""]
        scores[question["id"]] = max(score(gold, predictions[question["id"]]) for gold in golds)
    return scores


def _summary(scores: Mapping[str, Mapping[str, float]], keys: list[str]) -> dict[str, float]:
    means = {name: 100.0 * sum(values[key] for key in keys) / len(keys) for name, values in scores.items()}
    return {**means, "total": len(keys)}


def _best_threshold(
    scores: Mapping[str, float],
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float],
    answerable: Mapping[str, bool],
) -> tuple[float, float]:
    """The best mean score over all thresholds, and the first threshold that reaches it.

    The sweep starts with every question unanswered and lets one more be answered at each step.
    """
    current: float = sum(not has_answer for has_answer in answerable.values())
    best, threshold = current, 0.0
    for key in sorted(na_probs, key=lambda key: na_probs[key]):
        if key not in scores:
            continue
        current += scores[key] if answerable[key] else -1 if predictions[key] else 0
        if current > best:
            best, threshold = current, na_probs[key]
    return 100.0 * best / len(scores), threshold


def _require(total: int) -> None:
    if not total:
        raise InputError("the data set holds no question, expected at least one; give a SQuAD file")


def _require_all(wanted: Mapping[str, Any], found: Mapping[str, Any], what: str) -> None:
    if missing := [key for key in wanted if key not in found]:
        raise InputError(
            f"no {what} for question {missing[0]} ({len(missing)} of {len(wanted)} missing), expected one for each "
            f"question in SQuAD 2.0; add them"
        )


def _read_dataset(path: Path) -> tuple[Articles, str]:
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise InputError(f"{path}: no list under the key 'data', expected SQuAD's JSON; give such a file")
    for question in questions(content["data"]):
        if type(question["id"]) is int:  # of predictions, whose ids are keys of JSON, they are always texts
            question["id"] = str(question["id"])
        for answer in question["answers"]:
            if not isinstance(answer["text"], str):
                raise InputError(
                    f"{path}: question {question['id']}: found the answer {answer['text']!r}, expected a text; "
                    "correct the file"
                )
    return content["data"], str(content.get("version", ""))


def _read_mapping(path: Path, kinds: type | tuple[type, ...], expected: str) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path}: found a {type(content).__name__}, expected an object of question id -> {expected}")
    for key, value in content.items():
        if not isinstance(value, kinds):
            raise InputError(f"{path}: question {key}: found {value!r}, expected a {expected}; correct the file")
    return content


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bertcore.evaluation.squad", description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=Path, help="SQuAD JSON, also .gz or .zst")
    parser.add_argument("predictions", type=Path, help="JSON: question id -> text")
    parser.add_argument("--na-probs", type=Path, help="JSON: question id -> probability or score of no answer (2.0)")
    parser.add_argument("--na-prob-thresh", type=float, default=1.0, help="above it the answer is '' (default 1.0)")
    parser.add_argument("--version", choices=("1.1", "2.0"), help="default: what the data set says")
    options = parser.parse_args(arguments)
    try:
        dataset, version = _read_dataset(options.dataset)
        predictions = _read_mapping(options.predictions, str, "text")
        if options.na_probs or (options.version or version.removeprefix("v")).startswith("2"):
            na_probs = _read_mapping(options.na_probs, (int, float), "number") if options.na_probs else None
            print(json.dumps(evaluate_v2(dataset, predictions, na_probs, options.na_prob_thresh), indent=2))
        else:
            print(json.dumps(evaluate_v1(dataset, predictions)))
    except (KeyError, TypeError) as error:
        problem = f"{options.dataset}: not SQuAD's layout ({type(error).__name__}: {error}); correct it"
        print(f"error: {problem}", file=sys.stderr)
        return BAD_INPUT
    except (BertcoreError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


_SCORES_V1: dict[str, Callable[[str, str], float]] = {"exact_match": exact, "f1": f1}
_SCORES_V2: dict[str, Callable[[str, str], float]] = {"exact": exact, "f1": f1_or_nothing}

if __name__ == "__main__":
    sys.exit(main())
