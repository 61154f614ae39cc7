"""Variants side by side: what is asked, what is read, what is said, and what stands in MLflow."""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from matplotlib.figure import Figure
from mlflow.tracking import MlflowClient

from bertcore.errors import ConfigError
from bertcore.files import checksum
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.shards.store import Manifest, ShardEntry
from bertcore.tokens.kind import TOKENIZER_FILE
from bertcore.tokens.wordpiece import save_tokenizer
from flows import compare
from flows.locks import hold
from tasks.comparing import held_out, inference, page, tracking
from tasks.comparing.advice import advice
from tasks.comparing.config import CompareConfig
from tasks.comparing.variant import Speed, Variant, read_variant
from tasks.paths import TOKENIZER
from tasks.reporting.comparison import Comparison, Interval
from tasks.reporting.measurements import REQUIRED
from tests.import_closure import ROOT
from tests.samples import empty_store, token_shard, tokenizer, vocabulary

FILE = """
budget: 2m
base: {pretrain.batch_size: 8, mask.seed: 3}
variants:
  large: {recipe: modern, pretrain.model.preset: mini}
  small: {recipe: distilbert, teacher: large, mask.seed: 4}
"""


def written(directory: Path, text: str) -> Path:
    (directory / "compare.yaml").write_text(text)
    return directory / "compare.yaml"


def test_a_variants_params_are_the_committed_ones_with_its_values(tmp_path: Path) -> None:
    config = CompareConfig.read(written(tmp_path, FILE))
    committed = {"recipe": None, "mask": {"seed": 1}, "pretrain": {"max_steps": 9, "model": {"preset": "tiny"}}}
    assert config.seconds == 120
    assert config.params_of("large", committed, 70, tmp_path) == {
        "recipe": "modern",
        "mask": {"seed": 3},
        "pretrain": {"max_steps": 70, "eval_steps": 70, "batch_size": 8, "model": {"preset": "mini"}},
    }
    small = config.params_of("small", committed, 5, tmp_path)
    assert small["pretrain"]["objective_options"] == {"teacher": f"{tmp_path}/large/models/pretrained"}
    assert small["tokenizer"] == {"vocab_file": f"{tmp_path}/large/models/pretrained/vocab.txt"}
    assert small["mask"] == {"seed": 4} and committed["mask"] == {"seed": 1}
    by_bytes = config.params_of("small", {**committed, "tokenizer": {"kind": "byte_bpe"}}, 5, tmp_path)
    model = f"{tmp_path}/large/models/pretrained"
    assert by_bytes["tokenizer"] == {
        "kind": "byte_bpe",
        "vocab_file": f"{model}/vocab.json",
        "merges_file": f"{model}/merges.txt",
    }


def test_a_value_within_what_all_variants_have_stays_that_of_its_own_variant(tmp_path: Path) -> None:
    text = (
        "budget: 2m\nbase: {finetune.tasks: {a: {epochs: 3}}}\nvariants: {one: {finetune.tasks.a.epochs: 5}, two: {}}\n"
    )
    config = CompareConfig.read(written(tmp_path, text))
    found = [config.params_of(name, {"pretrain": {}}, 1, tmp_path)["finetune"]["tasks"] for name in ("one", "two")]
    assert found == [{"a": {"epochs": 5}}, {"a": {"epochs": 3}}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("budget: 2m", "the key 'variants' is missing"),
        ("budget: [", "compare.yaml: not valid YAML: while parsing a flow node"),
        (
            "budget: soon\nvariants: {a: {}}",
            "compare.yaml.budget: found 'soon', expected a time such as 30m.*; correct it",
        ),
        ("budget: 2m\nvariants: {a: {teacher: b}, b: {}}", "variants.a.teacher: found 'b', expected a variant that st"),
        ("budget: 2m\nvariants: {a/b: {}}", "found the name 'a/b', expected letters, digits"),
        ("budget: 2m\nvariants: {a: {pretrain.max_steps: 3}}", "a: found pretrain.max_steps, which the budget"),
        ("budget: 2m\nbase: {pretrain.eval_steps: 3}\nvariants: {a: {}}", "base: found pretrain.eval_steps, which the"),
        ("budget: 2m\nvariants: {}", "variants: found none, expected at least one"),
        ("budget: 2m\ncalibration_steps: 0\nvariants: {a: {}}", "calibration_steps: found 0"),
        ("budget: 2m\nbase: {teacher: a}\nvariants: {a: {}, b: {recipe: distilbert}}", "base: found teacher, which"),
    ],
)
def test_a_file_that_cannot_be_compared_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        CompareConfig.read(written(tmp_path, text))
    (tmp_path / "compare.yaml").write_bytes(b"# caf\xe9")
    with pytest.raises(ConfigError, match=r"compare.yaml: not UTF-8 .*; save it as UTF-8"):
        CompareConfig.read(tmp_path / "compare.yaml")
    with pytest.raises(ConfigError, match="none.yaml: not found"):
        CompareConfig.read(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("recipe.x: 1", r"variant a: params.yaml: recipe.x: found 'modern' \(str\) at recipe, expected a section"),
        ("pretrain: 5", r"variant a: params.yaml: pretrain.max_steps: found 5 \(int\) at pretrain, expected a section"),
    ],
)
def test_a_key_within_what_has_none_is_refused_with_its_variant(values: str, message: str, tmp_path: Path) -> None:
    config = CompareConfig.read(written(tmp_path, f"budget: 2m\nvariants: {{a: {{{values}}}}}"))
    with pytest.raises(ConfigError, match=message):
        config.params_of("a", {"recipe": "modern", "pretrain": {}}, 5, tmp_path)


def score(task: str, share: float, spread: tuple[float, float] | None = None, lead: float = 0.1) -> Comparison:
    return Comparison(
        task=task,
        metric="accuracy",
        majority=0.1,
        baseline_name="bag_of_words",
        baseline=share - lead,
        random_initialisation=None,
        pretrained=share,
        dev_examples=100,
        against_random=None,
        against_majority=Interval(0.01, 0.2),
        against_baseline=Interval(lead - 0.05, lead + 0.05),
        ranges={} if spread is None else {"pretrained": spread},
    )


def variant(name: str, mean: float, speed: float, **changes: Any) -> Variant:
    scores = {"topic": score("topic", mean, (mean - 0.01, mean + 0.02))}
    made = Variant(
        name=name,
        parameters=1000,
        steps=50,
        tokens=60_000,
        seconds=120.0,
        training_flops=3e9,
        mlm_loss=5.0,
        minimal_pairs=0.6,
        scores=scores,
        inference_tokens_per_second=speed,
        peak_bytes=2**30,
    )
    return replace(made, **changes)


def test_the_words_name_the_best_and_the_one_after_it() -> None:
    found = [variant("a", 0.7, 100.0), variant("b", 0.5, 300.0, parameters=500, minimal_pairs=None)]
    assert advice(found) == [
        "For fine-tuned tasks take `a`: a mean of 70.0, before `b` with a mean of 50.0.",
        "The simple baselines have a mean of 60.0; better than they and the majority, by more than "
        "chance, is `a` in 1 of 1 tasks, `b` in 1 of 1 tasks.",
        "For grammar without fine-tuning take `a`: 60.0 % of the minimal pairs.",
        "For the fastest inference take `b`: 300 tokens a second, before `a` with 100 tokens a second.",
        "For the smallest model take `b`: 500 parameters, before `a` with 1,000 parameters.",
        "Over its seeds a task's score varies by up to 3.0 points: less is no difference.",
    ]
    alone = [replace(each, scores={"topic": score("topic", 0.7)}, pairs_error=0.01) for each in found]
    alone[1] = replace(alone[1], minimal_pairs=0.59)
    said = advice(alone)
    assert said[2].endswith("before `b` with 59.0 % of the minimal pairs, which is as good.")
    assert said[-1] == "A task's score varies with its seed, and each has one: small differences say nothing."
    counted = [replace(each, minimal_pairs=0.56, pairs_baseline=0.55, pairs_error=0.006) for each in found]
    assert advice(counted)[4] == (
        "For grammar without fine-tuning take none: the best has 56.0 % of the minimal pairs, counts of words 55.0 %."
    )
    assert advice([replace(each, pairs_error=0.004) for each in counted])[2].startswith(
        "For grammar without fine-tuning take `a`: 56.0 % of the minimal pairs (counts of words: 55.0 %)"
    )


def test_what_no_network_is_needed_for_is_said() -> None:
    found = [variant("a", 0.7, 100.0), variant("b", 0.5, 300.0, scores={"topic": score("topic", 0.6, lead=0.01)})]
    assert advice(found)[1].endswith("is `a` in 1 of 1 tasks, the others in none.")
    assert advice(found[1:])[1] == (
        "The simple baselines have a mean of 59.0; better than they and the majority, by more than "
        "chance, is no variant in any task."
    )
    few = replace(score("topic", 0.7), dev_examples=20)
    behind = replace(score("topic", 0.7), against_majority=Interval(-0.01, 0.2))
    assert (few.leads, behind.leads, score("topic", 0.7).leads) == (False, False, True)
    unlike = [replace(each, compared_tasks=["topic"]) for each in found]
    unlike[1] = replace(unlike[1], scores={**unlike[1].scores, "other": score("other", 0.9)})
    assert "have a mean of 60.0;" in advice(unlike)[1], "of the task that both have, by the better baseline"
    table = page.table([replace(each, pairs_baseline=0.55) for each in found])
    assert [dict(zip(table.header, row, strict=True))["Minimal pairs"] for row in table.rows[2:]] == ["–", "55.0"]
    untrained = page.table([variant("a", 0.7, 1.0, scores={}, pairs_baseline=0.55)])
    assert [row[0] for row in untrained.rows] == ["a", "simple baseline"] and untrained.rows[0][-3] == "–"
    assert len(page.table([variant("a", 0.7, 1.0, scores={})]).rows) == 1


@pytest.mark.parametrize(
    "points",
    [
        {"a": (10.0, 70.0), "b": (10.5, 70.0), "c": (100.0, 80.0)},
        {"above": (10.0, 70.0), "below": (10.0, 69.0), "far away": (10.0, 10.0)},
        {"modernbert-deep": (1000.0, 70.0), "modernbert-wide": (1220.0, 70.1), "small": (9000.0, 30.0)},
        {"alone": (1.0, 1.0)},
    ],
)
def test_names_of_points_do_not_meet(points: dict[str, tuple[float, float]]) -> None:
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    for point in points.values():
        axes.scatter(*point)
    boxes = [label.get_window_extent() for label in page.label_points(figure, axes, points)]
    assert len(boxes) == len(points)
    assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))


def test_of_two_that_are_the_same_neither_is_the_one_to_take() -> None:
    said = advice([variant("a", 0.7, 100.0), variant("b", 0.7, 200.0)])
    assert [sentence.endswith("which is as good.") for sentence in said] == [True, False, True, False, True, False]


def test_means_are_over_the_tasks_that_all_variants_have_and_pairs_differ_by_both_errors() -> None:
    scores = {task: score(task, share) for task, share in (("stsb", 0.8), ("cola", 0.1))}
    one = variant("one", 0.7, 1.0, scores={"stsb": score("stsb", 0.7)}, compared_tasks=["stsb"])
    two = variant("two", 0.7, 2.0, scores=scores, compared_tasks=["stsb"])
    assert "For fine-tuned tasks take `two`: a mean of 80.0, before `one` with a mean of 70.0" in advice([one, two])[0]
    assert [replace(each, compared_tasks=[]).mean_score for each in (one, two)] == [None, None]
    for lead, as_good in ((0.011, True), (0.013, False)):
        pairs = {"pairs_baseline": 0.5, "pairs_error": 0.004}
        said = advice(
            [
                variant("a", 0.7, 1.0, minimal_pairs=0.6, **pairs),
                variant("b", 0.7, 1.0, minimal_pairs=0.6 + lead, **pairs),
            ]
        )
        assert ("which is as good" in said[2]) == as_good


@pytest.mark.usefixtures("no_accelerator")
def test_the_held_out_loss_is_of_the_same_sequences_whatever_a_model_was_trained_on(tmp_path: Path) -> None:
    shards, words = tmp_path / "shards", tmp_path / "tokenizer"
    shards.mkdir()
    words.mkdir()
    save_tokenizer(tokenizer(), words, lowercase=True)
    shard, path = token_shard(tmp_path, 150, 1), shards / "heldout-00000.arrow"
    shard.write(path)
    entry = ShardEntry(path.name, "heldout", *shard.counts, checksum(path))
    Manifest(vocabulary().size, "", [entry]).write(shards)
    for architecture in ("bert", "distilbert"):
        torch.manual_seed(1)
        model = build_pretraining(ModelConfig(architecture=architecture, preset="tiny").build(vocabulary().size))
        save_pretrained(model, tmp_path / architecture)
        found = held_out.measure(tmp_path / architecture, shards, words)
        assert found["mlm_loss"] == pytest.approx(math.log(vocabulary().size), abs=0.2), "no better than guessing"


def test_a_loss_of_other_pieces_is_marked() -> None:
    found = [variant(name, 0.7, 100.0, vocabulary=pieces) for name, pieces in (("a", "x"), ("b", "y"), ("c", "x"))]
    rows = page.table([*found, replace(found[1], name="d", mlm_loss=None)]).rows
    column = page.table(found).header.index("Held-out loss")
    assert [row[column] for row in rows[:4]] == ["5.00", "5.00 (other pieces)", "5.00", "–"]


def test_what_a_student_keeps_of_its_teacher_is_said() -> None:
    found = [variant("a", 0.7, 100.0), variant("b", 0.5, 300.0, parameters=650, teacher="a")]
    assert (
        "`b` keeps 71.4 % of its teacher's mean score, has 65.0 % of the parameters of `a`, and reads 3.0 times as "
        "many tokens a second."
    ) in advice(found)
    unscored = [replace(each, scores={}) for each in found]
    assert any(said.startswith("`b` has 65.0 % of the parameters of `a`") for said in advice(unscored))
    plateau = [replace(each, scores={"topic": score("topic", 0.5, lead=0.0)}) for each in found]
    said = advice(plateau)
    none = "(better than the simple baselines in no task)"
    assert f"For the smallest model take `b`: 650 parameters {none}, before `a` with 1,000 parameters {none}." in said
    assert f"take `b`: 300 tokens a second {none}, before `a`" in "".join(said)
    assert f"keeps 100.0 % of its teacher's mean score {none}, has" in "".join(said)
    one = advice([plateau[0], replace(found[1], teacher=None)])
    assert "For the smallest model take `b`: 650 parameters." in one, "not one that has learned nothing"
    elsewhere = [found[0], replace(found[1], teacher="c")]
    assert not any("teacher" in said for said in advice(elsewhere))


def test_the_page_has_a_row_for_each_variant_and_a_picture(tmp_path: Path) -> None:
    found = [variant("a", 0.7, 100.0), variant("b", 0.5, 300.0, scores={}, mlm_loss=None, teacher="a")]
    text = page.write(found, "2m", tmp_path)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    header, first, second, majority, simple = rows
    assert dict(zip(header, first, strict=True))["Leads in"] == "1 of 1"
    assert dict(zip(header, majority, strict=True))["topic (accuracy)"] == "10.0"
    assert [dict(zip(header, simple, strict=True))[name] for name in ("Variant", "Mean", "MiB")] == [
        "simple baseline",
        "60.0",
        "–",
    ]
    assert dict(zip(header, first, strict=True))["topic (accuracy)"] == "70.0 (69.0–72.0)"
    of_second = dict(zip(header, second, strict=True))
    assert of_second["Variant"] == "b, from a" and of_second["Held-out loss"] == of_second["topic (accuracy)"] == "–"
    assert of_second["Tokens/s"] == "500" and of_second["MiB"] == "1,024"
    assert (tmp_path / "compare.png").stat().st_size > 1000 and "<svg" not in text
    assert "data:image" in (tmp_path / "compare.html").read_text()


def test_mlflow_has_a_run_for_each_variant_below_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(empty_store(), tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    (tmp_path / "page.html").write_text("page")
    values = {"a": {"pretrain": {"max_steps": 7}}, "b": {"pretrain": {f"k{n}": n for n in range(150)}}}
    variants = [variant("a", 0.7, 1.0), variant("b", 0.5, 2.0)]
    parent = tracking.log(variants, values, tmp_path / "page.html")
    client = MlflowClient()
    experiment = client.get_run(parent).info.experiment_id
    children = client.search_runs(
        [experiment], f"tags.mlflow.parentRunId = '{parent}'", order_by=["tags.mlflow.runName"]
    )
    assert [child.info.run_name for child in children] == ["a", "b"]
    assert children[0].data.metrics["mean_score"] == 0.7 and children[0].data.metrics["tokens_per_second"] == 500.0
    of_task = {name: value for name, value in children[0].data.metrics.items() if name.startswith("topic/")}
    assert of_task == {
        **{"topic/accuracy": 0.7, "topic/accuracy_low": 0.69, "topic/accuracy_high": 0.72},
        "topic/simple_baseline": 0.6,
    }
    assert children[0].data.metrics["tasks_led"] == 1
    assert children[0].data.params == {"pretrain.max_steps": "7"} and len(children[1].data.params) == 150
    assert [each.path for each in client.list_artifacts(parent)] == ["page.html"]
    assert tracking.log(variants, values, tmp_path / "page.html") == parent, "a finished comparison is not logged twice"
    client.set_terminated(parent, "FAILED")
    assert tracking.log(variants, values, tmp_path / "page.html") != parent
    assert tracking.log([variant("a", 0.7, 1.0), variant("b", 0.6, 2.0)], values, tmp_path / "page.html") != parent


def test_inference_is_measured_on_any_saved_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "SEQUENCES", 2)
    torch.manual_seed(1)
    model = build_pretraining(ModelConfig(architecture="distilbert", preset="tiny").build(300))
    save_pretrained(model, tmp_path)
    found = inference.measure(tmp_path)
    assert found["parameters"] == sum(each.numel() for each in model.base_model.parameters())
    assert (
        found["predicts_tokens"] == 1.0
        and found["tokens_per_second"] > 0
        and found["peak_bytes"] > 4 * found["parameters"]
    )


class Pipeline:
    """In place of clones and `dvc repro`: leaves the metrics of 10 ms a step, and can be killed."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, int, tuple[str, ...]]] = []
        self.killed_at = ""

    def __call__(self, tree: Path, values: dict[str, Any], stages: list[str]) -> None:
        steps = values["pretrain"]["max_steps"]
        if tree.name == self.killed_at and not stages:
            raise KeyboardInterrupt
        self.ran.append((tree.name, steps, tuple(stages)))
        accuracies = {"trigram": 0.5, "bigram": 0.5, "unigram": 0.55, "length": 0.5, "model": 0.6}
        scored = {
            "metrics": ["accuracy"],
            "pretrained": {"accuracy": 0.5},
            "majority": {"accuracy": 0.1},
            "bag_of_words": {"accuracy": 0.3},
            "comparison": {"majority": {"low": 0.3, "high": 0.5}, "baseline": {"low": 0.1, "high": 0.3}},
            "spread": {"pretrained": {"dev": {"accuracy": {"min": 0.4, "max": 0.6}}}},
            "dev_examples": 100,
        }
        for name, content in {
            **dict.fromkeys(REQUIRED, {}),
            "tokenizer": {"vocab_size": 8192},
            "pretrain": {"tokens": 100 * steps, "steps": steps, "mlm_loss": 5.0},
            "timing/pretrain": {"tokens_per_second": 10_000.0},
            "minimal_pairs": {
                "accuracy": 0.6,
                "systems": {name: {"accuracy": share} for name, share in accuracies.items()},
                "gain": {
                    "bigram": {"accuracy": 0.1, "standard_error": 0.01},
                    "unigram": {"accuracy": 0.05, "standard_error": 0.02},
                },
            },
            **{f"finetune/{task}": scored for task in values["finetune"]["tasks"]},
        }.items():
            path = tree / "metrics" / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content))
        (tree / TOKENIZER).mkdir(parents=True, exist_ok=True)
        (tree / TOKENIZER / TOKENIZER_FILE).write_text("{}")


def test_the_budget_pays_for_steps_and_a_killed_comparison_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = Pipeline()
    monkeypatch.chdir(ROOT)
    shutil.copy(empty_store(), tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setattr(compare, "clone", lambda tree: tree.mkdir(parents=True, exist_ok=True))
    monkeypatch.setattr(compare, "_repro", pipeline)
    measured = {"predicts_tokens": 1.0, "parameters": 10, "tokens_per_second": 5.0, "peak_bytes": 2.0**20}
    monkeypatch.setattr(compare, "_said_by", lambda module, tree: measured | {"mlm_loss": 5.5})
    text = "budget: 30s\nvariants: {one: {recipe: bert-2018, pretrain.warmup_steps: null, mask.second_phase: null, "
    file = written(tmp_path, text + "pretrain.second_phase: null}, two: {recipe: modern}}")
    pipeline.killed_at = "two"
    with pytest.raises(KeyboardInterrupt):
        compare.compare(file, tmp_path / "out")
    assert pipeline.ran == [("one", 60, ("pretrain",)), ("two", 60, ("pretrain",)), ("one", 3000, ())]
    pipeline.killed_at, pipeline.ran = "", []
    compare.compare(file, tmp_path / "out", only_measure=True)
    assert pipeline.ran == [] and "two: 10.0 ms a step, 3,000 steps in 30s" in capsys.readouterr().out
    compare.compare(file, tmp_path / "out")
    assert pipeline.ran == [("one", 3000, ()), ("two", 3000, ())]
    assert "For fine-tuned tasks take `one`" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").glob("compare.*")} == {"compare.md", "compare.html", "compare.png"}
    (tmp_path / "out/one/metrics/timing/pretrain.json").write_text('{"tokens_per_second": 5000.0}')
    speed = Speed(params="", seconds_per_step=0.01, inference=measured)
    stale = tmp_path / "out/one/metrics/finetune/removed.json"
    stale.write_text((stale.parent / "topic.json").read_text())
    found = read_variant("one", tmp_path / "out" / "one", ["topic"], speed, 1.0, mlm_loss=5.0)
    assert list(found.scores) == ["topic"]
    assert (found.steps, found.tokens, found.seconds) == (3000, 300_000, 60.0), "half as fast as planned"
    assert (found.mlm_loss, found.minimal_pairs) == (5.0, 0.6)
    assert (found.pairs_baseline, found.pairs_error) == (0.55, 0.02) and found.knows_grammar
    discriminator = read_variant("one", tmp_path / "out" / "one", [], speed, 1.0, mlm_loss=None)
    assert discriminator.mlm_loss is None and discriminator.minimal_pairs == 0.6
    pipeline.ran = []
    longer = written(tmp_path, text.replace("30s", "1m") + "pretrain.second_phase: null}, two: {recipe: modern}}")
    compare.compare(longer, tmp_path / "out", only_measure=True)
    assert pipeline.ran == [] and "two: 10.0 ms a step, 6,000 steps in 1m" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"budget: found 0\.5s, expected at least the 1 s that the first 60"):
        compare.compare(written(tmp_path, longer.read_text().replace("1m", "0.5s")), tmp_path / "out")


def test_a_variant_that_contradicts_itself_is_named_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(compare, "clone", None)
    file = written(tmp_path, "budget: 30s\nvariants: {good: {}, bad: {pretrain.objective: mlm_nsp}}")
    with pytest.raises(ConfigError, match=r"variant bad: params.yaml: "):
        compare.compare(file, tmp_path / "out")
    file = written(tmp_path, "budget: 30s\nvariants: {bad: {corpus.sources: [pydoc, texts/none.txt]}}")
    with pytest.raises(ConfigError, match=r"variant bad: texts/none.txt: no such file"):
        compare.compare(file, tmp_path / "out")


def test_two_comparisons_do_not_meet_in_one_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "clone", None)
    file = written(tmp_path, "budget: 30s\nvariants: {a: {}}")
    said = r"out: found another comparison at work \(process 7\), expected none; wait for it or stop it$"
    with hold(tmp_path / "out" / ".lock", "process 7"), pytest.raises(ConfigError, match=said):
        compare.compare(file, tmp_path / "out")


def test_the_committed_file_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = CompareConfig.read(Path("compare.yaml"))
    committed = compare._YAML.load(Path("params.yaml").read_text())
    for name, values in config.variants.items():
        if "teacher" not in values:
            compare._check(config.params_of(name, committed, 500, Path("/nowhere")), name)


def test_a_comparison_finds_the_trees_data_and_when_it_is_killed_nothing_runs_on(tmp_path: Path) -> None:
    stage = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    (tmp_path / "stage.py").write_text(stage)
    (tmp_path / "dvc.yaml").write_text("stages: {slow: {cmd: python stage.py}}\n")
    subprocess.run([sys.executable, "-m", "dvc", "init", "--quiet", "--no-scm"], cwd=tmp_path, check=True)
    values = {"corpus": {"sources": ["pydoc"]}, "embed": {"pairs": "README.md"}}
    linked = tmp_path / "data" / "inputs" / "embed"
    linked.mkdir(parents=True)
    (linked / "another.md").symlink_to(ROOT / "CONTRIBUTING.md")
    begin = (
        f"from pathlib import Path; from flows import compare; compare._repro(Path({str(tmp_path)!r}), {values}, [])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    comparison = subprocess.Popen([sys.executable, "-c", begin], cwd=ROOT, env=environment)
    pid = tmp_path / "pid"
    while not (pid.is_file() and pid.read_text()):
        assert comparison.poll() is None
        time.sleep(0.1)
    assert (tmp_path / "README.md").resolve() == ROOT / "README.md"
    assert not linked.exists(), "to be linked anew, as they led to other files"
    running = psutil.Process(int(pid.read_text()))
    comparison.kill()
    comparison.wait()
    running.wait(60)


def test_a_project_in_a_folder_of_a_repository_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    monkeypatch.setattr(compare, "ROOT", tmp_path / "project")
    with pytest.raises(ConfigError, match="found a project that is the folder project/ of a repository, expected"):
        compare.clone(tmp_path / "variant")
    assert not (tmp_path / "variant").exists()
