"""Scores of resamples against the metrics themselves on the resampled examples, and intervals that keep their word."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from bertcore.errors import InputError
from bertcore.evaluation import bootstrap, classification, multi_label, squad, tagging
from bertcore.evaluation.bootstrap import compare, scores, weights
from bertcore.evaluation.per_example import Records
from bertcore.evaluation.scoring import units
from bertcore.examples.schema import ExampleSet, schema_of

LABELS = ["0", "1", "2"]


def example_set(family: str, labels: list[str] | None, rows: list[dict[str, Any]]) -> tuple[ExampleSet, pa.Table]:
    table = pa.Table.from_pylist(
        [{"id": str(number), "title": "t", **row} for number, row in enumerate(rows)], schema_of(family, labels)
    )
    return ExampleSet(family=family, labels=labels, metrics=["f1"], splits={"dev": table}), table


def resampled(values: Any, drawn: np.ndarray) -> list[Any]:
    return [values[index] for index in drawn]


def scored(metric: str, examples: ExampleSet, table: pa.Table, predicted: Any, drawn: np.ndarray) -> float:
    """By the units of the examples and by how often each was drawn."""
    name, found = units(examples, table, predicted, metric)
    weight = np.bincount(drawn, minlength=table.num_rows).astype(float)[None]
    return float(scores(name, found, weight)[0])


def draws(count: int, seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [np.arange(count), *(generator.integers(count, size=count) for _ in range(5))]


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "mcc", "f1"])
def test_labels(metric: str) -> None:
    labels = LABELS[:2] if metric == "f1" else LABELS
    generator = np.random.default_rng(3)
    gold, predicted = (generator.choice(labels, 40).tolist() for _ in range(2))
    examples, table = example_set("classification", labels, [{"text_a": "x", "label": each} for each in gold])
    for drawn in draws(40, seed=1):
        expected = classification.compute([metric], resampled(gold, drawn), resampled(predicted, drawn))[metric]
        assert scored(metric, examples, table, predicted, drawn) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e9])
@pytest.mark.parametrize("metric", ["pearson", "spearmanr"])
def test_numbers_with_ties_in_any_unit(metric: str, unit: float) -> None:
    generator = np.random.default_rng(3)
    gold, predicted = ((unit * generator.integers(5, size=40)).tolist() for _ in range(2))
    examples, table = example_set("classification", None, [{"text_a": "x", "label": each} for each in gold])
    for drawn in draws(40, seed=1):
        expected = classification.compute([metric], resampled(gold, drawn), resampled(predicted, drawn))[metric]
        assert scored(metric, examples, table, predicted, drawn) == pytest.approx(expected, abs=1e-12)
    assert scored(metric, examples, table, [1.0] * 40, np.arange(40)) == 0.0


@pytest.mark.parametrize("metric", ["micro_f1", "macro_f1", "exact_match"])
def test_sets_of_labels(metric: str) -> None:
    generator = np.random.default_rng(3)
    gold, predicted = ([[label for label in LABELS if generator.random() < 0.5] for _ in range(40)] for _ in range(2))
    examples, table = example_set("multi_label", LABELS, [{"text_a": "x", "labels": each} for each in gold])
    for drawn in draws(40, seed=1):
        expected = multi_label.evaluate(resampled(gold, drawn), resampled(predicted, drawn), LABELS)[metric]
        assert scored(metric, examples, table, predicted, drawn) == pytest.approx(expected, abs=1e-12)


def test_choices() -> None:
    generator = np.random.default_rng(3)
    gold, predicted = (generator.integers(3, size=40).tolist() for _ in range(2))
    rows = [{"context": "x", "choices": ["a", "b", "c"], "label": each} for each in gold]
    examples, table = example_set("multiple_choice", None, rows)
    for drawn in draws(40, seed=1):
        expected = classification.accuracy(resampled(gold, drawn), resampled(predicted, drawn))
        assert scored("accuracy", examples, table, predicted, drawn) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("metric", ["f1", "precision", "recall", "accuracy"])
def test_tags(metric: str) -> None:
    generator = np.random.default_rng(3)
    tags = ["O", "B-A", "I-A", "B-B"]
    lengths = generator.integers(1, 7, size=40)
    gold, predicted = ([generator.choice(tags, length).tolist() for length in lengths] for _ in range(2))
    rows = [{"words": ["w"] * len(each), "tags": each} for each in gold]
    examples, table = example_set("tagging", tags, rows)
    for drawn in draws(40, seed=1):
        expected = tagging.evaluate(resampled(gold, drawn), resampled(predicted, drawn))[metric]
        assert scored(metric, examples, table, predicted, drawn) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("unanswered", [False, True])
@pytest.mark.parametrize("metric", ["f1", "exact_match"])
def test_questions(metric: str, unanswered: bool) -> None:
    generator = np.random.default_rng(3)
    words = ["red", "green", "the blue", ""] if unanswered else ["red", "green", "the blue cat"]
    gold, predicted = (generator.choice(words, 40).tolist() for _ in range(2))
    rows = [
        {"context": "c", "question": "?", "answers": [{"text": each, "answer_start": 0}] if each else []}
        for each in gold
    ]
    examples, table = example_set("question_answering", None, rows)
    answers = {str(number): each or "nothing" * (not unanswered) for number, each in enumerate(predicted)}
    for drawn in draws(40, seed=1):
        found = table.take(drawn)
        ids = pa.array([str(number) for number in range(40)])  # each question once under its own id
        repeated = found.set_column(0, "id", ids)
        own = {str(place): answers[str(index)] for place, index in enumerate(drawn)}
        if unanswered:
            expected = squad.evaluate_v2(squad.to_articles(repeated), own)[metric.replace("exact_match", "exact")]
        else:
            expected = squad.evaluate_v1(squad.to_articles(repeated), own)[metric]
        assert scored(metric, examples, table, answers, drawn) == pytest.approx(0.01 * expected, abs=1e-9)


def test_weights_are_resamples_and_the_same_every_time() -> None:
    found = np.concatenate(list(weights(300, seed=1)))
    assert found.shape == (bootstrap.RESAMPLES, 300) and (found.sum(axis=1) == 300).all()
    assert np.array_equal(found, np.concatenate(list(weights(300, seed=1))))
    assert found.var() == pytest.approx(1.0, rel=0.02)  # of a multinomial: 1 - 1/n


def test_parts_that_bound_the_memory_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    right = np.random.default_rng(2).random((60, 1))
    whole = compare("mean", [right], [right[::-1]])
    monkeypatch.setattr(bootstrap, "_AT_ONCE", 60 * 7)
    assert vars(compare("mean", [right], [right[::-1]])) == pytest.approx(vars(whole))


def called_different(metric: str, systems: Any, trials: int) -> float:
    """Share of `trials` in which the interval for two systems that are equally good leaves 0 out."""
    wrong = 0
    for trial in range(trials):
        ours, others = systems(np.random.default_rng(trial))
        found = compare(metric, ours, others, seed=trial)
        wrong += found.low > 0.0 or found.high < 0.0
    return wrong / trials


def rows(generator: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Two systems, right on 70 % of 150 examples; most are easy or hard for both."""
    hard = generator.random(150)
    sides = [(generator.random(150) < np.where(hard < 0.5, 0.95, 0.45)).astype(float)[:, None] for _ in range(2)]
    return [sides[0]], [sides[1]]


def sentences(generator: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Entities of 150 sentences, from none to many, of which two taggers find 60 %, and invent some."""
    gold = generator.poisson(generator.gamma(1.0, 1.5, size=150))
    sides = []
    for _ in range(2):
        right = generator.binomial(gold, 0.6)
        sides.append(np.stack([right, gold, right + generator.poisson(0.4, size=150)], axis=1).astype(float))
    return [sides[0]], [sides[1]]


def seeds(generator: np.random.Generator) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Three seeds each, whose luck differs as much as the choice of examples does."""
    hard = generator.random(150)

    def run() -> np.ndarray:
        luck = generator.normal(0.0, 0.05)
        return (generator.random(150) < np.where(hard < 0.5, 0.9, 0.5) + luck).astype(float)[:, None]

    return [run() for _ in range(3)], [run() for _ in range(3)]


@pytest.mark.parametrize(("metric", "systems"), [("mean", rows), ("counted_f1", sentences), ("mean", seeds)])
def test_two_equal_systems_are_called_different_in_about_one_of_twenty_cases(metric: str, systems: Any) -> None:
    # 400 trials: the share of a test that keeps its word lies between 0.025 and 0.08 in 99 of 100 such experiments;
    # with a few seeds the interval is on the safe side.
    found = called_different(metric, systems, 400)
    assert (0.005 if systems is seeds else 0.025) <= found <= 0.08


def test_a_better_system_is_found() -> None:
    generator = np.random.default_rng(1)
    good, bad = ((generator.random(300) < share).astype(float)[:, None] for share in (0.8, 0.6))
    found = compare("mean", [good], [bad])
    assert found.difference == pytest.approx(good.mean() - bad.mean()) and found.low > 0.05 and found.high < 0.35


def test_the_spread_over_seeds_widens_the_interval() -> None:
    generator = np.random.default_rng(1)
    ours, others = ([(generator.random(200) < s).astype(float)[:, None] for s in (0.6, 0.7, 0.8)] for _ in range(2))
    alone = compare("mean", ours[1:2], others[1:2])
    together = compare("mean", ours, others)
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_seeds_alone_give_welchs_interval() -> None:
    """Runs in which every example counts the same: there is nothing to resample."""
    generator = np.random.default_rng(2)
    for sizes in ((3, 3), (3, 5), (2, 4)):
        ours, others = (generator.random(size) for size in sizes)
        runs = ([np.full((20, 1), value) for value in values] for values in (ours, others))
        expected = stats.ttest_ind(ours, others, equal_var=False).confidence_interval(0.95)
        found = compare("mean", *runs)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_other_examples_are_refused() -> None:
    with pytest.raises(InputError, match=r"found runs over \[2, 3\] examples, expected the same ones"):
        compare("mean", [np.ones((2, 1))], [np.ones((3, 1))])


def test_records_come_back_and_the_command_reads_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(1)
    runs = {"pretrained": [generator.random((9, 3)) for _ in range(2)], "random": [generator.random((9, 3))]}
    records = Records(metric="counted_f1", ids=[f"q{number}" for number in range(9)], runs=runs)
    records.write(tmp_path / "examples.parquet")
    found = Records.read(tmp_path / "examples.parquet")
    assert (found.metric, found.ids) == (records.metric, records.ids)
    assert all(np.array_equal(a, b) for name in runs for a, b in zip(runs[name], found.runs[name], strict=True))
    assert bootstrap.main([str(tmp_path / "examples.parquet")]) == 0
    expected = compare("counted_f1", runs["pretrained"], runs["random"])
    assert json.loads(capsys.readouterr().out)["random"] == pytest.approx(vars(expected))
    assert bootstrap.main([str(tmp_path / "examples.parquet"), "--system", "majority"]) == 2
    (tmp_path / "other").write_text("x")
    assert bootstrap.main([str(tmp_path / "other")]) == 2
    assert "not readable" in capsys.readouterr().err


def test_a_system_is_compared_with_the_same_one_of_another_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator, ids = np.random.default_rng(2), [f"q{number}" for number in range(9)]
    ours, theirs = ([generator.random((9, 1)) for _ in range(3)] for _ in range(2))
    files = [str(tmp_path / name) for name in ("ours", "theirs", "others")]
    for file, runs, keys in zip(files, (ours, theirs, theirs), (ids, ids, ids[::-1]), strict=True):
        Records(metric="mean", ids=keys, runs={"pretrained": runs, "random": [np.zeros((9, 1))]}).write(Path(file))
    assert bootstrap.main([files[0], "--against", files[1]]) == 0
    assert json.loads(capsys.readouterr().out) == {files[1]: pytest.approx(vars(compare("mean", ours, theirs)))}
    assert bootstrap.main([files[0], "--against", files[2]]) == 2
    assert "another metric or other examples" in capsys.readouterr().err


def test_examples_of_other_answers_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the ids are numbers of rows, those of two data sets are alike."""
    said = np.asarray([[1.0], [0.0], [1.0]])
    for name, gold in (("ours", [1, 0, 1]), ("theirs", [1, 1, 1])):
        run = np.concatenate([np.asarray(gold, np.float64)[:, None], said], axis=1)
        Records(metric="accuracy", ids=["0", "1", "2"], runs={"pretrained": [run]}).write(tmp_path / name)
    assert bootstrap.main([str(tmp_path / "ours"), "--against", str(tmp_path / "theirs")]) == 2
    assert "found other right answers for the same ids" in capsys.readouterr().err
