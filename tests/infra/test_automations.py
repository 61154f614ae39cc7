"""infra/automations.yaml and infra/notifications.yaml at work: a Prefect server that runs again what crashed or was
lost, and says so."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.faults import prefect_runs
from tests.faults.prefect_runs import Project
from tests.faults.trainings import params
from tests.import_closure import ROOT

pytestmark = pytest.mark.slow

VALUES = params(max_steps=2000, checkpoint_steps=50, eval_steps=1000, logging_steps=100)
ENGINE = "prefect.engine"
"""In the command of a flow run's process."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Its runs give a sign of life every half minute, the least that Prefect allows."""
    root = tmp_path_factory.mktemp("automations") / "tree"
    with prefect_runs.serving(root, VALUES, PREFECT_FLOWS_HEARTBEAT_FREQUENCY="30") as project:
        yield project


def end_of(project: Project, run: str) -> str:
    """The state of a run that has come to its end, however long that takes while its training goes on."""
    ends = ("Completed", "Failed")
    project.training.goes_on(lambda: project.state(run) not in ends)
    return project.state(run)


def create(project: Project, file: Path) -> None:
    command = [sys.executable, "-m", "prefect", "automation", "create", "--from-file", str(file)]
    done = subprocess.run(command, env=project.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def automations(project: Project) -> None:
    """The file as it is, but for a patience of 70 seconds."""
    text = (ROOT / "infra" / "automations.yaml").read_text()
    assert text.count("within: 600") == 1
    quicker = project.root / "automations.yaml"
    quicker.write_text(text.replace("within: 600", "within: 70"))
    create(project, quicker)


@pytest.fixture(scope="module")
def told(project: Project) -> Iterator[list[str]]:
    """What infra/notifications.yaml sends, by a block for webhooks, to a server of this test."""
    received: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url, said = f"http://127.0.0.1:{server.server_port}", {"said": "{{subject}}"}
    code = (
        "from prefect.blocks.notifications import CustomWebhookNotificationBlock as Block\n"
        f"print(Block(name='here', url={url!r}, json_data={said!r}).save('here'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=project.environment, capture_output=True, text=True, check=True
    )
    notifications = project.root / "notifications.yaml"
    text = (ROOT / "infra" / "notifications.yaml").read_text()
    notifications.write_text(text.replace("BLOCK_ID", done.stdout.split()[-1]))
    create(project, notifications)
    yield received
    server.shutdown()
    server.server_close()


def test_a_run_whose_process_was_killed_goes_on(project: Project, automations: None, told: list[str]) -> None:
    run = project.run()
    project.at_work()
    for process in project.processes(ENGINE):
        process.kill()
    project.ended(prefect_runs.TRAINING, prefect_runs.LIMIT)
    step = project.training.steps()[-1]
    project.wait(run, "Crashed")
    project.wait(run, "AwaitingRetry", "Pending", "Running", seconds=300)
    assert end_of(project, run) == "Completed"
    assert f"going on from the checkpoint of step {step}" in project.log("worker")
    assert project.ask("GET", f"/flow_runs/{run}")["run_count"] == 2
    name = project.ask("GET", f"/flow_runs/{run}")["name"]
    project.until(lambda: bool(told), "the notification")
    assert {json.loads(each)["said"] for each in told} == {f"pretrain-flow {name}: Crashed"}


def test_a_run_whose_machine_was_lost_goes_on_when_it_is_back(project: Project, automations: None) -> None:
    prefect_runs.change(project)
    run = project.run()
    project.at_work()
    assert project.worker is not None
    os.killpg(project.worker.pid, signal.SIGKILL)
    project.worker.wait()
    for process in project.processes():
        process.kill()
    assert project.state(run) == "Running", "nobody was left to say otherwise"
    step = project.training.steps()[-1]
    project.start_worker()
    project.wait(run, "Crashed", seconds=150)
    assert end_of(project, run) == "Completed"
    assert f"going on from the checkpoint of step {step}" in project.log("worker")


def test_a_run_that_no_worker_takes_is_told_and_runs_when_one_comes(project: Project, told: list[str]) -> None:
    assert project.worker is not None
    os.killpg(project.worker.pid, signal.SIGTERM)
    project.worker.wait()
    run = project.run()
    project.wait(run, "Late", seconds=120)
    said = f"pretrain-flow {project.ask('GET', f'/flow_runs/{run}')['name']}: Late"
    project.until(lambda: said in [json.loads(each)["said"] for each in told], "the notification")
    project.start_worker()
    assert end_of(project, run) == "Completed"


def test_a_schedule_runs_it_and_stays_when_it_is_deployed_again(project: Project) -> None:
    schedule = ["deployment", "schedule", "create", "pretrain-flow/local", "--interval", "60"]
    prefect = [sys.executable, "-m", "prefect", *schedule]
    subprocess.run(prefect, env=project.environment, capture_output=True, check=True)
    project.deploy()
    deployment = project.ask("GET", "/deployments/name/pretrain-flow/local")
    assert [each["schedule"]["interval"] for each in deployment["schedules"]] == [60.0]
    scheduled = {"flow_runs": {"tags": {"all_": ["auto-scheduled"]}, "state": {"type": {"any_": ["COMPLETED"]}}}}
    project.until(lambda: bool(project.ask("POST", "/flow_runs/filter", scheduled)), "a run by schedule", 300)
