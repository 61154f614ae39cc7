"""infra/compose.yaml in real containers: a deployment runs through all of them, and a worker that is stopped leaves a
checkpoint behind.

The images are not made here: build bertcore:cpu as infra/README.md says, and `docker compose pull` the others.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.conftest import SLOW_TO_STOP, Tree, make_tree
from tests.flows.test_launch import STAGES
from tests.infra import compose
from tests.infra.parts import needs_program
from tests.samples import free_port
from tests.waiting import until

DOCKER = needs_program("docker")

pytestmark = pytest.mark.slow

SECRETS = {"POSTGRES_PASSWORD": "apassword", "S3_ACCESS_KEY": "akeyakey", "S3_SECRET_KEY": "asecretkey"}


class Containers:
    """The compose file's services for the tree, as a project of their own on ports of their own."""

    def __init__(self, root: Path) -> None:
        self.project = f"bertcore-test-{os.getpid()}"
        self.ports = {name: str(free_port()) for name in ("PREFECT_PORT", "MLFLOW_PORT")}
        place = {"BERTCORE_TREE": str(root), "BERTCORE_USER": f"{os.getuid()}:{os.getgid()}"}
        self.variables = {**SECRETS, **self.ports, **place}
        self.prefect = f"http://127.0.0.1:{self.ports['PREFECT_PORT']}/api"

    def images(self) -> set[str]:
        return {service["image"] for service in compose.services(self.variables).values()}

    def compose(self, *arguments: str) -> str:
        command = [DOCKER, "compose", "--project-name", self.project, "--file", str(compose.FILE), *arguments]
        environment = os.environ | self.variables
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr[-3000:]}"
        return done.stdout

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.prefect + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def until(self, ready: Callable[[], bool], seconds: float = 240.0) -> None:
        until(ready, lambda: self.compose("logs", "--tail=40")[-6000:], seconds)

    def run(self) -> str:
        """A new run of the deployment."""
        deployment = self.ask("GET", "/deployments/name/pretrain-flow/local")
        body = {"state": {"type": "SCHEDULED"}}
        return str(self.ask("POST", f"/deployments/{deployment['id']}/create_flow_run", body)["id"])

    def state(self, run: str) -> str:
        return str(self.ask("GET", f"/flow_runs/{run}")["state"]["name"])


@pytest.fixture
def tree() -> Iterator[Tree]:
    """The toy pipeline, at a place that is mounted into the worker."""
    place = Path(tempfile.mkdtemp(prefix="bertcore-containers-"))
    tree = make_tree(place / "tree")
    (tree.root / "stage.py").write_text(SLOW_TO_STOP)
    yield tree
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def containers(tree: Tree) -> Iterator[Containers]:
    found = Containers(tree.root)
    _needs(found.images())
    try:
        found.compose("up", "--detach")
        yield found
    finally:
        found.compose("down", "--volumes")


def _needs(images: set[str]) -> None:
    """Skip where there is no daemon, no compose, or not all of the images."""
    for command in (["info"], ["compose", "version"], *(["image", "inspect", image] for image in sorted(images))):
        if subprocess.run([DOCKER, *command], capture_output=True, check=False).returncode:
            pytest.skip(f"docker {' '.join(command)} failed: see infra/README.md, Servers of a team")


def test_a_run_goes_through_all_containers_and_a_stopped_worker_leaves_a_checkpoint(
    containers: Containers, tree: Tree
) -> None:
    containers.until(lambda: bool(containers.ask("POST", "/work_pools/filter", {})))
    environment = tree.environment | {"PREFECT_API_URL": containers.prefect}
    deploy = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    subprocess.run(deploy, cwd=tree.root, env=environment, check=True, capture_output=True)

    (tree.root / "slow-pretrain").touch()
    containers.run()
    containers.until(lambda: "pretrain  " in containers.compose("logs", "worker"))
    containers.compose("stop", "worker")
    assert (tree.root / "stopped").read_text() == "pretrain"

    (tree.root / "slow-pretrain").unlink()
    containers.compose("start", "worker")
    again = containers.run()
    containers.until(lambda: containers.state(again) in ("Completed", "Failed", "Crashed"))
    assert containers.state(again) == "Completed", containers.compose("logs", "worker")[-5000:]
    assert sorted(tree.runs()) == sorted([*STAGES, "pretrain"])

    for service, port in (("prefect-server", 4200), ("mlflow", 5000)):
        assert containers.compose("port", service, str(port)).startswith("127.0.0.1:")
    logs = containers.compose("logs")
    assert [secret for secret in SECRETS.values() if secret in logs] == []
