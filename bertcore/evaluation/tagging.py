"""Entity-level precision, recall and F1 and token accuracy of tagged words, as `conlleval` and `seqeval` count them.

    python -m bertcore.evaluation.tagging FILE [--accuracy-only]

FILE has one word a line, in three columns or more, as many in each line: the first is the word, the last two are the
gold and the predicted tag. They stand between tabs where the first word's line has one, else between blanks. A blank
line ends a sentence.
One set of rules reads IOB1, IOB2 and BIOES: a tag continues the entity before it where it is I or E, the tag before it
is B or I, and both have the same type; any other tag but O begins an entity.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from bertcore.compressed import read_lines
from bertcore.errors import InputError
from bertcore.evaluation.command import print_result
from bertcore.examples.tag_schemes import cells, entities, is_entity_tag

Sentences: TypeAlias = Sequence[Sequence[str]]


def evaluate(gold: Sentences, predicted: Sentences) -> dict[str, Any]:
    """`precision`, `recall`, `f1` over all entities, token `accuracy`, and under `types` the first three by type.

    Shares, not percentages. An entity is right where its type, beginning and end are. A quotient 0/0 counts as 0.0.
    `types` also has the numbers of `gold` and `predicted` entities.
    """
    result = {"accuracy": accuracy(gold, predicted)}
    gold_counts: Counter[str] = Counter()
    predicted_counts: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        gold_entities, predicted_entities = entities(gold_tags), entities(predicted_tags)
        gold_counts.update(type_ for type_, _, _ in gold_entities)
        predicted_counts.update(type_ for type_, _, _ in predicted_entities)
        correct.update(type_ for type_, _, _ in set(gold_entities) & set(predicted_entities))
    types = {
        type_: {
            **_scores(correct[type_], gold_counts[type_], predicted_counts[type_]),
            "gold": gold_counts[type_],
            "predicted": predicted_counts[type_],
        }
        for type_ in sorted(gold_counts | predicted_counts)
    }
    return {**_scores(correct.total(), gold_counts.total(), predicted_counts.total()), **result, "types": types}


def compute(metrics: Sequence[str], gold: Sentences, predicted: Sentences) -> dict[str, float]:
    """Each of `metrics`, which are keys of `evaluate`; alone, `accuracy` takes tags that mark no entities."""
    scores = {"accuracy": accuracy(gold, predicted)} if list(metrics) == ["accuracy"] else evaluate(gold, predicted)
    return {name: scores[name] for name in metrics}


def accuracy(gold: Sentences, predicted: Sentences) -> float:
    """Share of words whose tags are equal, over all sentences."""
    if [len(tags) for tags in gold] != [len(tags) for tags in predicted]:
        raise InputError("predictions: other numbers of sentences or words than the gold tags, expected the same")
    total = sum(len(tags) for tags in gold)
    if not total:
        raise InputError("the gold tags are empty, expected at least one word")
    pairs = zip(gold, predicted, strict=True)
    return sum(a == b for tags in pairs for a, b in zip(*tags, strict=True)) / total


def _scores(correct: int, gold: int, predicted: int) -> dict[str, float]:
    precision, recall = correct / predicted if predicted else 0.0, correct / gold if gold else 0.0
    f1 = (2 * precision * recall) / (precision + recall) if correct else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}


def read_columns(path: Path, *, any_tag: bool = False) -> tuple[list[list[str]], list[list[str]]]:
    """The gold and the predicted tags of every sentence of a file as the module describes.

    A `-DOCSTART-` line with two tags is a word like any other, as in `conlleval`; with none, or with the filler `-X-`
    in place of one, it only ends a sentence. Tags other than O and B, I, E or S with a type raise `InputError` unless
    `any_tag`.
    """
    gold: list[list[str]] = [[]]
    predicted: list[list[str]] = [[]]
    width, separator = 0, ""
    for number, line in enumerate(read_lines(path), start=1):
        text = line.decode("utf-8", errors="replace").rstrip()
        if not text or text.startswith(_DOCUMENT):
            columns = text.split()
        else:
            separator = separator or ("tab" if "\t" in text else "whitespace")
            columns = [each.strip(" ") for each in cells(text, separator)]
        if not columns or _ends_document(columns):
            gold.append([])
            predicted.append([])
            continue
        if columns[0] != _DOCUMENT:
            _check_width(len(columns), width, f"{path}:{number}")
            width = len(columns)
        for tag in columns[-2:]:
            if not any_tag and not is_entity_tag(tag):
                raise InputError(
                    f"{path}:{number}: found the tag {tag!r}, expected O or B-, I-, E- or S- with a type; "
                    f"use --accuracy-only for tags that mark no entities"
                )
        gold[-1].append(columns[-2])
        predicted[-1].append(columns[-1])
    return [tags for tags in gold if tags], [tags for tags in predicted if tags]


_DOCUMENT = "-DOCSTART-"


def _check_width(found: int, width: int, where: str) -> None:
    """`width`: the columns of the lines before, 0 for the first one. A line that has lost one has other tags last."""
    if found < 3:
        raise InputError(
            f"{where}: found {found} column{'s' * (found > 1)}, expected 3 or more: the word first, the gold and the "
            "predicted tag last; predictions without gold tags have no score"
        )
    if width and found != width:
        raise InputError(f"{where}: found {found} columns, expected {width} as in the lines before; correct the line")


def _ends_document(columns: list[str]) -> bool:
    return columns[0] == _DOCUMENT and (len(columns) < 3 or "-X-" in columns[-2:])


def evaluate_file(path: Path, *, accuracy_only: bool = False) -> dict[str, Any]:
    """`evaluate` on a file, or only its `accuracy`."""
    gold, predicted = read_columns(path, any_tag=accuracy_only)
    return {"accuracy": accuracy(gold, predicted)} if accuracy_only else evaluate(gold, predicted)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bertcore.evaluation.tagging", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="last two columns: the gold and the predicted tag; also .gz, .zst")
    parser.add_argument("--accuracy-only", action="store_true", help="for tags such as parts of speech")
    options = parser.parse_args(arguments)
    return print_result(lambda: evaluate_file(options.file, accuracy_only=options.accuracy_only))


if __name__ == "__main__":
    sys.exit(main())
