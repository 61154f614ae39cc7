"""A Prefect server, a process worker and the deployment in a tree with a real small training, to be harmed."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from mlflow.tracking import MlflowClient
from ruamel.yaml import YAML

from tasks.sections import SECTIONS
from tests.faults.trainings import PATIENCE, Training, params, prepare
from tests.import_closure import ROOT
from tests.samples import free_port


def prepare_project(root: Path, values: dict[str, Any]) -> Path:
    """A clone of the project in which stage `pretrain` is the whole pipeline: what it reads lies there."""
    defaults: dict[str, Any] = {name: {} for name in SECTIONS}  # the doctor asks for every section
    prepare(root, defaults | values | {"corpus": {"sources": ["pydoc"]}})
    for name in ("bertcore", "tasks", "flows"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".dvc").mkdir()
    for name in ("prefect.yaml", "requirements.lock", ".dvcignore", ".gitignore", ".dvc/config"):
        shutil.copy(ROOT / name, root / name)
    stages = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["stages"]
    stage = stages["pretrain"]
    stage["meta"] |= {"retry_delay_seconds": 1}
    with (root / "dvc.yaml").open("w") as file:
        YAML().dump({"stages": {"pretrain": stage}}, file)
    for linked in (name for name in stage["deps"] if name.startswith("data/inputs/")):
        if not (root / linked).exists():
            (root / linked).mkdir(parents=True)
    (root / "home").mkdir()
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    return root


@dataclass
class Project:
    """The tree, and what runs in it."""

    root: Path
    server: "subprocess.Popen[bytes] | None" = None
    worker: "subprocess.Popen[bytes] | None" = None
    port: int = 0
    extra: dict[str, str] = field(default_factory=dict)
    """Environment of everything that is started here."""

    @property
    def training(self) -> Training:
        return Training(self.root)

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "BERTCORE"))}
        own = {
            "HOME": str(self.root / "home"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "BERTCORE_PRECISION": "no",
            "OMP_NUM_THREADS": "1",
            "PREFECT_HOME": str(self.root / ".prefect"),
            "PREFECT_API_URL": f"http://127.0.0.1:{self.port}/api",
            "PREFECT_WORKER_QUERY_SECONDS": "1",
            "PREFECT_SERVER_CONCURRENCY_MAXIMUM_CONCURRENCY_SLOT_WAIT_SECONDS": "2",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        }
        return inherited | own | self.extra

    def start_server(self) -> None:
        self.port = self.port or free_port()
        self.server = self.start("server", "-m", "prefect", "server", "start", "--port", str(self.port))
        self.until(lambda: self.ask("GET", "/health") is True, "the server")

    def start_worker(self) -> None:
        self.worker = self.start(
            "worker", *["-m", "prefect", "worker", "start", "--pool", "local", "--type", "process"]
        )

    def start(self, name: str, *command: str) -> "subprocess.Popen[bytes]":
        """A process of this interpreter in the tree, its output added to NAME.log."""
        with (self.root / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *command],
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def log(self, name: str) -> str:
        path = self.root / f"{name}.log"
        return path.read_text(errors="replace") if path.is_file() else ""

    def deploy(self) -> None:
        """As soon as the worker has made the work pool."""
        self.until(lambda: bool(self.ask("POST", "/work_pools/filter", {})), "the work pool")
        command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
        subprocess.run(command, cwd=self.root, env=self.environment, check=True, capture_output=True)

    def run(self) -> str:
        """Run the deployment; the flow run's id."""
        deployment = self.ask("GET", "/deployments/name/pretrain-flow/local")
        state = {"type": "SCHEDULED"}
        return self.ask("POST", f"/deployments/{deployment['id']}/create_flow_run", {"state": state})["id"]

    def cancel(self, run: str) -> None:
        self.ask("POST", f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}, "force": False})

    def state(self, run: str) -> str:
        """The name of a flow run's state; empty for the moment in which it has none, or nothing answers."""
        found = self.ask("GET", f"/flow_runs/{run}") or {}
        return str((found.get("state") or {"name": ""})["name"])

    def stage(self, run: str) -> dict[str, Any]:
        """The task run of stage `pretrain` in a flow run. Task runs reach the server as events, a little later."""
        body = {"flow_runs": {"id": {"any_": [run]}}, "task_runs": {"name": {"any_": ["pretrain"]}}}
        return self.until(lambda: self.ask("POST", "/task_runs/filter", body), "the task run")[0]

    def wait(self, run: str, *names: str, seconds: float = PATIENCE) -> str:
        """Wait until a flow run has a state of one of `names`; which one."""

        def reached() -> str:
            state = self.state(run)
            return state if state in names else ""

        return self.until(reached, f"run {run}: {names}", seconds)

    def at_work(self) -> int:
        """Wait for a checkpoint that is new; its step."""
        before = set(self.training.steps())
        self.until(lambda: bool(set(self.training.steps()) - before), "a checkpoint")
        return self.training.steps()[-1]

    def went_on_from(self, step: int) -> None:
        """Wait for the word of a training that it does: a log comes a moment after what it tells."""
        said = f"going on from the checkpoint of step {step}"
        self.until(lambda: said in self.log("worker"), said)

    def ended(self, names: str, within: float) -> float:
        """Wait until no process with one of `names` in its command works in the tree; the seconds that took."""
        began = time.monotonic()
        self.until(lambda: not self.processes(names), f"the end of {names}", within)
        return time.monotonic() - began

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The API's answer; None where nothing answers. A server that is too busy is asked again, as Prefect does."""
        url = f"http://127.0.0.1:{self.port}/api{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        for wait in (0.5, 1, 2, 4, None):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code != 503 or wait is None:
                    raise AssertionError(f"{method} {path}: {error.read().decode()}") from None
                time.sleep(wait)
            except OSError:
                return None
        raise AssertionError("unreachable")

    def until(self, ready: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
        """Ask until `ready` gives something; that."""
        deadline = time.monotonic() + seconds
        while not (found := ready()):
            assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s\n{self.log('worker')[-5000:]}"
            time.sleep(0.05)
        return found

    def processes(self, names: str = "") -> list[psutil.Process]:
        """Those that work in this tree and have one of `names`, a pattern, in their command, without the server and the
        worker."""
        services = {service.pid for service in (self.server, self.worker) if service is not None}
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                ours = Path(process.cwd()).is_relative_to(self.root) and process.pid not in services
                if ours and re.search(names, " ".join(process.cmdline())):
                    found.append(process)
        return found

    def mlflow_runs(self) -> list[tuple[str, str]]:
        """(id, status) of the runs of stage `pretrain`, the oldest first."""
        client = MlflowClient(f"sqlite:///{self.root / 'mlflow.db'}")
        (experiment,) = [found for found in client.search_experiments() if found.name == "bert-pretraining"]
        runs = client.search_runs([experiment.experiment_id], "tags.stage = 'pretrain'", order_by=["start_time ASC"])
        return [(run.info.run_id, run.info.status) for run in runs]

    def stop(self) -> None:
        for service in (self.worker, self.server):
            if service is not None and service.poll() is None:
                os.killpg(service.pid, signal.SIGKILL)
                service.wait()
        for process in self.processes():
            process.kill()


VALUES = params(max_steps=6000, checkpoint_steps=50, eval_steps=1000, logging_steps=100)
"""Long enough that four harms fall into it: after each the training may go on for some 10 seconds unharmed, in which a
quick processor takes 1,500 steps."""


def undisturbed(root: Path) -> Training:
    """The training of `serving`, done without Prefect and DVC."""
    training = Training(prepare(root, VALUES))
    assert training.finish() == 0, training.log.read_text()
    return training


@contextlib.contextmanager
def serving(root: Path, values: dict[str, Any] = VALUES, **extra: str) -> Iterator[Project]:
    """A project with a server, a worker and the deployment, with `extra` in their environment, and `values` as
    parameters.

    All on one core: the number of threads decides the bits, and `undisturbed` trains with one.
    """
    project, cores = Project(prepare_project(root, values), extra=extra), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        project.start_server()
        project.start_worker()
        project.deploy()
        yield project
    finally:
        os.sched_setaffinity(0, cores)
        project.stop()


@dataclass(frozen=True)
class Harm:
    """What was done to a run, and what came of it."""

    injected: str
    outcome: str
    seconds: float
    """From the harm to the end of the training's last process."""
    resumed: list[int] = field(default_factory=list)
    """The step that the next attempt went on from, as its log says."""


TRAINING = r"tasks\.(pretrain|training)"
"""In the commands of the stage and of the training's processes, which may outlive it by a checkpoint."""
LIMIT = 30.0
"""Seconds that a training may take to end."""


def cancelled(project: Project) -> tuple[Harm, str]:
    """A run that is cancelled, while a second one and a plain `dvc repro` ask for the tree. And the second run's id,
    which begins when the first has ended."""
    run = project.run()
    project.at_work()
    second = project.run()
    project.until(lambda: "queued: another run works in this tree" in project.log("worker"), "the queue")
    command = [sys.executable, "-m", "dvc", "repro"]
    plain = subprocess.run(command, cwd=project.root, env=project.environment, capture_output=True, text=True)
    assert plain.returncode and "is busy, it is being blocked by" in plain.stderr and "dvc" in plain.stderr
    assert project.state(second) == "Running" and project.processes(TRAINING)
    project.cancel(run)
    seconds = project.ended(TRAINING, LIMIT)
    assert [status for _, status in project.mlflow_runs()] == ["KILLED"]
    assert project.wait(run, "Cancelled", "Failed", "Crashed") == "Cancelled"
    project.until(lambda: project.stage(run)["state_name"] != "Running", "the end of the task run")
    task = project.stage(run)
    assert (task["state_name"], task["run_count"]) == ("Cancelled", 1), "a cancelled stage is not tried again"
    step = project.training.steps()[-1]
    assert f"stopped: at step {step} of" in project.log("worker")
    outcome = "Cancelled, not tried again; the second run waited for its end, `dvc repro` was refused"
    return Harm("Cancellation of the flow run", outcome, seconds, [step]), second


def worker_killed(project: Project, run: str) -> Harm:
    """The worker of a run gets SIGKILL: nothing trains on unseen; a new worker and a new run go on."""
    before = project.training.steps()[-1]
    project.at_work()
    project.went_on_from(before)
    assert project.worker is not None
    project.worker.kill()
    project.worker.wait()
    seconds = project.ended(TRAINING, LIMIT)
    project.start_worker()
    state = project.wait(run, "Crashed", "Cancelled", "Failed")
    steps = project.training.steps()[-1:]
    return Harm("SIGKILL of the worker", f"run {state}, training stopped", seconds, steps)


def process_killed(project: Project) -> tuple[Harm, str]:
    """The training process of a new run gets SIGKILL: the stage is tried again. And that run's id."""
    run, before = project.run(), project.training.steps()[-1]
    project.at_work()
    project.went_on_from(before)
    process = max(project.processes("tasks.training.process"), key=lambda found: len(found.parents()))
    began = time.monotonic()
    process.kill()
    seconds = project.ended(TRAINING, LIMIT)
    step = project.training.steps()[-1]
    project.went_on_from(step)
    task = project.stage(run)
    assert task["run_count"] == 2
    outcome = f"the stage was tried again, and went on {time.monotonic() - began:.1f} s after the kill"
    return Harm("SIGKILL of the training process below the flow", outcome, seconds, [step]), run


def server_killed(project: Project, run: str) -> Harm:
    """The server gets SIGKILL while the run trains: the training ends as if nothing had been, and DVC records it."""
    assert project.server is not None
    step = project.at_work()
    os.killpg(project.server.pid, signal.SIGKILL)
    project.server.wait()
    began = time.monotonic()
    project.training.goes_on(lambda: bool(project.processes(TRAINING)))
    seconds = time.monotonic() - began
    project.until((project.root / "dvc.lock").is_file, "dvc.lock")
    project.start_server()
    project.ended("prefect.engine", 2 * PATIENCE)
    if project.worker is None or project.worker.poll() is not None:
        project.start_worker()
    outcome = f"trained on from step {step} to its end without it, result in dvc.lock"
    outcome += f"; with it again, the run was {project.state(run)}"
    return Harm("SIGKILL of the Prefect server", outcome, seconds)


def change(project: Project) -> None:
    """Another parameter, so that there is something to train again."""
    file = project.root / "params.yaml"
    file.write_text(file.read_text().replace("warmup_steps: 2", "warmup_steps: 3"))


def beside_dvc_repro(project: Project) -> Harm:
    """A run of the deployment while a plain `dvc repro` works in the tree."""
    repro = project.start("repro", "-m", "dvc", "repro")
    project.at_work()
    run = project.run()
    assert project.wait(run, "Failed", "Completed", "Crashed") == "Failed"
    message = project.ask("GET", f"/flow_runs/{run}")["state"]["message"]
    assert "another dvc works on the same files: (PID " in message, message
    assert "wait for it, then run this again" in message, message
    assert repro.poll() is None and project.processes(TRAINING), "the first is not disturbed"
    os.killpg(repro.pid, signal.SIGINT)
    seconds = project.ended(TRAINING, LIMIT)
    repro.wait(30)
    outcome = "refused: another dvc works on the same files, named with its process; the first is not disturbed"
    return Harm("A run of the deployment beside a plain `dvc repro`", outcome, seconds)
