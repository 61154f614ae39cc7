"""Several runs: which is chosen and what is said of the others; finished ones are kept, and an interruption changes no
bit."""

import logging
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcore.errors import InputError
from bertcore.examples.schema import ExampleSet
from bertcore.finetune import question_answering, tagging, texts
from bertcore.finetune.config import RunConfig, TaskConfig
from bertcore.finetune.features import own_tokenizer
from bertcore.finetune.grid import Grid, Outcome, Run, best_setting, median_run, medians, spread
from bertcore.finetune.result import Trained
from bertcore.finetune.run import Finetuning
from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.model.huggingface import save_pretrained
from bertcore.training.checkpoint import Checkpoints

SCORES = st.lists(st.integers(0, 5).map(lambda n: n / 5), min_size=1, max_size=7)
TASK = TaskConfig(
    format="f", data="d", sequence_length=16, learning_rate=[1e-3, 1e-6], epochs=[1, 2], seed=[1, 2, 3], dropout=0.1
)
TEXTS = ["red cat", "green dog", "blue bird on the table", "a cat", "the river", "what is red", "cat dog", "city"]
ROWS = [{"text_a": text, "label": "yes" if "cat" in text else "no"} for text in 4 * TEXTS]


@pytest.fixture
def prepared(tokenizer: Tokenizer, make_examples: Callable[..., ExampleSet]) -> Finetuning:
    examples = make_examples("classification", ["no", "yes"], ["accuracy", "mcc"], train=ROWS, dev=ROWS, test=ROWS[:3])
    return Finetuning(TASK.settings()[0][0], examples, tokenizer, several_settings=True)


def bits(outcome: Outcome) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in outcome.result.model.parameters()])


def test_outcome_is_that_of_the_median_run_of_the_best_setting(
    prepared: Finetuning, config: BertConfig, tmp_path: Path
) -> None:
    settings = TASK.settings()
    outcome = Grid(prepared, config, "toy.random", settings, tmp_path, "key").run()
    assert [run.task for run in outcome.runs] == [task for setting in settings for task in setting]
    by_setting = [outcome.runs[start : start + 3] for start in range(0, 12, 3)]
    assert outcome.chosen == by_setting[best_setting(by_setting, "accuracy")]
    median = outcome.chosen[median_run(outcome.chosen, "accuracy")]
    assert outcome.result.metrics == median.metrics
    assert outcome.metrics["dev"]["accuracy"] == median.metrics["dev"]["accuracy"]
    alone = prepared.run(config, median.task)
    assert torch.equal(bits(outcome), torch.cat([each.detach().flatten() for each in alone.model.parameters()]))
    assert alone.predictions["test"] == outcome.result.predictions["test"]
    records = [Checkpoints(directory).latest() or {} for directory in tmp_path.iterdir()]
    assert len(records) == 12 and sum("model" in record for record in records) == 1


class CountingTokenizer:
    """A tokenizer that counts how often it is given each text."""

    def __init__(self, tokenizer: Tokenizer, seen: Counter[str]) -> None:
        self._tokenizer, self._seen = tokenizer, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def encode_batch(self, texts: Sequence[Any], **options: Any) -> Any:
        self._seen.update(map(str, texts))
        return self._tokenizer.encode_batch(texts, **options)

    def encode_batch_fast(self, texts: Sequence[Any], **options: Any) -> Any:
        self._seen.update(map(str, texts))
        return self._tokenizer.encode_batch_fast(texts, **options)


@pytest.mark.parametrize(
    "family", ["classification", "multi_label", "tagging", "question_answering", "multiple_choice"]
)
def test_each_text_is_tokenised_once_for_all_runs_and_all_evaluations(
    family: str,
    tokenizer: Tokenizer,
    make_examples: Callable[..., ExampleSet],
    config: BertConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: Counter[str] = Counter()
    for module in (texts, tagging, question_answering):
        monkeypatch.setattr(module, "own_tokenizer", lambda each: CountingTokenizer(own_tokenizer(each), seen))
    rows: dict[str, Callable[[str], dict[str, Any]]] = {
        "classification": lambda text: {"text_a": text, "label": "no" if text[-1] in "02468" else "yes"},
        "multi_label": lambda text: {"text_a": text, "labels": ["no"]},
        "tagging": lambda text: {"words": text.split(), "tags": ["no", "yes"]},
        "question_answering": lambda text: {
            "context": text,
            "question": f"what {text}",
            "answers": [{"text": text[:3], "answer_start": 0}],
        },
        "multiple_choice": lambda text: {"context": text, "choices": ["no", "yes"], "label": 1},
    }
    metric = {"multi_label": "micro_f1", "question_answering": "f1"}.get(family, "accuracy")
    labels = None if family in ("question_answering", "multiple_choice") else ["no", "yes"]
    train, dev = ([rows[family](f"{split} {number}") for number in range(12)] for split in ("cat", "dog"))
    examples = make_examples(family, labels, [metric], train=train, dev=dev)
    task = replace(TASK, early_choice=True, max_query_length=8)
    finetuning = Finetuning(task.settings()[0][0], examples, tokenizer, several_settings=True)
    for encoder in ("pretrained", "random"):
        outcome = Grid(finetuning, config, encoder, task.settings(), tmp_path, "key").run()
        assert len(outcome.runs) == 12
    assert set(seen.values()) == {1} and len(seen) == (48 if labels is None else 24)


def test_finished_runs_are_not_repeated_and_the_rest_has_the_same_bits(
    prepared: Finetuning, config: BertConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Grid(prepared, config, "toy", TASK.settings(), tmp_path / "whole", "key").run()
    train, trained = Finetuning.train, list[RunConfig]()

    def limited(self: Finetuning, encoder: BertConfig, task: RunConfig, **others: object) -> Trained:
        if len(trained) == 7:
            raise KeyboardInterrupt
        trained.append(task)
        return train(self, encoder, task, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(Finetuning, "train", limited)
    cut = Grid(prepared, config, "toy", TASK.settings(), tmp_path / "cut", "key")
    with pytest.raises(KeyboardInterrupt):
        cut.run()
    finished = trained.copy()
    trained.clear()
    resumed = cut.run()
    assert len(finished) == 7 and len(trained) == 5 and not set(map(str, trained)) & set(map(str, finished))
    assert resumed.runs == whole.runs and torch.equal(bits(resumed), bits(whole))
    assert resumed.result.predictions == whole.result.predictions and resumed.result.curves == whole.result.curves
    trained.clear()
    assert torch.equal(bits(cut.run()), bits(whole)) and not trained


class Curves:
    """Every point that was reported, by the name of its metric."""

    def __init__(self) -> None:
        self.points: dict[str, list[tuple[int, float]]] = defaultdict(list)

    def report(self, step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self.points[name].append((step, value))


def test_each_run_has_curves_of_its_own_also_when_it_has_finished_before(
    prepared: Finetuning, config: BertConfig, tmp_path: Path
) -> None:
    task = replace(TASK, epochs=2, seed=[1, 2], early_choice=True)
    live, later = Curves(), Curves()
    outcome = Grid(prepared, config, "toy", task.settings(), tmp_path, "key").run(live.report)
    Grid(prepared, config, "toy", task.settings(), tmp_path, "key").run(later.report)
    assert live.points == later.points
    titles = {f"learning_rate={rate} seed={seed}" for rate in (1e-3, 1e-6) for seed in (1, 2)}
    assert {name.partition("/")[0] for name in live.points} == titles
    for points in live.points.values():
        steps = [step for step, _ in points]
        assert steps == sorted(set(steps))
    saved = f"learning_rate={outcome.saved.task.learning_rate} seed={outcome.saved.task.seed}"
    expected = [(row["step"], row["train/loss"]) for row in outcome.result.curves if "train/loss" in row]
    assert live.points[f"{saved}/train/loss"] == expected
    assert [step for step, _ in live.points[f"{saved}/choice/accuracy"]] == [1, 2]


def test_curves_of_a_single_run_have_plain_names(prepared: Finetuning, config: BertConfig, tmp_path: Path) -> None:
    curves = Curves()
    Grid(prepared, config, "toy", [TASK.settings()[0][:1]], tmp_path, "key").run(curves.report)
    assert curves.points.keys() == {
        "train/loss", "train/gradient_norm", "train/learning_rate", "eval/accuracy", "eval/mcc"
    }  # fmt: skip


def test_advice_is_for_pretrained_encoders_alone(
    prepared: Finetuning, config: BertConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_pretrained(BertForPreTraining(config), tmp_path / "encoder")
    task = replace(TASK, warmup_ratio=0.0, epochs=1, seed=1)
    Grid(prepared, config, "toy.random", task.settings(), tmp_path / "runs", "key").run()
    assert "warmup_ratio" not in caplog.text
    Grid(prepared, tmp_path / "encoder", "toy.pretrained", task.settings(), tmp_path / "runs", "key").run()
    assert caplog.text.count("d: warmup_ratio 0: usual is 0.1") == 1


def test_other_inputs_and_other_settings_are_other_runs(
    prepared: Finetuning, config: BertConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = [TASK.settings()[0][:1]]
    with caplog.at_level(logging.INFO):
        for key, name in (("key", "toy"), ("other", "toy"), ("key", "random")):
            grid = Grid(prepared, config, name, settings, tmp_path, key)
            grid.tell_finished()
            grid.run()
        assert "finished before" not in caplog.text
        # A seed more, and the first one is kept.
        grid = Grid(prepared, config, "toy", [TASK.settings()[0][:2]], tmp_path, "key")
        grid.tell_finished()
        outcome = grid.run()
    assert caplog.text.count("finished before") == 1 and len(outcome.runs) == 2


def test_choosing_needs_labels_on_dev(
    tokenizer: Tokenizer, config: BertConfig, make_examples: Callable[..., ExampleSet], tmp_path: Path
) -> None:
    rows = [{"text_a": "cat", "label": "yes"}]
    examples = make_examples("classification", ["yes"], ["accuracy"], train=rows)
    with pytest.raises(InputError, match="task d: found no labelled dev example, expected some to score"):
        Grid(Finetuning(TASK.settings()[0][0], examples, tokenizer), config, "toy", TASK.settings(), tmp_path, "key")


UNITS = np.zeros((0, 1))


def run(score: float, on_dev: float | None = None, **fields: Any) -> Run:
    task = RunConfig(format="f", data="d", **fields)
    of_dev = score if on_dev is None else on_dev
    metrics = {"dev": {"f1": of_dev, "accuracy": 1 - of_dev}, "choice": {"f1": score}}
    return Run(
        task=task, metrics=metrics, best_epoch=None, tuned={}, dev_units=UNITS, seconds=0.0, examples_per_second=1.0
    )


@given(SCORES)
def test_median_run_is_a_run_whose_score_is_the_lower_median(scores: list[float]) -> None:
    runs = [run(score) for score in scores]
    place = median_run(runs, "f1")
    assert scores[place] == statistics.median_low(scores) and scores.index(scores[place]) == place


@given(st.lists(SCORES, min_size=1, max_size=5))
def test_setting_is_chosen_by_its_median_and_not_by_its_best_seed(scores: list[list[float]]) -> None:
    settings = [[run(score) for score in each] for each in scores]
    place = best_setting(settings, "f1")
    assert [statistics.median(each) for each in scores].index(max(map(statistics.median, scores))) == place


def test_what_is_chosen_of_guessing_models_scores_like_a_guess() -> None:
    # 277 examples, as RTE's dev set, and a grid of 9 settings with one seed: the best of them on dev has 54.4 % on
    # average, though none knows anything.
    generator = np.random.default_rng(1)
    chosen, best = [], []
    for _ in range(2000):
        settings = [[run(*generator.binomial((249, 277), 0.5) / (249, 277))] for _ in range(9)]
        chosen.append(settings[best_setting(settings, "f1")][0].metrics["dev"]["f1"])
        best.append(max(each.metrics["dev"]["f1"] for (each,) in settings))
    assert np.mean(chosen) == pytest.approx(0.5, abs=0.003) and np.mean(best) > 0.54


def test_part_of_train_is_kept_back_where_something_is_chosen(
    tokenizer: Tokenizer, make_examples: Callable[..., ExampleSet]
) -> None:
    rows = [{"text_a": f"cat {number // 2}", "text_b": f"{number}", "label": "x"} for number in range(200)]
    examples = make_examples("classification", ["x"], ["accuracy"], train=rows, dev=rows[:4])
    (open_run, *_), (plain_run, *_) = (replace(TASK, early_choice=early).settings()[0] for early in (True, False))
    for task, several in ((open_run, False), (plain_run, True)):
        splits = Finetuning(task, examples, tokenizer, several_settings=several).examples.splits
        assert splits["choice"].num_rows == 20 and splits["train"].num_rows == 180
        sides = [set(splits[split]["text_a"].to_pylist()) for split in ("train", "choice")]
        assert not sides[0] & sides[1]
        other_seed = Finetuning(replace(task, seed=9), examples, tokenizer, several_settings=several).examples.splits
        assert other_seed["choice"].equals(splits["choice"])
    for task in (plain_run, replace(plain_run, null_threshold="tuned")):  # what other families tune keeps nothing back
        assert set(Finetuning(task, examples, tokenizer).examples.splits) == {"train", "dev"}
    single = make_examples("classification", ["x"], ["accuracy"], train=rows[:2], dev=rows[:4])
    with pytest.raises(InputError, match="task d: found 1 different training texts, expected more"):
        Finetuning(open_run, single, tokenizer)


@given(SCORES)
def test_spread_holds_all_scores(scores: list[float]) -> None:
    found = spread([run(score) for score in scores])["dev"]["f1"]
    assert list(found.values()) == sorted(found.values())
    assert (found["min"], found["max"]) == (min(scores), max(scores))
    assert found["median"] == pytest.approx(statistics.median(scores))
    assert found["upper_quartile"] == pytest.approx(np.percentile(scores, 75))
    assert medians([run(score) for score in scores])["dev"]["f1"] == found["median"]


def test_row_says_what_was_chosen() -> None:
    chosen = replace(run(0.0, epochs=4), metrics={}, best_epoch=2, tuned={"null_threshold": -1.5})
    row = {"learning_rate": 3e-4, "epochs": 4, "seed": 1, "best_epoch": 2, "null_threshold": -1.5, "scores": {}}
    assert chosen.row() == row


def test_what_is_chosen_on_shares_neither_text_with_train(
    tokenizer: Tokenizer, make_examples: Callable[..., ExampleSet]
) -> None:
    """As in a task of couples, where what knows a text by heart would be wrong on what is kept back."""
    rows = [
        {"text_a": f"cat {place - place % 2 + a}", "text_b": f"dog {place - place % 2 + b}", "label": "x"}
        for place in range(0, 200, 2)
        for a in (0, 1)
        for b in (0, 1)
    ]
    examples = make_examples("classification", ["x"], ["accuracy"], train=rows, dev=rows[:4])
    task = replace(TASK, early_choice=True).settings()[0][0]
    splits = Finetuning(task, examples, tokenizer).examples.splits
    assert splits["choice"].num_rows == 40 and splits["train"].num_rows == 360
    for column in ("text_a", "text_b"):
        assert not set(splits["train"][column].to_pylist()) & set(splits["choice"][column].to_pylist())
