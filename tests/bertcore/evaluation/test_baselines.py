from pathlib import Path

import pyarrow as pa
import pytest

from bertcore.evaluation import baselines as simple
from bertcore.evaluation.baselines import Scores
from bertcore.examples import glue
from bertcore.examples.glue import GlueOptions
from bertcore.examples.schema import ExampleSet, schema_of


def example_set(
    family: str, labels: list[str] | None, metrics: list[str], train: list[dict], dev: list[dict]
) -> ExampleSet:
    splits = {
        name: pa.Table.from_pylist(rows, schema_of(family, labels)) for name, rows in (("train", train), ("dev", dev))
    }
    return ExampleSet(family=family, labels=labels, metrics=metrics, splits=splits)


def baselines(examples: ExampleSet, seed: int) -> Scores:
    return simple.baselines(examples, seed)[1]


def texts(*rows: tuple) -> list[dict]:
    return [{"id": str(index), "text_a": a, "text_b": b, "label": label} for index, (a, b, label) in enumerate(rows)]


def test_single_texts_by_hand() -> None:
    train = texts(*[("good film", None, "1"), ("bad film", None, "0"), ("good", None, "1")] * 5)
    dev = texts(("a good one", None, "1"), ("a bad one", None, "0"), ("bad", None, "0"))
    examples = example_set("classification", ["0", "1"], ["accuracy", "f1"], train, dev)
    assert baselines(examples, seed=1) == {
        "majority": {"accuracy": 1 / 3, "f1": 0.5},
        "bag_of_words": {"accuracy": 1.0, "f1": 1.0},
    }


def test_pairs_see_what_the_texts_share() -> None:
    names = [f"w{index}" for index in range(40)]
    train = texts(
        *[(a, a if same else b, str(int(same))) for a, b in zip(names, names[1:], strict=False) for same in (0, 1)]
    )
    dev = texts(("new", "new", "1"), ("new", "other", "0"))
    examples = example_set("classification", ["0", "1"], ["accuracy"], train, dev)
    assert baselines(examples, seed=1) == {"majority": {"accuracy": 0.5}, "bag_of_words": {"accuracy": 1.0}}


def test_words_keep_their_combining_marks() -> None:
    water, letters = "\u092a\u093e\u0928\u0940", ("\u092a", "\u0928")  # with two vowel signs, and without
    examples = example_set("classification", ["0", "1"], ["accuracy"], *[texts((water, " ".join(letters), "1"))] * 2)
    features = simple.Texts(examples.splits["train"]).features(examples.splits["dev"])
    assert features.toarray()[0, -3:].tolist() == [0, 0, 0], "no word of one is one of the other"


def test_scripts_without_blanks_have_words() -> None:
    """A character each, so that counting them is worth what it is in other scripts."""
    train = [
        (f"{name}的电影很{good}。", None, label) for name in "甲乙丙丁" for good, label in (("好", "1"), ("坏", "0"))
    ]
    dev = [("戊的电影很好。", None, "1"), ("己的电影很坏。", None, "0")]
    examples = example_set("classification", ["0", "1"], ["accuracy"], texts(*train), texts(*dev))
    assert baselines(examples, seed=1)["bag_of_words"] == {"accuracy": 1.0}
    rows = [question("a", "北京是中国的首都。上海是港口。", "哪里有港口？", "上海是港口。")]
    questions = example_set("question_answering", None, ["exact_match"], rows, rows)
    assert baselines(questions, seed=1)["overlap_sentence"] == {"exact_match": 1.0}


def test_several_labels_by_hand() -> None:
    def rows(*of: tuple[str, list[str]]) -> list[dict]:
        return [{"id": str(i), "text_a": text, "text_b": None, "labels": labels} for i, (text, labels) in enumerate(of)]

    train = rows(*[("cat here", ["always", "cat"]), ("dog", ["always", "dog"]), ("bird", ["always"])] * 20)
    dev = rows(("a cat", ["always", "cat"]), ("a bird", ["always"]))
    examples = example_set("multi_label", ["always", "cat", "dog"], ["micro_f1", "exact_match"], train, dev)
    assert baselines(examples, seed=1) == {
        "majority": {"micro_f1": 2 * 2 / 5, "exact_match": 0.5},
        "bag_of_words": {"micro_f1": 1.0, "exact_match": 1.0},
    }


def test_regression() -> None:
    train = texts(*[("a b", "a b", 5.0), ("a b", "c d", 0.0), ("a b", "a d", 2.5)] * 4)
    dev = texts(("x y", "x y", 5.0), ("x y", "x z", 2.5), ("x y", "v w", 0.0))
    scores = baselines(example_set("classification", None, ["pearson", "spearmanr"], train, dev), seed=1)
    assert scores["majority"] == {"pearson": 0.0, "spearmanr": 0.0}
    assert scores["bag_of_words"]["spearmanr"] == pytest.approx(1.0)


def test_one_class_and_empty_texts() -> None:
    train, dev = texts(("", None, "0"), ("", None, "0")), texts(("x", None, "0"), ("", None, "1"))
    scores = baselines(example_set("classification", ["0", "1"], ["mcc"], train, dev), seed=1)
    assert scores == {"majority": {"mcc": 0.0}, "bag_of_words": {"mcc": 0.0}}
    train = texts(("", None, "0"), ("!", None, "1"))
    assert set(baselines(example_set("classification", ["0", "1"], ["accuracy"], train, dev), seed=1)) == set(scores)


def test_tagging_by_hand() -> None:
    train = [{"id": "0", "words": ["in", "Rome", "May", "x"], "tags": ["O", "B-LOC", "B-PER", "O"]}]
    train += [{"id": "1", "words": ["May", "in", "May"], "tags": ["O", "O", "O"]}]
    dev = [{"id": "0", "words": ["Rome", "in", "May", "new"], "tags": ["B-LOC", "O", "B-PER", "B-LOC"]}]
    scores = baselines(example_set("tagging", ["O", "B-LOC", "B-PER"], ["f1", "accuracy"], train, dev), seed=1)
    assert scores == {
        "majority": {"f1": 0.0, "accuracy": 0.25},
        "word_lookup": {"f1": (2 * 1.0 * (1 / 3)) / (1.0 + 1 / 3), "accuracy": 0.5},
    }


def question(key: str, context: str, asked: str, *answers: str) -> dict:
    golds = [{"text": text, "answer_start": 0} for text in answers]
    return {"id": key, "title": "t", "context": context, "question": asked, "answers": golds}


def test_questions_by_hand() -> None:
    train = [question("a", "c", "?", "x"), question("b", "c", "?", "x"), question("c", "c", "?", "y")]
    dev = [
        question("d", "A fox ran. The dog slept! Who?", "Which dog slept?", "the dog slept"),
        question("e", "Nothing.", "?", "x"),
    ]
    assert baselines(example_set("question_answering", None, ["f1", "exact_match"], train, dev), seed=1) == {
        "majority": {"f1": 0.5, "exact_match": 0.5},
        "overlap_sentence": {"f1": 0.5, "exact_match": 0.5},
    }
    impossible = [question("g", "c", "?"), question("h", "c", "?")]
    scores = baselines(
        example_set("question_answering", None, ["exact_match"], impossible, [*dev, *impossible]), seed=1
    )
    assert scores["majority"] == {"exact_match": 0.5}


def choice(key: str, context: str, label: int, *choices: str, question: str | None = None) -> dict:
    return {"id": key, "context": context, "question": question, "choices": list(choices), "label": label}


def test_choices_by_hand() -> None:
    train = [choice(str(n), "x", label, "a", "b", "c") for n, label in enumerate([2, 2, 1, 1, 0])]
    dev = [
        choice("a", "The fox ran home.", 1, "A dog slept.", "The FOX ran.", "x"),
        choice("b", "Nothing.", 0, "yes", "no"),  # no word is shared: the first one
        choice("c", "It", 1, "it barked", "it barked", question="was the dog that barked"),  # as many: the first one
        choice("d", "one two", 3, "one", "two", "three", "one two"),
    ]
    # Place 1 and place 2 are right as often: the first of them.
    assert baselines(example_set("multiple_choice", None, ["accuracy"], train, dev), seed=1) == {
        "majority": {"accuracy": 0.5},
        "word_overlap": {"accuracy": 0.75},
    }
    most_are_late = [choice(str(n), "x", 3, "a", "b", "c", "d") for n in range(9)] + [choice("z", "x", 1, "a", "b")]
    scores = baselines(example_set("multiple_choice", None, ["accuracy"], most_are_late, dev), seed=1)
    assert scores["majority"] == {"accuracy": 0.75}  # where there is no fourth choice, the second one


def test_the_same_numbers_every_time_and_better_than_the_majority(shared_data: Path) -> None:
    examples = glue.read("mrpc", shared_data / "glue/MRPC", GlueOptions())
    first = baselines(examples, seed=1)
    assert first == baselines(examples, seed=1)
    assert first["majority"]["accuracy"] == 279 / 408 < first["bag_of_words"]["accuracy"]
