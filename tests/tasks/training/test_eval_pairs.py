"""Minimal pairs scored while a model is trained: what stands in the curves, and that the training is none other."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bertcore.minimal_pairs.pairs import Pair, read_pairs, score, subset
from bertcore.minimal_pairs.results import outcomes
from bertcore.minimal_pairs.scoring import load_language_model, sentence_scorer
from bertcore.tokens.tokenizer import load_tokenizer
from bertcore.training import eval_pairs
from bertcore.training.control import Control
from tasks.paths import EVAL_PAIRS, PRETRAINED
from tests.faults.trainings import Training, params, prepare
from tests.faults.variants import variant
from tests.samples import sentences

SHARE = 0.5


def training(root: Path, values: dict[str, Any], world: int = 1, **more: Any) -> Training:
    """A training that scores half of eight pairs: a sentence of the text, and its words the other way round."""
    values["pretrain"]["eval_pairs"] = {"pairs": "pairs.jsonl", "share": SHARE}
    place = prepare(root, values) / EVAL_PAIRS / "0"
    place.mkdir(parents=True)
    texts = dict.fromkeys(sentences(60, 1))
    rows = [{"good": text, "bad": " ".join(reversed(text.split())), "kind": "order"} for text in list(texts)[:8]]
    (place / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Training(root, world, **more)


def curve(of: Training) -> "pd.Series[float]":
    return pd.read_csv(of.root / "metrics/curves/pretrain_eval.csv", index_col="step")["eval/pairs_accuracy"]


def of_what_was_saved(of: Training) -> float:
    pairs = subset(read_pairs(of.root / EVAL_PAIRS), SHARE)
    assert len(pairs) == 4
    scorer = sentence_scorer(load_language_model(of.root / PRETRAINED), load_tokenizer(of.root / PRETRAINED))
    return float(outcomes(score(pairs, scorer)).mean())


@pytest.mark.parametrize(
    ("recipe", "more"),
    [(None, {}), (None, {"ema_decay": 0.9}), ("modern", {}), ("electra", {})],
    ids=["plain", "average", "modern", "electra"],
)
def test_the_curve_ends_at_the_score_of_what_is_saved(
    recipe: str | None, more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTCORE_PRECISION", "no")
    values = {"max_steps": 40, "eval_steps": 10, **more}
    found = training(tmp_path / "tree", params(**values) if recipe is None else variant(recipe, **values))
    assert found.finish() == 0, found.log.read_text()
    points = curve(found)
    assert list(points.index) == [10, 20, 30, 40] and points.iloc[-1] == of_what_was_saved(found)
    assert "masked copies" not in found.log.read_text(), "the training's progress alone is shown"
    assert found.curves()["eval/pairs_accuracy"] == list(points.items())
    assert json.loads((found.root / "metrics/pretrain.json").read_text())["pairs_accuracy"] == points.iloc[-1]


@pytest.mark.slow
def test_the_training_is_the_one_without_pairs(tmp_path: Path) -> None:
    """The same weights and losses, in two processes, too, of which one was killed."""
    values = params(max_steps=60, eval_steps=10)
    without = Training(prepare(tmp_path / "without", params(max_steps=60, eval_steps=10)), world=2)
    assert without.finish() == 0, without.log.read_text()
    found = training(tmp_path / "with", values, world=2)
    found.kill_at_first_checkpoint()
    assert found.finish() == 0 and found.resumed, found.log.read_text()
    assert len(curve(found)) == 6
    name = "models/pretrained/model.safetensors"
    assert found.result()[name] == without.result()[name]
    losses = [pd.read_csv(of.root / "metrics/curves/pretrain_eval.csv")["eval/loss"] for of in (found, without)]
    assert losses[0].equals(losses[1])


@pytest.mark.slow
def test_other_pairs_are_another_training(tmp_path: Path) -> None:
    found = training(tmp_path / "tree", params(max_steps=100))
    found.kill_at_first_checkpoint()
    (file,) = (found.root / EVAL_PAIRS).rglob("*.jsonl")
    file.write_text(file.read_text().replace("order", "another kind"))
    assert found.finish() == 0 and not found.resumed, found.log.read_text()


def test_a_sentence_that_is_too_long_is_said_before_the_first_step(tmp_path: Path) -> None:
    values = params(max_steps=4, model={"preset": "tiny", "max_position_embeddings": 48})
    found = training(tmp_path / "tree", values, world=2)
    row = {"good": "the file " * 30, "bad": "file the " * 30, "kind": "long"}
    (found.root / EVAL_PAIRS / "0" / "pairs.jsonl").write_text(json.dumps(row) + "\n")
    assert found.finish() == 2 and found.steps() == []
    said = found.log.read_text()
    assert "another process" not in said
    assert "error: minimal pairs: the sentence 'the file" in said and "at most the 48 positions of the model" in said


@pytest.mark.slow
def test_weights_that_are_divided_score_no_pairs(tmp_path: Path) -> None:
    values = params(max_steps=4, optimizer="adamw")
    found = training(tmp_path / "tree", values, world=2, divided=True)
    assert found.finish() == 2
    said = "pretrain.eval_pairs: found ['pairs.jsonl'] where the processes divide the weights, expected null; remove it"
    assert said in found.log.read_text()


def test_a_stop_is_heeded_between_two_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    class StopError(Exception):
        pass

    def stop() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise StopError

    calls: list[int] = []
    monkeypatch.setattr(eval_pairs, "_AT_ONCE", 2)
    monkeypatch.setattr(eval_pairs, "sentence_scorer", lambda *_, **__: None)
    monkeypatch.setattr(eval_pairs, "score", lambda *_: np.zeros((2, 2)))
    pairs = eval_pairs.EvalPairs([Pair("a b", "b a", "order", "order")] * 10, object())  # type: ignore[arg-type]
    with pytest.raises(StopError):
        pairs.evaluate(None, Control(1), stop)  # type: ignore[arg-type]
    assert len(calls) == 3
