"""Runs with parameters of their own: two at once on one machine, each in a git worktree, through a real deployment."""

import contextlib
import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient
from ruamel.yaml import YAML

from tests.faults.prefect_runs import Project
from tests.flows.conftest import ROOT, STAGE, Tree, make_tree
from tests.samples import empty_store

pytestmark = pytest.mark.slow

SECTIONS = """
from bertcore.errors import ConfigError

def check(values):
    if unknown := set(values["pretrain"]) - {"learning_rate", "seed"}:
        raise ConfigError(f"params.yaml: pretrain: unknown key {min(unknown)!r}; did you mean 'learning_rate'?")
"""
"""In the place of `tasks.sections`, which needs torch."""

MEET = """
import json
place = Path(os.environ["MEET"])
if name == "pretrain" and place.is_dir():
    if (place / "alone").exists():
        sys.exit("error: nobody else came")
    (place / Path.cwd().parent.name).write_text(json.dumps([str(Path.cwd()), sorted(os.sched_getaffinity(0))]))
    for _ in range(250):
        if len(list(place.iterdir())) > 1:
            break
        time.sleep(0.1)
    else:
        sys.exit("error: nobody else came")
"""
"""What the toy's pre-training does first: wait until another one is at work, and say where and on which cores. It fails
where a file `alone` says that none will come."""

SUMMARY = """
if name == "report":
    from ruamel.yaml import YAML
    Path("metrics").mkdir(exist_ok=True)
    rate = YAML(typ="safe").load(Path("params.yaml"))["pretrain"]["learning_rate"]
    Path("metrics/summary.json").write_text(json.dumps({"pretrain": {"mlm_loss": (rate - 0.3) ** 2}}))
elif name.startswith("finetune@"):
    Path("metrics/finetune").mkdir(parents=True, exist_ok=True)
    scores = {"metrics": ["accuracy"], "majority": {"accuracy": 0.1}, "pretrained": {"accuracy": 0.75}}
    scores["random_initialisation"] = {"accuracy": 0.5}
    Path("metrics/finetune", name.partition("@")[2] + ".json").write_text(json.dumps(scores))
"""
"""What a sweep ranks by, lowest at the rate 0.3, and scores as the stage `finetune` writes them."""

TRACKED = """
if name == "pretrain" and Path(os.environ["MEET"]).with_name("tracked").exists():
    from tasks.tracking import runs
    runs.start(name, {"prefect.flow_run_id": os.environ["BERTCORE_PIPELINE_RUN"]}).end("FINISHED")
"""
"""What a stage tells MLflow when it begins, where a file says that a test looks there."""

EVALUATED = """
if name == "pretrain":
    from ruamel.yaml import YAML
    rate = YAML(typ="safe").load(Path("params.yaml"))["pretrain"]["learning_rate"]
    print(f"held-out loss {(rate - 0.3) ** 2} at step 100", flush=True)
    if rate > 1:
        time.sleep(100)
"""
"""What a sweep may stop it by; at rates above 1 nobody waits for the end."""


TICKETS = "    tickets: {data: tickets.csv, epochs: 1}\n"
"""The one of the toy's tasks that does not read the corpus."""


@dataclass
class Served:
    """A tree whose pipeline has run and is committed, a server, a worker and the deployment."""

    tree: Tree
    prefect: Project
    place: Path

    def run(self, flow: str = "pretrain-flow", **parameters: Any) -> str:
        """`prefect deployment run` with these parameters; the flow run's id."""
        before = {run["id"] for run in self.prefect.ask("POST", "/flow_runs/filter", {})}
        given = [word for name, value in parameters.items() for word in ("-p", f"{name}={json.dumps(value)}")]
        done = self.command("deployment", "run", f"{flow}/local", *given)
        assert done.returncode == 0, done.stdout + done.stderr
        (new,) = {run["id"] for run in self.prefect.ask("POST", "/flow_runs/filter", {})} - before
        return new

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
        options: dict[str, Any] = {"cwd": self.tree.root, "env": self.prefect.environment, "text": True}
        return subprocess.run(command, capture_output=True, check=False, **options)

    def dvc(self, *arguments: str) -> str:
        options: dict[str, Any] = {"cwd": self.tree.root, "env": self.prefect.environment, "text": True}
        return subprocess.run(
            [sys.executable, "-m", "dvc", *arguments], capture_output=True, check=True, **options
        ).stdout

    def ended(self, run: str) -> dict[str, Any]:
        self.prefect.wait(run, "Completed", "Failed", "Crashed", "Cancelled", seconds=240)
        return self.prefect.ask("GET", f"/flow_runs/{run}")

    def git(self, *arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, cwd=self.tree.root, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tree, place = make_tree(tmp_path_factory.mktemp("side") / "tree"), tmp_path_factory.mktemp("meet")
    for name in ("variation", "params"):
        shutil.copy(ROOT / "tasks" / f"{name}.py", tree.root / "tasks")
    shutil.copytree(ROOT / "tasks" / "tracking", tree.root / "tasks" / "tracking")
    (tree.root / "tasks" / "sections.py").write_text(SECTIONS)
    (tree.root / "stage.py").write_text(
        STAGE.replace('if Path(f"fail-', MEET + SUMMARY + TRACKED + EVALUATED + 'if Path(f"fail-', 1)
    )
    tree.edit("params.yaml", "finetune:\n  tasks:\n", f"finetune:\n  tasks:\n{TICKETS}")
    (tree.root / "tickets.csv").write_text("body,team\n")
    corpus = "deps: [models/pretrained.txt, data/corpus.txt, stage.py]\n    params:"  # as of the project's examples
    tree.edit("dvc.yaml", "deps: [models/pretrained.txt, stage.py]\n    params:", corpus)
    with (tree.root / ".gitignore").open("a") as file:
        file.write("/home/\n/runs.log\n*.log\n")
    prefect = Project(tree.root, extra={"BERTCORE_STAGES_AT_ONCE": "2", "MEET": str(place / "room")})
    served = Served(tree, prefect, place / "room")
    served.dvc("repro")
    served.git("add", "--all")
    served.git("commit", "--quiet", "--message", "The first encoder")
    tree.runs()
    try:
        prefect.start_server()
        prefect.start_worker()
        prefect.deploy()
        yield served
    finally:
        prefect.stop()


def test_two_runs_at_once_leave_the_tree_as_it_is_and_give_two_branches(served: Served) -> None:
    served.place.mkdir()
    rates = {served.run(params={"pretrain.learning_rate": rate}): rate for rate in (0.4, 0.01)}
    ended = {run: served.ended(run) for run in rates}
    assert {run["state"]["name"] for run in ended.values()} == {"Completed"}, served.prefect.log("worker")
    for run, rate in rates.items():
        branch = f"runs/{ended[run]['name']}"
        assert ended[run]["state"]["message"] == f"results: git branch {branch}"
        assert YAML(typ="safe").load(served.git("show", f"{branch}:params.yaml"))["pretrain"] == {"learning_rate": rate}
        assert served.git("show", "--format=%s", "--no-patch", branch).endswith(f": pretrain.learning_rate={rate}")
        assert set(served.git("diff", "--name-only", f"HEAD...{branch}").splitlines()) >= {"params.yaml", "dvc.lock"}
        shown = json.loads(served.dvc("params", "diff", "HEAD", branch, "--json"))["params.yaml"]
        assert {key: value["new"] for key, value in shown.items()} == {"pretrain.learning_rate": rate}
        out = served.tree.root / "home" / f"{rate}.txt"
        served.dvc("get", ".", "models/pretrained.txt", "--rev", branch, "--out", str(out))
        assert str(rate) in out.read_text()
    assert served.git("status", "--porcelain") == "" and served.git("worktree", "list").count("\n") == 0
    assert "up to date" in served.dvc("status") and served.tree.runs() == []

    (first, own), (second, others) = (json.loads(file.read_text()) for file in served.place.iterdir())
    shutil.rmtree(served.place)
    assert first != second and all(".worktrees" in place for place in (first, second))
    if len(os.sched_getaffinity(0)) > 1:
        assert not set(own) & set(others) and set(own) | set(others) == os.sched_getaffinity(0)


def test_a_run_that_failed_goes_on_in_its_worktree(served: Served) -> None:
    served.place.mkdir()
    (served.place / "alone").touch()
    run = served.ended(served.run(params={"pretrain.learning_rate": 0.7}))
    assert run["state"]["name"] == "Failed" and "nobody else came" in run["state"]["message"], run["state"]
    shutil.rmtree(served.place)
    assert served.git("worktree", "list").count("\n") == 1
    assert served.ended(served.run(params={"pretrain.learning_rate": 0.7}))["state"]["name"] == "Completed"
    assert served.git("worktree", "list").count("\n") == 0


def test_an_unknown_key_is_one_line_before_anything_is_made(served: Served) -> None:
    state = served.ended(served.run(params={"pretrain.learning_rat": 1}))["state"]
    assert state["name"] == "Failed"
    assert state["message"] == "parameter params: pretrain: unknown key 'learning_rat'; did you mean 'learning_rate'?"
    assert served.git("worktree", "list").count("\n") == 0


def test_an_unknown_parameter_of_the_deployment_is_refused_by_name(served: Served) -> None:
    done = served.command("deployment", "run", "pretrain-flow/local", "-p", "parms={}")
    assert done.returncode == 1 and "'parms'" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_sweep_runs_every_point_and_ranks_them(served: Served) -> None:
    grid = {"pretrain.learning_rate": [0.9, 0.25, 0.6]}
    run = served.ended(served.run("sweep-flow", params=grid, at_once=2))
    assert run["state"]["name"] == "Completed", served.prefect.log("worker")
    with (served.tree.root / "sweeps" / f"{run['name']}.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["Run", "pretrain.learning_rate", "pretrain.mlm_loss", "Outcome"]
    assert [row[1:] for row in rows] == [
        ["0.25", "0.0025", "Completed"], ["0.6", "0.09", "Completed"], ["0.9", "0.36", "Completed"]
    ]  # fmt: skip
    assert run["state"]["message"].startswith(f"pretrain.mlm_loss 0.0025 by run {rows[0][0]}; all: sweeps/")
    branches = served.git("branch", "--list", "runs/*", "--format=%(refname:short)").splitlines()
    assert {f"runs/{row[0]}" for row in rows} <= set(branches)
    only = {"flow_runs": {"id": {"any_": [run["id"]]}}}
    (artifact,) = served.prefect.ask("POST", "/artifacts/filter", only)
    assert artifact["key"] == "sweep" and "| 0.25 | 0.0025 |" in artifact["data"].replace("**", "")


def test_a_sweep_stops_what_is_worse_than_the_median_and_says_so(served: Served) -> None:
    grid = {"pretrain.learning_rate": [0.35, 0.45, 2.3]}
    run = served.ended(served.run("sweep-flow", params=grid, at_once=2, stop_below_median_of=2))
    assert run["state"]["name"] == "Completed", served.prefect.log("worker")
    with (served.tree.root / "sweeps" / f"{run['name']}.csv").open(newline="") as file:
        _, *rows = csv.reader(file)
    said = "stopped at step 100: held-out loss 4, median of 2 others 0.0125"
    assert [row[1:] for row in rows] == [
        ["0.35", "0.0025", "Completed"], ["0.45", "0.0225", "Completed"], ["2.3", "–", said]
    ]  # fmt: skip
    (stopped,) = served.prefect.ask("POST", "/flow_runs/filter", {"flow_runs": {"name": {"any_": [rows[2][0]]}}})
    assert stopped["state"]["type"] == "CANCELLED"


@pytest.fixture
def tracked(served: Served) -> Iterator[MlflowClient]:
    """The store to which the toy's stages speak as long as this lasts."""
    shutil.copy(empty_store(), served.tree.root / "mlflow.db")
    said = served.place.with_name("tracked")
    said.touch()
    yield MlflowClient(f"sqlite:///{served.tree.root / 'mlflow.db'}")
    said.unlink()


def test_a_sweep_of_draws_and_seeds_is_one_run_of_mlflow_with_its_runs_below(
    served: Served, tracked: MlflowClient
) -> None:
    ranges = {"pretrain.learning_rate": {"min": 0.31, "max": 0.9, "log": True}}
    run = served.ended(served.run("sweep-flow", params=ranges, draws=2, seeds=[1, 2], at_once=2))
    assert run["state"]["name"] == "Completed", served.prefect.log("worker")
    file = served.tree.root / "sweeps" / f"{run['name']}.csv"
    with file.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["Run", "pretrain.learning_rate", "pretrain.seed", "pretrain.mlm_loss", "Outcome"]
    rates = {row[1] for row in rows}
    assert len(rates) == 2 and {(row[1], row[2]) for row in rows} == {(rate, seed) for rate in rates for seed in "12"}
    assert all(0.31 <= float(rate) <= 0.9 for rate in rates) and {row[-1] for row in rows} == {"Completed"}

    (sweep,) = _in_mlflow(tracked, f"tags.`prefect.flow_run_id` = '{run['id']}'")
    assert (sweep.info.run_name, sweep.info.status) == (f"sweep {run['name']}", "FINISHED")
    below = _in_mlflow(tracked, f"tags.`mlflow.parentRunId` = '{sweep.info.run_id}'")
    assert {found.info.run_name for found in below} == {row[0] for row in rows} and len(below) == 4
    assert {found.info.status for found in below} == {"FINISHED"}
    kept = Path(tracked.download_artifacts(sweep.info.run_id, file.name, str(served.place.parent)))
    assert kept.read_bytes() == file.read_bytes()
    assert "MLflow has no table" not in served.prefect.log("worker")


def test_a_run_that_its_sweep_has_stopped_says_so_in_mlflow(served: Served, tracked: MlflowClient) -> None:
    grid = {"pretrain.learning_rate": [0.36, 0.46, 2.4]}
    run = served.ended(served.run("sweep-flow", params=grid, at_once=2, stop_below_median_of=2))
    assert run["state"]["name"] == "Completed", served.prefect.log("worker")
    (sweep,) = _in_mlflow(tracked, f"tags.`prefect.flow_run_id` = '{run['id']}'")
    below = _in_mlflow(tracked, f"tags.`mlflow.parentRunId` = '{sweep.info.run_id}'")
    (reason,) = [found.data.tags["sweep.stopped"] for found in below if "sweep.stopped" in found.data.tags]
    assert len(below) == 3 and reason.startswith("stopped at step 100: held-out loss 4")


def _in_mlflow(client: MlflowClient, condition: str) -> list[Run]:
    experiment = client.get_experiment_by_name("bert-pretraining")
    assert experiment is not None
    return client.search_runs([experiment.experiment_id], condition)


def test_a_sweep_whose_process_was_lost_goes_on_with_its_runs(served: Served) -> None:
    run = served.run("sweep-flow", params={"pretrain.learning_rate": [0.1, 0.2, 0.4]}, at_once=1)
    name = served.prefect.ask("GET", f"/flow_runs/{run}")["name"]
    only = {"flow_runs": {"tags": {"all_": [name]}}}

    def begun() -> list[dict[str, Any]]:
        return served.prefect.ask("POST", "/flow_runs/filter", only)

    served.prefect.until(lambda: bool(begun()), "the first run")
    (process,) = [each for each in psutil.process_iter(["environ"]) if _works_for(run, each)]
    process.kill()
    served.prefect.wait(run, "Crashed")
    (served.tree.root / "later.txt").write_text("an edit that the sweep did not begin with")
    served.git("add", "later.txt")
    again = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": True}  # as infra/automations.yaml does
    served.prefect.ask("POST", f"/flow_runs/{run}/set_state", again)
    served.prefect.wait(run, "Running")
    assert served.ended(run)["state"]["name"] == "Completed", served.prefect.log("worker")
    served.git("rm", "--quiet", "--force", "later.txt")
    runs = begun()
    assert len(runs) == 3 and {each["state"]["name"] for each in runs} == {"Completed"}
    assert len({each["parameters"]["commit"] for each in runs}) == 1
    with (served.tree.root / "sweeps" / f"{name}.csv").open(newline="") as file:
        assert [row[1] for row in csv.reader(file)] == ["pretrain.learning_rate", "0.2", "0.4", "0.1"]


def _works_for(run: str, process: psutil.Process) -> bool:
    """Whether it is the process of this flow run, which Prefect starts with its id, and no stage below it."""
    environment = process.info["environ"] or {}
    with contextlib.suppress(psutil.Error):
        return environment.get("PREFECT__FLOW_RUN_ID") == run and "prefect" in " ".join(process.cmdline())
    return False


def test_what_a_sweep_cannot_combine_is_one_line(served: Served) -> None:
    state = served.ended(served.run("sweep-flow", params={"pretrain.learning_rate": 0.1}))["state"]
    expected = "parameter params: pretrain.learning_rate: found 0.1, expected a list of values; correct it"
    assert (state["name"], state["message"]) == ("Failed", expected)


def test_a_model_is_finetuned_without_any_pretraining(served: Served) -> None:
    model = served.tree.root / "home" / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    run = served.ended(served.run("finetune-flow", model="home/model", tasks=["topic"]))
    assert run["state"]["name"] == "Completed", served.prefect.log("worker")
    only = {"flow_runs": {"id": {"any_": [run["id"]]}}}
    stages = {task["name"] for task in served.prefect.ask("POST", "/task_runs/filter", only)} - {"doctor"}
    assert stages == {"corpus", "finetune@topic"}
    tables = [each for each in served.prefect.ask("POST", "/artifacts/filter", only) if each["key"] == "finetuned"]
    assert "| topic | accuracy | 10.0 | 50.0 | 75.0 |" in tables[0]["data"]
    branch = run["state"]["message"].rpartition(" ")[2]
    values = YAML(typ="safe").load(served.git("show", f"{branch}:params.yaml"))
    assert values["finetune"]["tasks"]["topic"]["init_from"] == "home/model"
    assert "| topic | accuracy | 10.0 | 50.0 | 75.0 |" in served.git("log", "-1", "--format=%B", branch)
    assert served.git("status", "--porcelain").split() in ([], ["??", "sweeps/"])


def test_a_corpus_that_no_task_reads_is_not_made(served: Served) -> None:
    model = served.tree.root / "home" / "third"
    model.mkdir()
    (model / "config.json").write_text("{}")
    for task, stages in (("tickets", {"finetune@tickets"}), ("qa", {"corpus", "finetune@qa"})):
        run = served.ended(served.run("finetune-flow", model="home/third", tasks=[task], params={"corpus.words": 9}))
        assert run["state"]["name"] == "Completed", served.prefect.log("worker")
        only = {"flow_runs": {"id": {"any_": [run["id"]]}}}
        found = {each["name"] for each in served.prefect.ask("POST", "/task_runs/filter", only)} - {"doctor"}
        assert found == stages
    tasks = {"finetune.tasks": {"topic": {"data": "corpus", "epochs": 1}}}
    state = served.ended(served.run("finetune-flow", model="home/third", tasks=["qa"], params=tasks))["state"]
    assert (state["name"], "'finetune@qa' is not a stage" in state["message"]) == ("Failed", True)


def test_make_finetune_shows_the_scores_and_where_the_models_are(served: Served) -> None:
    model = served.tree.root / "home" / "another"
    model.mkdir()
    (model / "config.json").write_text("{}")
    command = [sys.executable, "-m", "flows.launch_finetune", "home/another", "qa"]
    options: dict[str, Any] = {"cwd": served.tree.root, "env": served.prefect.environment, "text": True}
    done = subprocess.run(command, capture_output=True, timeout=300, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.strip().splitlines()
    assert ["qa", "accuracy", "10.0", "50.0", "75.0"] in [line.split() for line in lines]
    branch = lines[-1].removeprefix("results: git branch ")
    assert f"dvc get . models/finetuned/qa --rev {branch} --out qa" in done.stdout
    values = YAML(typ="safe").load(served.git("show", f"{branch}:params.yaml"))
    assert values["finetune"]["tasks"]["qa"]["init_from"] == "home/another"


def test_a_model_that_is_none_and_an_unknown_task_are_one_line(served: Served) -> None:
    state = served.ended(served.run("finetune-flow", model="models/none"))["state"]
    assert state["message"].startswith("parameter model: found 'models/none', expected a Hugging Face directory with a")
    (served.tree.root / "home" / "config.json").write_text("{}")
    state = served.ended(served.run("finetune-flow", model="home", tasks=["topc"]))["state"]
    assert state["message"] == "parameter tasks: found 'topc', expected some of tickets, topic, qa, as in params.yaml"
