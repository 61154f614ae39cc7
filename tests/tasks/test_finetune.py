"""The stage on a toy task: the grid's protocol in its metrics, the median run in its outputs, nothing trained twice."""

import json
import shutil
import statistics
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pytest
import torch
from huggingface_hub import ModelCard

from bertcore.commands.main import main as command
from bertcore.config import parse
from bertcore.evaluation.bootstrap import compare, scores
from bertcore.evaluation.per_example import Records
from bertcore.evaluation.tagging import evaluate_file
from bertcore.examples import formats, schema
from bertcore.examples.schema import TAGGING, ExampleSet
from bertcore.finetune.advice import advice
from bertcore.finetune.config import TaskConfig
from bertcore.finetune.run import Finetuning
from bertcore.model.bert import BertConfig, BertForPreTraining
from bertcore.model.config import ModelConfig
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.tokenizer import load_tokenizer
from bertcore.tokens.wordpiece import save_tokenizer
from tasks import finetune, params
from tasks.tracking import lineage
from tasks.training import checkpoints
from tests.samples import sentences, tokenizer

PARAMS = """
finetune:
  tasks:
    toy:
      format: conll
      data: elsewhere
      init_from: some/encoder
      sequence_length: 24
      learning_rate: [1.0e-3, 1.0e-5]
      epochs: 1
      seed: [1, 2, 3]
      crf: true
      early_choice: true
"""


ROOT = Path(__file__).parents[2]


class FakeRun:
    def __init__(self, parent: "FakeRun | None" = None) -> None:
        self.names: set[str] = set()
        self.parent = parent or FakeRun(self)

    def report(self, step: int, metrics: dict[str, float]) -> None:
        self.names |= metrics.keys()

    def log_metrics(self, metrics: dict[str, Any], step: int = 0) -> None:
        self.logged = metrics


def examples() -> ExampleSet:
    words = [text.rstrip(".").split() for text in sentences(60, seed=3)]
    words[45].append("x" * 60)  # more pieces than fit into a sequence
    words[46] = words[0]  # of dev, and of train
    rows = [
        {"id": str(n), "words": each, "tags": ["B-X" if word in ("file", "buffer") else "O" for word in each]}
        for n, each in enumerate(words)
    ]
    splits = {"train": rows[:40], "dev": rows[40:], "test": [{**row, "tags": None} for row in rows[:5]]}
    tables = {split: pa.Table.from_pylist(rows, TAGGING) for split, rows in splits.items()}
    return ExampleSet(family="tagging", labels=["B-X", "I-X", "O"], metrics=["f1", "precision"], splits=tables)


def _tags_of_the_saved_model_are_those_scored() -> None:
    sentences = [each for each in examples().splits["dev"]["words"].to_pylist()]
    Path("words.txt").write_text("".join(" ".join(words) + "\n" for words in sentences))
    arguments = ["--model", "models/finetuned/toy", "--file", "words.txt", "--words", "blanks", "--out", "tagged.jsonl"]
    assert command(["tag", *arguments]) == 0
    scored = [line.split() for line in Path("predictions/toy/dev.txt").read_text().splitlines()]
    rows = map(json.loads, Path("tagged.jsonl").read_text().splitlines())
    found = [[word["word"], word["tag"]] for row in rows for word in row["words"]]
    assert found == [[cells[0], cells[2]] for cells in scored if cells]


def _the_card_says_what_the_metrics_say(metrics: dict[str, Any]) -> None:
    card = ModelCard(Path("models/finetuned/toy/README.md").read_text())
    assert card.data.pipeline_tag == "token-classification" and card.data.license == "unknown"
    assert [(each.metric_type, each.metric_value) for each in card.data.eval_results] == [
        (name, metrics["pretrained"][name]) for name in ("f1", "precision")
    ]
    assert "| `data/inputs/encoders/toy` | `" in card.text and "the median of 3 seeds" in card.text
    assert "which the fine-tuning has not seen, but for 1 that it was trained on, too; headline: f1." in card.text
    assert "chosen on 4 examples kept back from train" in card.text and "Labels: B-X, I-X, O." in card.text
    assert "| the same architecture from random weights | " in card.text and "| word lookup | " in card.text


def _labels_are_scored_as_the_saved_model_predicts_them(metrics: dict[str, Any]) -> None:
    expected = evaluate_file(Path("predictions/toy/dev.txt"))["types"]
    assert metrics["by_label"] == expected and expected["X"]["gold"] > 0
    f1, recall = (f"{expected['X'][name]:.4f}" for name in ("f1", "recall"))
    card = Path("models/finetuned/toy/README.md").read_text()
    assert f"| X | {expected['X']['gold']} | " in card and f" | {recall} | {f1} |\n\nOf the saved run" in card


def _comparison_is_that_of_the_recorded_examples(metrics: dict[str, Any]) -> None:
    records = Records.read(Path("predictions/toy/examples.parquet"))
    assert {system: len(runs) for system, runs in records.runs.items()} == {
        "pretrained": 3, "random_initialisation": 3, "majority": 1, "word_lookup": 1
    }  # fmt: skip
    assert metrics["comparison"]["baseline"].pop("name") == "word_lookup"
    for name, other in (("random", "random_initialisation"), ("majority", "majority"), ("baseline", "word_lookup")):
        found = compare(records.metric, records.runs["pretrained"], records.runs[other])
        assert metrics["comparison"][name] == vars(found)
        means = [
            statistics.mean(float(scores(records.metric, each, np.ones((1, 20)))[0]) for each in records.runs[system])
            for system in ("pretrained", other)
        ]
        assert found.difference == pytest.approx(means[0] - means[1])
    assert metrics["word_lookup"]["f1"] == pytest.approx(means[1])


def test_what_is_kept_back_to_choose_a_setting_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune.lineage, "dvc_hash", str)
    monkeypatch.setattr(finetune.lineage, "code_of", str)
    monkeypatch.setattr(finetune, "describe", lambda accelerator: {})
    one, several = (finetune._key(MagicMock(), "toy", each, Path("encoder")) for each in (False, True))
    assert one != several


def test_stage_runs_the_protocol_and_leaves_the_median_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTCORE_PRECISION", "no")
    Path("params.yaml").write_text(PARAMS)
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    schema.write(examples(), Path("data/examples/toy"))
    Path("tokenizer").mkdir()
    save_tokenizer(tokenizer(), Path("tokenizer"), lowercase=True)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=120,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=24,
    )
    save_pretrained(BertForPreTraining(config), Path("data/inputs/encoders/toy"), Path("tokenizer"))
    Path("data/inputs/encoders/toy/tokenizer.json").unlink()  # as in older checkpoints
    run = FakeRun()
    finetune.run(run, "toy")  # type: ignore[arg-type]

    metrics = json.loads(Path("metrics/finetune/toy.json").read_text())
    _the_card_says_what_the_metrics_say(metrics)
    _labels_are_scored_as_the_saved_model_predicts_them(metrics)
    assert metrics["truncated"] == metrics["counts"]["dev"]["words_cut"] == 1
    protocol = metrics["protocol"]
    assert (protocol["started_from"], protocol["seeds"], protocol["settings"]) == ("some/encoder", 3, 2)
    assert protocol["saved_epoch"] == 1 and protocol["scored_on"] == "dev"
    assert protocol["chosen_on"] == "4 examples kept back from train" and metrics["train_examples"] == 36
    for system in ("pretrained", "random_initialisation"):
        rows = metrics["runs"][system]
        assert [(row["learning_rate"], row["seed"]) for row in rows] == [
            (r, s) for r in (1e-3, 1e-5) for s in (1, 2, 3)
        ]
        parts = (rows[:3], rows[3:])
        chosen = max(parts, key=lambda part: statistics.median(row["scores"]["choice"]["f1"] for row in part))
        best = [row["scores"]["dev"]["f1"] for row in chosen]
        assert metrics[system]["f1"] == pytest.approx(statistics.median(best))
        found = metrics["spread"][system]["dev"]["f1"]
        assert (found["min"], found["max"]) == (min(best), max(best))
    saved = next(
        row
        for row in metrics["runs"]["pretrained"]
        if (row["learning_rate"], row["seed"]) == (protocol["learning_rate"], protocol["saved_seed"])
    )
    assert saved["scores"]["dev"]["f1"] == metrics["pretrained"]["f1"]
    assert {path.name for path in Path("predictions/toy").iterdir()} == {"dev.txt", "test.txt", "examples.parquet"}
    _comparison_is_that_of_the_recorded_examples(metrics)
    written = json.loads(Path("models/finetuned/toy/config.json").read_text())
    assert written["architectures"] == ["BertForTokenClassification"]
    assert load_tokenizer(Path("models/finetuned/toy")).to_str() == tokenizer().to_str()
    assert len(written["crf"]["transitions"]) == 3
    assert caplog.text.count("models/finetuned/toy: transformers knows no chain over the tags (crf)") == 1
    titles = {f"learning_rate={rate} seed={seed}" for rate in (1e-3, 1e-5) for seed in (1, 2, 3)}
    assert {name.partition("/")[0] for name in run.names} == titles
    assert run.logged["pretrained"] == metrics["pretrained"] and "random_initialisation" in run.logged
    assert run.parent.logged == {"toy": {"f1": metrics["pretrained"]["f1"]}}
    _tags_of_the_saved_model_are_those_scored()
    _a_second_attempt_trains_nothing(monkeypatch)


TAUGHT = """
finetune:
  tasks:
    toy: {format: conll, data: some, init_from: x, sequence_length: 24, epochs: 9, batch_size: 4, learning_rate: 5.0e-3}
"""


def _inputs(layers: int = 1) -> None:
    """The examples, and an encoder of so many layers."""
    schema.write(examples(), Path("data/examples/toy"))
    Path("tokenizer").mkdir(exist_ok=True)
    save_tokenizer(tokenizer(), Path("tokenizer"), lowercase=True)
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"vocab_size": 120, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(num_hidden_layers=layers, max_position_embeddings=24, **sizes)
    save_pretrained(BertForPreTraining(config), Path("data/inputs/encoders/toy"), Path("tokenizer"))


def test_without_random_weights_there_is_no_gain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTCORE_PRECISION", "no")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    _inputs()
    found = []
    for text in (TAUGHT, TAUGHT.replace("5.0e-3}", "5.0e-3, random_initialisation: false}")):
        Path("params.yaml").write_text(text.replace("epochs: 9", "epochs: [1, 2]"))
        finetune.run(FakeRun(), "toy")  # type: ignore[arg-type]
        found.append(json.loads(Path("metrics/finetune/toy.json").read_text()))
    both, alone = found
    assert both["comparison"].pop("random") and both.pop("random_initialisation")
    assert both["protocol"].pop("epochs_of_random") in (1, 2)
    assert both["runs"].pop("random_initialisation") and both["spread"].pop("random_initialisation")
    assert alone == both


@pytest.mark.slow
def test_a_distilled_task_says_what_it_kept_of_its_teacher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTCORE_PRECISION", "no")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    for layers, text in ((2, TAUGHT), (1, TAUGHT.replace("5.0e-3}", "5.0e-3, distillation: {teacher: before}}"))):
        _inputs(layers)
        Path("params.yaml").write_text(text)
        finetune.run(FakeRun(), "toy")  # type: ignore[arg-type]
        if layers == 2:
            shutil.copytree("models/finetuned/toy", "data/inputs/teachers/toy")
            before = json.loads(Path("metrics/finetune/toy.json").read_text())
    metrics, timing = (json.loads(Path(f"metrics/{part}finetune/toy.json").read_text()) for part in ("", "timing/"))
    assert "distillation" not in before
    found = metrics["distillation"]
    assert found["teacher"] == pytest.approx(before["pretrained"])
    assert found["kept"] == pytest.approx(metrics["pretrained"]["f1"] / before["pretrained"]["f1"])
    assert found["parameters"] < found["teacher_parameters"]
    assert min(timing["examples_per_second"], *timing["distillation"].values()) > 0
    assert metrics["parameters"] == found["parameters"]
    assert metrics["protocol"]["changed"]["distillation"] == {"teacher": "before", "temperature": 2.0, "alpha": 0.5}


CHOSEN = """
finetune:
  tasks:
    toy:
      format: choices
      data: some
      init_from: x
      sequence_length: 16
      batch_size: 8
      epochs: [1, 2]
      seed: [1, 2]
      early_choice: true
"""


@pytest.mark.slow
def test_choices_from_a_file_to_a_model_that_chooses_as_it_was_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTCORE_PRECISION", "no")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    Path("params.yaml").write_text(CHOSEN)
    texts = sentences(80, seed=3)
    rows = [
        {"context": text, "choices": [texts[n - 1 - place] for place in range(2 + n % 3)], "label": n % 2}
        for n, text in enumerate(texts)
    ]
    for split, part in (("train", rows[:50]), ("dev", rows[50:])):
        Path("some").mkdir(exist_ok=True)
        Path(f"some/{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    schema.write(formats.read("choices", Path("some"), {}), Path("data/examples/toy"))
    Path("tokenizer").mkdir()
    save_tokenizer(tokenizer(), Path("tokenizer"), lowercase=True)
    sizes: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=120, num_hidden_layers=1, max_position_embeddings=24, **sizes)
    save_pretrained(BertForPreTraining(config), Path("data/inputs/encoders/toy"), Path("tokenizer"))
    finetune.run(FakeRun(), "toy")  # type: ignore[arg-type]

    metrics = json.loads(Path("metrics/finetune/toy.json").read_text())
    assert metrics["comparison"]["baseline"]["name"] == "word_overlap" and 0.0 <= metrics["majority"]["accuracy"] <= 1.0
    assert metrics["truncated"] == sum(each["choices_cut"] for each in metrics["counts"].values()) > 0
    assert metrics["counts"]["dev"]["sequences"] == sum(len(row["choices"]) for row in rows[50:])
    assert ModelCard(Path("models/finetuned/toy/README.md").read_text()).data.pipeline_tag == "multiple-choice"
    arguments = ["--model", "models/finetuned/toy", "--file", "some/dev.jsonl", "--out", "chosen.jsonl"]
    assert command(["choose", *arguments]) == 0
    scored = [line.split("\t")[1] for line in Path("predictions/toy/dev.tsv").read_text().splitlines()[1:]]
    assert [str(json.loads(line)["index"]) for line in Path("chosen.jsonl").read_text().splitlines()] == scored
    _a_second_attempt_trains_nothing(monkeypatch)


def _a_second_attempt_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    outs = [Path(out) for out in lineage.stage_paths("finetune", "toy")[1]]
    before = {out: lineage.dvc_hash(out) for out in outs}
    shutil.rmtree("models/finetuned/toy")  # as DVC does before it starts a stage again
    monkeypatch.setattr(Finetuning, "train", None)
    checkpoints.clear_finished()
    finetune.run(FakeRun(), "toy")  # type: ignore[arg-type]
    assert {out: lineage.dvc_hash(out) for out in outs} == before
    recorded = [{"path": str(out), "md5": value} for out, value in before.items()]
    Path("dvc.lock").write_text(json.dumps({"stages": {"finetune@toy": {"outs": recorded}}}))
    checkpoints.clear_finished()
    assert not list(Path(".checkpoints/finetune").iterdir())


@pytest.mark.parametrize("file", ["params.yaml", "benchmarks/tasks.yaml", "benchmarks/german.yaml"])
def test_tasks_of_the_project_need_no_advice(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copyfile(ROOT / file, tmp_path / "params.yaml")
    monkeypatch.chdir(tmp_path)
    values = params.read()
    encoder = parse(ModelConfig, values["pretrain"]["model"], "pretrain.model").build(30_522)
    for name in values["finetune"]["tasks"]:
        for run in (run for setting in params.task(name, TaskConfig).settings() for run in setting):
            assert advice(run, encoder, tokenizer(), 2_500, 2_500) == []
