"""Finished models in MLflow: logged with what was measured of them, loaded and served from there, shared with DVC."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pyarrow as pa
import pytest

from bertcore.apply.choose import Asked
from bertcore.apply.embed import Embedder
from bertcore.apply.uses import Description
from bertcore.embedding import directory
from bertcore.embedding.config import EmbedConfig
from bertcore.examples import schema
from bertcore.instances.config import MaskConfig
from bertcore.model.config import ARCHITECTURES, architecture_of, build_discriminator
from bertcore.model.electra import ElectraConfig
from bertcore.model.encoder import Kind
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained
from bertcore.serving.models import load
from bertcore.training.config import PretrainConfig
from tasks import stage
from tasks.paths import CHECKPOINTS
from tasks.tracking import lineage, models, shared_weights, signatures, store
from tasks.tracking.finished import place_of
from tasks.tracking.runs import StageRun
from tests.bertcore.serving.conftest import config, tokenizer
from tests.bertcore.serving.conftest import models as served_models
from tests.import_closure import import_closure, imported_modules
from tests.samples import empty_store, free_port

__all__ = ["config", "served_models", "tokenizer"]

PIPELINE = """
stages:
  pretrain: {cmd: p, deps: [data/shards], outs: [models/pretrained, metrics/pretrain.json]}
  finetune:
    matrix: {task: "${finetune.tasks}"}
    cmd: python -m tasks.finetune ${key}
    deps: ["data/examples/${key}", models/pretrained]
    outs: ["models/finetuned/${key}", "metrics/finetune/${key}.json"]
  embed: {cmd: e, deps: [data/corpus, models/pretrained], outs: [models/embedding, metrics/embed.json]}
"""
OF_PRETRAIN = {"mask": MaskConfig, "pretrain": PretrainConfig}
SHARDS = [{"name": f"{split}-0.arrow", "split": split, "sha256": split} for split in ("train", "heldout")]
Log = Callable[..., None]


@pytest.fixture
def project(served_models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A tree with all that stages leave, and the models that they would save."""
    for name, value in (("BERTCORE_PIPELINE_RUN", "run-1"), ("BERTCORE_PRECISION", "no")):
        monkeypatch.setenv(name, value)
    for name in ("MLFLOW_TRACKING_URI", models.SWITCH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    shutil.copy(empty_store(), tmp_path)
    write("dvc.yaml", PIPELINE)
    write(
        "params.yaml",
        "mask: {seed: 1}\npretrain: {objective: mlm_nsp}\n"
        "finetune: {tasks: {colours: {}, tags: {}, answers: {}, choices: {}}}\n",
    )
    write("data/shards/manifest.json", json.dumps({"tokenizer_sha256": "t", "shards": SHARDS}))
    for task in ("colours", "tags", "answers", "choices"):
        rows = [{"id": "1", "text_a": "a red cat", "text_b": None, "label": "red"}]
        table = pa.Table.from_pylist(rows, schema.CLASSIFICATION)
        schema.write(
            schema.ExampleSet(family="classification", labels=["red"], metrics=["accuracy"], splits={"dev": table}),
            Path("data/examples", task),
        )
    return served_models


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def finetuned(source: Path, score: float) -> Callable[[StageRun], None]:
    """What the stage `finetune` leaves, with the model of `source`."""

    def body(_: StageRun) -> None:
        shutil.copytree(source, Path("models/finetuned", source.name), dirs_exist_ok=True)
        metrics = {"metrics": ["accuracy", "f1"], "pretrained": {"accuracy": score, "f1": 0.1}}
        write(f"metrics/finetune/{source.name}.json", json.dumps(metrics))

    return body


def pretrained(source: Path, loss: float) -> Callable[[StageRun], None]:
    def body(_: StageRun) -> None:
        shutil.copytree(source, "models/pretrained", dirs_exist_ok=True)
        metrics = {"mlm_loss": loss, "mlm_accuracy": 0.3, "steps": 7, "heldout_sequences": 5}
        write("metrics/pretrain.json", json.dumps(metrics))

    return body


def registered(name: str, alias: str = "champion") -> Any:
    return store.open_experiment()[0].get_model_version_by_alias(f"bert-pretraining.{name}", alias)


def loaded(name: str) -> Any:
    """The champion as anybody loads it."""
    with store.as_default(), warnings.catch_warnings(action="ignore"):
        return mlflow.pyfunc.load_model(f"models:/bert-pretraining.{name}@champion")


QUESTIONS: dict[str, tuple[str, dict[str, list[Any]], list[Any], list[int]]] = {
    "colours": ("classify", {"text": ["the red cat", "a dog"]}, ["the red cat", "a dog"], []),
    "tags": ("tag", {"text": ["the red cat"]}, ["the red cat"], []),
    "choices": (
        "choose",
        {
            "context": ["the red cat", "a dog"],
            "choices": [["red", "blue"], ["a", "the", "what"]],
            "question": ["is", None],
        },
        [Asked("the red cat", ["red", "blue"], "is"), Asked("a dog", ["a", "the", "what"])],
        [],
    ),
    "answers": ("answer", {"question": ["where"], "context": ["the cat is red"]}, [("where", "the cat is red")], [2]),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_fine_tuned_model_says_in_mlflow_what_bertcore_says(project: dict[str, Path], name: str) -> None:
    assert stage.main("finetune", finetuned(project[name], 0.5), name) == 0
    use, columns, items, more = QUESTIONS[name]
    model = loaded(name)
    found = model.predict(pd.DataFrame(columns), {"top": more[0]} if more else None)
    assert found == load(project[name]).works[use](items, *more)
    assert model.predict(model.input_example), "the example is a question that it takes"
    assert not [path for path in Path("mlartifacts").rglob("*") if path.suffix in (".pkl", ".pickle", ".pt", ".bin")]


def test_pairs_and_single_texts_may_be_mixed(project: dict[str, Path]) -> None:
    assert stage.main("finetune", finetuned(project["colours"], 0.5), "colours") == 0
    model = loaded("colours")
    with pytest.raises(Exception, match="text: row 1: found nothing, expected a value; add it, or leave out the row"):
        model.predict(pd.DataFrame({"text": ["a dog", None]}))
    found = model.predict(pd.DataFrame({"text": ["a dog", "red"], "pair": ["a cat", None]}))
    assert found == load(project["colours"]).works["classify"]([("a dog", "a cat"), "red"])


def test_encoders_are_compared_whatever_the_masks_of_their_trainings(project: dict[str, Path]) -> None:
    """Held-out masks are the same for all; other sequences are another question, and written defaults none."""
    others = Path("params.yaml").read_text().partition("\n")[2]
    for loss, mask, champion in (
        (4.5, "{seed: 1}", 1),
        (4.0, "{seed: 1, masked_lm_prob: 0.3, masking: span, duplicates: 0, masked_lm_prob_start: 0.4}", 2),
        (3.5, "{seed: 1, packing: doc_sentences}", 2),
        (3.0, "{sequence_length: 128, packing: pairs, short_seq_prob: 0.1}", 4),
    ):
        write("params.yaml", f"mask: {mask}\n{others}")
        assert stage.main("pretrain", pretrained(project["encoder"], loss), configs=OF_PRETRAIN) == 0
        assert int(registered("pretrained").version) == champion, mask


def test_a_pre_trained_model_is_logged_with_its_run_and_what_it_was_scored_on(project: dict[str, Path]) -> None:
    assert stage.main("pretrain", pretrained(project["encoder"], 4.5), configs=OF_PRETRAIN) == 0
    client, experiment = store.open_experiment()
    (model,) = client.search_logged_models([experiment])
    assert (model.name, model.model_type, str(model.status)) == ("pretrained", "fill-mask", "READY")
    assert model.tags["dvc.out.models/pretrained"] == lineage.dvc_hash(Path("models/pretrained"))
    metrics = {metric.key: metric for metric in model.metrics}
    assert metrics["heldout/mlm_loss"].value == 4.5 and metrics["heldout/mlm_loss"].step == 7
    runs = client.search_runs([experiment])
    assert {run.outputs.model_outputs[0].model_id for run in runs} == {model.model_id}, "the stage's run and its parent"
    (run,) = [run for run in runs if run.info.run_name == "pretrain"]
    scored_on = {each.dataset.name: each.dataset.digest for each in run.inputs.dataset_inputs}["data/shards (held out)"]
    assert (metrics["heldout/mlm_loss"].dataset_name, metrics["heldout/mlm_loss"].dataset_digest) == (
        "data/shards (held out)",
        scored_on,
    )
    assert registered("pretrained").run_id == run.info.run_id
    assert json.loads(model.tags["mlflow.modelVersions"]) == [{"name": "bert-pretraining.pretrained", "version": 1}]
    found = loaded("pretrained").predict(pd.DataFrame({"text": ["the [MASK] cat"]}), {"top": 3})
    assert found == load(project["encoder"]).works["fill-mask"](["the [MASK] cat"], 3)

    Path("dvc.lock").write_text(
        "stages: {pretrain: {outs: [{path: models/pretrained, md5: " + model.tags["dvc.out.models/pretrained"] + "}]}}"
    )
    assert stage.main("finetune", finetuned(project["colours"], 0.5), "colours") == 0
    (tuned,) = client.search_runs([experiment], "tags.task = 'colours'")
    (read,) = client.get_run(tuned.info.run_id).inputs.model_inputs
    assert read.model_id == model.model_id and tuned.data.tags["from.pretrain"] == run.info.run_id


def test_a_discriminator_has_no_words_and_is_compared_by_its_own_loss(project: dict[str, Path]) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = ElectraConfig(vocab_size=load_config(project["encoder"]).vocab_size, embedding_size=32, **sizes)
    save_pretrained(build_discriminator(config), Path("electra"), project["encoder"])
    told, losses = "objective: replaced_tokens, model: {architecture: electra}", iter((9.5, 9.0, 8.5))
    write("params.yaml", f"pretrain: {{{told}}}\n")

    def body(_: StageRun) -> None:
        shutil.copytree("electra", "models/pretrained", dirs_exist_ok=True)
        write("metrics/pretrain.json", json.dumps({"loss": next(losses), "mlm_loss": 4.5, "steps": 7}))

    assert stage.main("pretrain", body, configs=OF_PRETRAIN) == 0
    version = registered("pretrained")
    assert (version.tags["score.metric"], version.tags["score"]) == ("loss", "9.5")
    (row,) = loaded("pretrained").predict(pd.DataFrame({"text": ["the red cat"]}))
    assert row == {"vector": load(Path("electra")).works["embed"](["the red cat"])[0]} and len(row["vector"]) == 32
    for options, champion in (("{generator_width: null, detection_weight: 50}", 2), ("{detection_weight: 10}", 2)):
        write("params.yaml", f"pretrain: {{{told}, objective_options: {options}}}\n")
        assert stage.main("pretrain", body, configs=OF_PRETRAIN) == 0
        assert int(registered("pretrained").version) == champion, options


def test_sentence_vectors_are_logged_with_what_they_found(project: dict[str, Path]) -> None:
    config = load_config(project["encoder"])
    encoder = architecture_of(config).encoder(config)
    load_pretrained(encoder, project["encoder"])
    write("data/corpus/heldout-00000.parquet", "text")
    write("data/inputs/embed/.source.json", '{"uri": null}')  # a note, where the pairs are the corpus's own
    systems = {"model": {"ndcg_at_10": 0.4, "recall_at_1": 0.2}, "bm25": {"ndcg_at_10": 0.5, "recall_at_1": 0.3}}

    def body(_: StageRun) -> None:
        directory.save(encoder, Path("models/embedding"), project["encoder"], 16, "")
        write("metrics/embed.json", json.dumps({"steps": 7, "systems": systems}))

    write("params.yaml", "embed: {pairs: neighbours}\n")
    assert stage.main("embed", body, configs={"embed": EmbedConfig}) == 0
    client, experiment = store.open_experiment()
    (model,) = client.search_logged_models([experiment])
    assert (model.name, model.model_type, str(model.status)) == ("embedding", "embed", "READY")
    metrics = {metric.key: (metric.value, metric.dataset_name) for metric in model.metrics}
    assert metrics["bm25/ndcg_at_10"] == (0.5, "data/corpus (held-out pairs)") and len(metrics) == 4
    texts = ["the red cat", "a dog"]
    found = [row["vector"] for row in loaded("embedding").predict(pd.DataFrame({"text": texts}))]
    assert found == Embedder.load(Path("models/embedding")).unit(texts).tolist()
    systems["model"]["ndcg_at_10"] = 0.6
    write("params.yaml", "embed: {pairs: neighbours, heldout_pairs: 1000, heldout_fraction: 0.1}\n")
    assert stage.main("embed", body, configs={"embed": EmbedConfig}) == 0
    assert int(registered("embedding").version) == 2, "those are the defaults"


def weights_of(name: str) -> list[Path]:
    return sorted(Path("mlartifacts").glob(f"models/*/artifacts/data/{name}/model.safetensors"))


def test_weights_are_not_kept_twice(project: dict[str, Path]) -> None:
    saved = Path("models/finetuned/colours/model.safetensors")
    assert stage.main("finetune", finetuned(project["colours"], 0.5), "colours") == 0
    (logged,) = weights_of("colours")
    assert logged.samefile(saved)
    # As DVC does where its cache holds the same bytes already: the output becomes a link to those.
    shutil.copy(saved, "cache")
    saved.unlink()
    os.link("cache", saved)
    shared_weights.share_with_dvc()
    assert not logged.samefile("cache"), "dvc.lock does not have it yet"
    digest = lineage.dvc_hash(saved.parent)
    Path("dvc.lock").write_text(f"stages: {{f: {{outs: [{{path: models/finetuned/colours, md5: {digest}}}]}}}}")
    shared_weights.share_with_dvc()
    assert logged.samefile("cache") and not list((CHECKPOINTS / "logged").iterdir())


def test_other_bytes_are_never_put_in_the_place_of_logged_ones(project: dict[str, Path]) -> None:
    assert stage.main("finetune", finetuned(project["colours"], 0.5), "colours") == 0
    saved = Path("models/finetuned/colours/model.safetensors")
    digest, content = lineage.dvc_hash(saved.parent), saved.read_bytes()
    saved.unlink()
    saved.write_bytes(content[:-4] + b"\0\0\0\0")
    Path("dvc.lock").write_text(f"stages: {{f: {{outs: [{{path: models/finetuned/colours, md5: {digest}}}]}}}}")
    shared_weights.share_with_dvc()
    assert weights_of("colours")[0].read_bytes() == content


@pytest.mark.parametrize(("switch", "logged"), [("0", 0), ("1", 1)])
def test_the_switch(project: dict[str, Path], switch: str, logged: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(models.SWITCH, switch)
    assert stage.main("finetune", finetuned(project["colours"], 0.5), "colours") == 0
    client, experiment = store.open_experiment()
    assert len(client.search_logged_models([experiment])) == logged


def test_a_switch_that_says_nothing_is_told_before_any_work(
    project: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(models.SWITCH, "yes")
    assert stage.main("finetune", finetuned(project["colours"], 0.5), "colours") == 2
    assert capsys.readouterr().err == (
        "error: BERTCORE_LOG_MODELS: found 'yes', expected 0 or 1; correct the variable\n"
    )
    assert not Path("models").exists()


def test_what_hinders_the_logging_fails_no_stage_and_it_can_be_done_later(
    project: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    write("mlartifacts/models", "a file where a directory has to be")
    assert stage.main("finetune", finetuned(project["colours"], 0.5), "colours") == 0
    assert "`python -m tasks.tracking.models finetune@colours` logs it" in caplog.text
    client, experiment = store.open_experiment()
    (run,) = client.search_runs([experiment], "tags.stage = 'finetune@colours'")
    assert run.info.status == "FINISHED"
    Path("mlartifacts/models").unlink()
    models.main("finetune@colours")
    assert registered("colours").run_id == run.info.run_id


@pytest.mark.parametrize("named", [False, True])
def test_a_moved_tree_serves_its_own_models(
    named: bool, project: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stage.main("finetune", finetuned(project["colours"], 0.5), "colours") == 0
    here = Path.cwd()
    there = here.rename(here.with_name(f"{here.name}-moved"))
    monkeypatch.chdir(there)
    if named:  # as flows do for runs in trees of their own
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{there}/mlflow.db")
    store.open_experiment()
    assert loaded("colours").predict(pd.DataFrame({"text": ["a dog"]}))


CLASSES = [(each, name, kind) for each in sorted(ARCHITECTURES) for name, kind in ARCHITECTURES[each].kinds.items()]
LABELS = {"0": "a", "1": "b"}


@pytest.mark.parametrize(("model_type", "name", "kind"), CLASSES)
def test_uses_are_those_of_the_commands(model_type: str, name: str, kind: Kind) -> None:
    problems: list[dict[str, Any]] = [{}]
    if kind == "sequence_classification":
        kinds = ("single_label_classification", "multi_label_classification", "regression")
        problems = [{"problem_type": each} for each in kinds] + [{"id2label": {"0": "a"}}]
    for problem in problems:
        values = {"model_type": model_type, "architectures": [name], "id2label": LABELS, **problem}
        described = Description(directory=Path(), values=values, architecture=name, kind=kind)
        assert signatures.use_of(values) == described.use
        assert signatures.signature(described.use).inputs.input_names()[0] in ("text", "question", "context")


def test_a_served_model_needs_what_its_code_imports() -> None:
    modules = {module.split(".")[0] for file in import_closure(Path("bertcore/serving/pyfunc.py"))
               for module in imported_modules(file)}  # fmt: skip
    foreign = modules - sys.stdlib_module_names - {"bertcore"}
    assert foreign | {"pandas"} == set(models.REQUIREMENTS)


def test_a_stage_without_a_model_logs_none(project: dict[str, Path]) -> None:
    assert place_of("corpus", None) is None and place_of("pretrain", None) is None


@pytest.mark.slow
def test_mlflow_serves_the_champion(project: dict[str, Path], tmp_path: Path) -> None:
    assert stage.main("finetune", finetuned(project["colours"], 0.5), "colours") == 0
    port = free_port()
    command = f"-m mlflow models serve -m models:/bert-pretraining.colours@champion --env-manager local --port {port}"
    (tmp_path / "elsewhere").mkdir()  # it must find its code in the model
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "MLFLOW_TRACKING_URI": store.tracking_uri(), "PATH": path}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *command.split()], cwd=tmp_path / "elsewhere", env=environment, stdout=log, stderr=log
        )
        try:
            found = ask(f"http://127.0.0.1:{port}", {"dataframe_records": [{"text": "the red cat"}]}, process)
        finally:
            process.terminate()
            process.wait(timeout=60)
    expected = load(project["colours"]).works["classify"](["the red cat"])
    assert found == {"predictions": expected}, (tmp_path / "log").read_text()


def ask(address: str, body: dict[str, Any], process: "subprocess.Popen[bytes]") -> Any:
    """What the server answers, once it does."""
    request = urllib.request.Request(
        f"{address}/invocations", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    for _ in range(240):
        assert process.poll() is None
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except OSError:
            time.sleep(0.5)
    raise AssertionError("no answer")
