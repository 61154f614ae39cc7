"""Of each family a task that only the context decides: the simple baselines must fail where the linear model learns."""

import random
from typing import Any

import pyarrow as pa
import pytest

from bertcore.errors import InputError
from bertcore.evaluation.baselines import baselines
from bertcore.evaluation.scoring import score
from bertcore.examples.schema import ExampleSet, schema_of
from bertcore.linear.features import shape
from bertcore.linear.questions import _places
from bertcore.linear.run import predict, refusal
from bertcore.linear.texts import FOLDS, folds

FIRST, LAST = ("alpha", "beta", "gamma", "delta", "omega"), ("ton", "ville", "by", "ham")
NAMES = [first + last for first in FIRST for last in LAST]


def example_set(family: str, labels: list[str] | None, metric: str, *splits: list[dict[str, Any]]) -> ExampleSet:
    tables = {
        name: pa.Table.from_pylist(rows, schema_of(family, labels))
        for name, rows in zip(("train", "dev"), splits, strict=True)
    }
    return ExampleSet(family=family, labels=labels, metrics=[metric], splits=tables)


def best(examples: ExampleSet) -> float:
    """Of the simple baselines."""
    return max(next(iter(scores.values())) for scores in baselines(examples, seed=1)[1].values())


def learned(examples: ExampleSet) -> float:
    predicted = predict(examples)
    assert predicted == predict(examples), "the same every time"
    return next(iter(score(examples, examples.splits["dev"], predicted, examples.metrics).values()))


def texts(names: list[str], **values: Any) -> list[dict[str, Any]]:
    """The same words in two orders: the second one has the last of the values."""
    orders = ("{0} not good but bad {0}", "{0} not bad but good {0}")
    return [
        {"id": f"{name}{place}", "text_a": order.format(name), **{key: each[place] for key, each in values.items()}}
        for name in names
        for place, order in enumerate(orders)
    ]


@pytest.mark.parametrize(
    ("labels", "metric", "values"),
    [(["0", "1"], "accuracy", ("0", "1")), (None, "pearson", (1.5, 4.0))],
    ids=["classes", "numbers"],
)
def test_texts_that_differ_in_the_order_of_their_words(labels: list[str] | None, metric: str, values: Any) -> None:
    examples = example_set("classification", labels, metric, *(texts(part, label=values) for part in (NAMES, ["new"])))
    assert best(examples) <= 0.5
    assert learned(examples) == pytest.approx(1.0)


def test_sets_of_labels_that_the_order_of_words_gives() -> None:
    train, dev = (texts(part, labels=(["a", "c"], ["b", "c"])) for part in (NAMES, ["new"]))
    examples = example_set("multi_label", ["a", "b", "c"], "exact_match", train, dev)
    assert best(examples) <= 0.5
    assert learned(examples) == 1.0


def test_pairs_see_what_they_share() -> None:
    rows = [
        {"id": f"{a}{b}", "text_a": a, "text_b": b, "label": "yes" if a == b else "no"}
        for a, other in zip(NAMES, NAMES[1:], strict=False)
        for b in (a, other)
    ]
    dev = [{**row, "text_a": "new", "text_b": "new" if row["label"] == "yes" else "else"} for row in rows[:2]]
    assert learned(example_set("classification", ["no", "yes"], "accuracy", rows, dev)) == 1.0


def test_rows_that_share_a_text_are_in_one_fold() -> None:
    rows = [
        {"id": f"{name}{n}", "text_a": name, "text_b": f"{name} {n}", "label": "0"} for name in NAMES for n in range(4)
    ]
    table = pa.Table.from_pylist(rows, schema_of("classification", ["0"]))
    found = folds(table).reshape(len(NAMES), 4)
    assert (found == found[:, :1]).all() and set(found[:, 0].tolist()) == set(range(FOLDS))
    assert folds(table.take(list(range(79, -1, -1)))).tolist() == found.ravel()[::-1].tolist(), "whatever the order"


def test_tags_that_the_words_beside_it_decide() -> None:
    def rows(names: list[str]) -> list[dict[str, Any]]:
        kinds = [("Mr", "B-PER", "spoke"), ("in", "B-LOC", "rained")]
        return [
            {"id": name + tag, "words": ["then", before, name, "it", after], "tags": ["O", "O", tag, "O", "O"]}
            for name in names
            for before, tag, after in kinds
        ]

    examples = example_set("tagging", ["O", "B-PER", "B-LOC"], "f1", rows(NAMES), rows([*NAMES[:2], "Newton"]))
    assert best(examples) < 0.6
    assert learned(examples) == 1.0
    one_tag = pa.Table.from_pylist([{"id": "0", "words": ["a", "b"], "tags": ["O", "O"]}], schema_of("tagging", None))
    assert predict(ExampleSet(**vars(examples) | {"splits": {"train": one_tag, "dev": one_tag}})) == [["O", "O"]]


def question(key: str, context: str, asked: str, answer: str | None) -> dict[str, Any]:
    golds = [] if answer is None else [{"text": answer, "answer_start": context.index(answer)}]
    return {"id": key, "title": "t", "context": context, "question": asked, "answers": golds}


def questions(count: int, seed: int) -> list[dict[str, Any]]:
    """Of three names with their types and colours, one is asked about."""
    draws, rows = random.Random(seed), []
    for number in range(count):
        names = draws.sample([f"{name}{seed}" for name in NAMES], 3)
        values = [(f"t{draws.randrange(99)}", f"c{draws.randrange(99)}") for _ in names]
        context = ". ".join(
            f"The type of {name} is {kind}, its colour {colour}"
            for name, (kind, colour) in zip(names, values, strict=True)
        )
        place, what = draws.randrange(3), number % 2
        asked = f"What {('type', 'colour')[what]} has {names[place]}?"
        rows.append(question(f"{seed}-{number}", context, asked, values[place][what]))
    return rows


def test_answers_that_stand_beside_what_is_asked_about() -> None:
    examples = example_set("question_answering", None, "exact_match", questions(80, 1), questions(40, 2))
    assert best(examples) < 0.2
    assert learned(examples) > 0.8


def test_where_the_words_of_a_question_stand() -> None:
    tokens = ["a", "x", "b", "\n", "y", "x"]
    before, after, first, lines, near = zip(*_places(tokens, {"x", "y"}), strict=True)
    assert before == (12, 0, 1, 2, 0, 0) and after == (1, 0, 2, 1, 0, 0)
    assert first == (-1, 0, 1, 2, 3, 4) and lines == (0, 0, 0, 1, 0, 0)
    assert near == (2,) * 6
    assert _places(["a", "b"], {"x"}) == [[12, 12, -1, 0, 0]] * 2


def test_a_context_without_words_has_no_answer() -> None:
    dev = [question("blank", " ", "What?", " "), *questions(1, 2)]
    examples = example_set("question_answering", None, "f1", questions(20, 1), dev)
    assert predict(examples)["blank"] == ""


def test_shapes() -> None:
    assert [shape(word) for word in ("Berlin-2024", "ÉTÉ", "été", "...", "")] == ["Xx-d", "X", "x", ".", ""]


def test_what_has_no_linear_model_is_refused() -> None:
    choice = {"id": "a", "context": "c", "question": None, "choices": ["a", "b"], "label": 1}
    with pytest.raises(InputError, match="found the family multiple_choice, expected one of classification, .*leave"):
        predict(example_set("multiple_choice", None, "accuracy", [choice], [choice]))
    none = example_set("question_answering", None, "f1", questions(3, 1), [question("x", "c", "What?", None)])
    few = [{"id": f"{n}", "text_a": NAMES[n], "label": "no"} for n in range(2)]
    reason = refusal(example_set("classification", ["no", "yes"], "accuracy", few, few))
    assert reason == "found 2 different texts in train, expected at least 3 to choose on; leave it out"
    assert refusal(none) == "found 1 questions without an answer, expected one to each, as in SQuAD 1.1; leave it out"
