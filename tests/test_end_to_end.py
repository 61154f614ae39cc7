"""The whole pipeline as its users run it, small: through the deployment, and by `dvc repro`, in two fresh trees.

Text, tasks and sizes are a few seconds' worth; the stages, DVC, Prefect, MLflow and the training processes are real.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient
from ruamel.yaml import YAML

from bertcore.recipes.recipe import NAMES
from tests.flows.conftest import Tree
from tests.import_closure import ROOT
from tests.samples import documents, sentences

pytestmark = pytest.mark.slow

STAGES = [
    *("inputs", "corpus", "tokenizer", "shards", "mask", "pretrain", "minimal_pairs", "embed"),
    *("contamination", "report"),
    *(f"{stage}@{task}" for stage in ("examples", "finetune") for task in ("cola", "squad")),
]

PARAMS: dict[str, Any] = {
    "recipe": None,
    "corpus": {"sources": ["../text.txt"], "min_words": 3, "heldout_fraction": 0.2},
    "tokenizer": {"vocab_size": 130, "min_frequency": 1},
    "shards": {"shard_bytes": 20000},
    "mask": {"sequence_length": 48, "max_predictions_per_seq": 8},
    "pretrain": {
        "model": {"preset": "tiny", "hidden_size": 32},
        "batch_size": 8,
        "max_steps": 12,
        "warmup_steps": 2,
        "learning_rate": 0.002,
        "logging_steps": 4,
        "eval_steps": 6,
    },
    "minimal_pairs": {"pairs": "../pairs.jsonl"},
    "embed": {"pairs": "neighbours", "batch_size": 32, "max_pairs": 128, "heldout_pairs": 50, "dimensions": [8]},
    "finetune": {
        "tasks": {
            "cola": {"format": "glue/cola", "data": "../CoLA", "epochs": 1, "sequence_length": 48},
            "squad": {
                "format": "squad",
                "data": "../squad",
                "epochs": 1,
                "sequence_length": 48,
                "max_query_length": 16,
            },
        }
    },
}


def write_inputs(directory: Path) -> None:
    """A text, minimal pairs, a GLUE task in its original layout and a SQuAD file, beside the working tree."""
    text = "\n\n".join("\n".join(document) for document in documents(300))
    (directory / "text.txt").write_text(text + "\n")
    backwards = [
        {"good": each, "bad": " ".join(each.split()[::-1]), "kind": "order"} for each in sentences(20, seed=20)
    ]
    (directory / "pairs.jsonl").write_text("\n".join(map(json.dumps, backwards)))
    (directory / "CoLA").mkdir()
    (directory / "squad").mkdir()
    for index, (split, version) in enumerate((("train", "train"), ("dev", "dev"))):
        rows = [f"s\t{row % 2}\t\t{sentence}\n" for row, sentence in enumerate(sentences(60, seed=index))]
        (directory / "CoLA" / f"{split}.tsv").write_text("".join(rows))
        questions = []
        for number, sentence in enumerate(sentences(30, seed=10 + index)):
            word = sentence.split()[1]
            answer = {"text": word, "answer_start": sentence.index(word)}
            qas = [{"id": f"{split}{number}", "question": "Which word is second?", "answers": [answer]}]
            questions.append({"context": sentence, "qas": qas})
        dataset = {"version": "1.1", "data": [{"title": "t", "paragraphs": questions}]}
        (directory / "squad" / f"{version}-v1.1.json").write_text(json.dumps(dataset))


def make_project(directory: Path) -> Tree:
    """A fresh clone of the project as it stands in the working tree, with the small params."""
    root = directory / "project"
    root.mkdir(parents=True)
    for name in ("bertcore", "tasks", "flows"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".dvc").mkdir()
    for name in ("dvc.yaml", "prefect.yaml", "requirements.lock", ".dvcignore", ".gitignore", ".dvc/config"):
        shutil.copy(ROOT / name, root / name)
    write_params(root, PARAMS)
    write_inputs(directory)
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    (root / "home").mkdir()
    tree = Tree(root)
    del tree.environment["BERTCORE_STAGES_AT_ONCE"]  # stages side by side divide the cores, which changes the sums
    return tree


def write_params(root: Path, values: dict[str, Any]) -> None:
    with (root / "params.yaml").open("w") as file:
        YAML().dump(values, file)


def dvc(tree: Tree, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**tree.environment, "PATH": f"{Path(sys.executable).parent}:{tree.environment['PATH']}"}
    command = [sys.executable, "-m", "dvc", *arguments]
    return subprocess.run(command, cwd=tree.root, env=environment, capture_output=True, text=True, check=False)


def outs(tree: Tree) -> dict[str, str]:
    """path -> hash in dvc.lock, of everything that depends on the inputs alone."""
    stages = YAML(typ="safe").load((tree.root / "dvc.lock").read_text())["stages"]
    found = {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", [])}
    clocks = ("metrics/timing", "metrics/summary.json", "reports")
    return {path: value for path, value in found.items() if not path.startswith(clocks)}


@pytest.fixture(scope="module")
def by_flow(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    tree = make_project(tmp_path_factory.mktemp("flow"))
    done = tree.launch()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "masked LM" in done.stdout
    assert tree.processes() == []
    return tree


@pytest.fixture(scope="module")
def by_dvc(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    tree = make_project(tmp_path_factory.mktemp("dvc"))
    done = dvc(tree, "repro")
    assert done.returncode == 0, done.stdout + done.stderr
    return tree


def test_the_flow_and_dvc_repro_give_the_same_bytes(by_flow: Tree, by_dvc: Tree) -> None:
    assert len(outs(by_flow)) > 15
    assert outs(by_flow) == outs(by_dvc)


def test_after_the_flow_dvc_has_nothing_to_do(by_flow: Tree) -> None:
    assert "up to date" in dvc(by_flow, "status").stdout
    repeated = dvc(by_flow, "repro").stdout
    assert "Running stage" not in repeated and "up to date" in repeated


def test_mlflow_has_one_parent_with_a_child_for_every_stage(by_flow: Tree, by_dvc: Tree) -> None:
    for tree in (by_flow, by_dvc):
        client = MlflowClient(f"sqlite:///{tree.root / 'mlflow.db'}")
        (experiment,) = [one for one in client.search_experiments() if one.name == "bert-pretraining"]
        runs = client.search_runs([experiment.experiment_id])
        (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
        children = {run.info.run_name: run for run in runs if run is not parent}
        assert set(children) == set(STAGES)
        assert {run.data.tags["mlflow.parentRunId"] for run in children.values()} == {parent.info.run_id}
        assert parent.data.params["pretrain.learning_rate"] == "0.002"
        curve = client.get_metric_history(children["pretrain"].info.run_id, "train/loss")
        assert [point.step for point in curve] == [4, 8, 12]
        recorded = outs(tree)
        assert children["pretrain"].data.tags["dvc.out.models/pretrained"] == recorded["models/pretrained"]
        assert children["finetune@cola"].data.tags["dvc.dep.models/pretrained"] == recorded["models/pretrained"]


def test_every_model_is_in_mlflow_and_its_weights_are_on_the_disk_once(by_dvc: Tree) -> None:
    client = MlflowClient(f"sqlite:///{by_dvc.root / 'mlflow.db'}")
    for name, place in (("pretrained", "pretrained"), ("cola", "finetuned/cola"), ("squad", "finetuned/squad")):
        champion = client.get_model_version_by_alias(f"bert-pretraining.{name}", "champion")
        assert champion.tags[f"dvc.out.models/{place}"] == outs(by_dvc)[f"models/{place}"]
        model = client.get_logged_model(str(champion.source).removeprefix("models:/"))
        logged = Path(model.artifact_location.removeprefix("file://")) / "data" / name / "model.safetensors"
        assert logged.samefile(by_dvc.root / "models" / place / "model.safetensors")


def test_minimal_pairs_are_scored_beside_baselines(by_dvc: Tree) -> None:
    metrics = json.loads((by_dvc.root / "metrics" / "minimal_pairs.json").read_text())
    summary = json.loads((by_dvc.root / "metrics" / "summary.json").read_text())
    assert metrics["pairs"] == 20 and metrics["accuracy"] == summary["minimal_pairs"]["model"]
    # Backwards, a sentence has the same words, and in the training text hardly one of its pairs of neighbours.
    assert metrics["systems"]["bigram"]["accuracy"] > 0.9 and metrics["systems"]["unigram"]["ties"] == 20


def test_sentence_vectors_are_scored_beside_bm25(by_dvc: Tree) -> None:
    metrics = json.loads((by_dvc.root / "metrics" / "embed.json").read_text())
    summary = json.loads((by_dvc.root / "metrics" / "summary.json").read_text())
    assert list(metrics["systems"]) == ["model", "dimension_8", "before", "bm25"] and metrics["steps"] == 4
    assert summary["embed"]["bm25"] == metrics["systems"]["bm25"]["ndcg_at_10"]
    assert (by_dvc.root / "models" / "embedding" / "modules.json").is_file()


def test_the_models_load_in_transformers(by_dvc: Tree) -> None:
    from transformers import AutoModelForPreTraining, AutoModelForSequenceClassification, AutoTokenizer

    model, information = AutoModelForPreTraining.from_pretrained(
        by_dvc.root / "models" / "pretrained", output_loading_info=True
    )
    assert not information["missing_keys"] and not information["unexpected_keys"]
    tokenizer = AutoTokenizer.from_pretrained(by_dvc.root / "models" / "pretrained")
    assert model(**tokenizer("the cache reads", return_tensors="pt")).prediction_logits.shape[-1] == 130
    classifier = AutoModelForSequenceClassification.from_pretrained(by_dvc.root / "models" / "finetuned" / "cola")
    assert classifier.config.num_labels == 2


def test_the_official_scorer_reads_the_predictions(by_dvc: Tree) -> None:
    command = [
        sys.executable,
        "-m",
        "bertcore.evaluation.squad",
        "../squad/dev-v1.1.json",
        "predictions/squad/dev.json",
    ]
    scored = subprocess.run(command, cwd=by_dvc.root, capture_output=True, text=True, check=True)
    metrics = json.loads((by_dvc.root / "metrics" / "finetune" / "squad.json").read_text())
    assert json.loads(scored.stdout)["f1"] / 100 == pytest.approx(metrics["pretrained"]["f1"], abs=1e-12)


def test_the_report_names_every_task(by_dvc: Tree) -> None:
    summary = json.loads((by_dvc.root / "metrics" / "summary.json").read_text())
    assert set(summary["finetune"]) == {"cola", "squad"}
    assert summary["pretrain"]["tokens_per_second"] > 0
    page = (by_dvc.root / "reports" / "report.html").read_text()
    assert "cola" in page and "squad" in page and 'src="http' not in page


def test_code_that_changed_can_be_taken_for_that_of_the_outputs(by_dvc: Tree) -> None:
    """As docs/machine.md says of an update."""
    code = by_dvc.root / "bertcore" / "precision.py"
    as_it_was = code.read_text()
    before = outs(by_dvc)
    for text in (as_it_was + "\n# Another version.\n", as_it_was):
        code.write_text(text)
        assert "pretrain" in json.loads(dvc(by_dvc, "status", "--json").stdout)
        assert ran(dvc(by_dvc, "repro", "--single-item", "inputs", "corpus")) == {"inputs"}
        assert dvc(by_dvc, "commit", "-f", *sorted({*STAGES} - {"inputs", "report"})).returncode == 0
        assert not ran(dvc(by_dvc, "repro")) and outs(by_dvc) == before
    assert (by_dvc.root / "data" / "inputs" / "corpus" / "0" / "text.txt").is_symlink(), "DVC sees the text no more"


@pytest.mark.slow
def test_what_changes_re_runs_nothing_before_it_and_nothing_that_was_run_once(by_dvc: Tree) -> None:
    values = json.loads(json.dumps(PARAMS))
    values["pretrain"]["learning_rate"] = 0.004
    write_params(by_dvc.root, values)
    later = {"inputs", "pretrain", "minimal_pairs", "embed", "finetune@cola", "finetune@squad", "report"}
    assert set(json.loads(dvc(by_dvc, "status", "--json").stdout)) == {"inputs", "pretrain", "report"}
    assert ran(dvc(by_dvc, "repro")) == later

    for before in (PARAMS, values):
        write_params(by_dvc.root, before)
        assert ran(dvc(by_dvc, "repro")) == {"inputs", "report"}

    with (by_dvc.root.parent / "CoLA" / "train.tsv").open("a") as file:
        file.write("s\t1\t\tone more sentence.\n")
    later = {"inputs", "examples@cola", "contamination", "finetune@cola", "report"}
    assert ran(dvc(by_dvc, "repro")) == later


def ran(done: "subprocess.CompletedProcess[str]") -> set[str]:
    assert done.returncode == 0, done.stdout + done.stderr
    return {line.split("'")[1] for line in done.stdout.splitlines() if line.startswith("Running stage")}


@pytest.mark.parametrize("recipe", sorted({*NAMES} - {"bert-2018"}))  # that of PARAMS is much like it
def test_every_recipe_comes_to_its_report(recipe: str, by_dvc: Tree, tmp_path: Path) -> None:
    tree, small = make_project(tmp_path), {"hidden_size": 32, "preset": "tiny"}
    values = {
        **PARAMS,
        "recipe": recipe,
        "tokenizer": {"vocab_size": 280 if recipe == "roberta" else 130, "min_frequency": 1},
        "mask": {"sequence_length": 48, "second_phase": None},
        "pretrain": {**PARAMS["pretrain"], "model": small, "second_phase": None},
        "embed": None,
        "finetune": {"tasks": {"cola": PARAMS["finetune"]["tasks"]["cola"]}},
    }
    if recipe == "distilbert":
        teacher = by_dvc.root / "models" / "pretrained"
        values["tokenizer"] = {"vocab_file": str(teacher / "vocab.txt")}
        values["pretrain"]["objective_options"] = {"teacher": str(teacher)}
    write_params(tree.root, values)
    # What no recipe changes is there already.
    (tree.root / ".dvc" / "config.local").write_text(f"[cache]\n    dir = {by_dvc.root / '.dvc' / 'cache'}\n")
    done = dvc(tree, "repro", "--quiet")
    assert done.returncode == 0, done.stderr
    assert (tree.root / "reports" / "report.html").is_file()
    summary = json.loads((tree.root / "metrics" / "summary.json").read_text())
    assert {"pretrain", "finetune"} <= summary.keys()


def test_a_bad_param_is_one_line_before_anything_runs(by_flow: Tree) -> None:
    values = json.loads(json.dumps(PARAMS))
    values["pretrain"]["model"]["preset"] = "tinny"
    write_params(by_flow.root, values)
    done = dvc(by_flow, "repro")
    write_params(by_flow.root, PARAMS)
    assert done.returncode != 0
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("error: ")]
    assert line.startswith("error: params.yaml: pretrain.model.preset: found 'tinny'; did you mean 'tiny'?")
    assert "Traceback" not in done.stderr
