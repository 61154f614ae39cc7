"""What a Prefect server must have before this tree's flow runs on it: a worker of its work pool, and the deployment."""

import contextlib
import hashlib
import os
import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from flows import server
from flows.environment import END_WITH_WORKER, ROOT, run_to_end
from flows.locks import PIPELINE, HeldError, hold
from flows.trees import is_at_work
from tasks.processes import checkpoint_grace

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

POOL = "local"
"""The deployments and their work pool, as prefect.yaml names them; on a server of others, both have the tree's name."""
FLOWS = ("pretrain", "finetune", "sweep")
"""Modules of the flows that prefect.yaml deploys."""
DEPLOYED = server.STATE / "deployed"
"""What was deployed on the tree's own server."""
TAG = "make-pretrain"
"""Of the runs, and in the names of the workers, that `make pretrain` and `make finetune` start."""
_AFTER_STAGES = 10
"""Seconds that a worker and the run below it get to end, once the stages have had theirs."""


class Workers:
    """The workers of the pool; at most one of them started here."""

    def __init__(
        self, client: "SyncPrefectClient", environment: dict[str, str], stack: contextlib.ExitStack, pool: str
    ) -> None:
        self._client, self._environment, self._stack, self._pool = client, environment, stack, pool
        self.started: server.Service | None = None

    def online(self) -> bool:
        if not self.pool_exists():
            return False
        workers = self._client.read_workers_for_work_pool(self._pool)
        # A worker counts as online for 90 s after its end; those of earlier `make`s have certainly ended.
        return any(worker.status == "ONLINE" and not worker.name.startswith(TAG) for worker in workers)

    def pool_exists(self) -> bool:
        from prefect.exceptions import ObjectNotFound

        try:
            self._client.read_work_pool(self._pool)
        except ObjectNotFound:
            return False
        return True

    def start(self) -> None:
        if self.started is not None:
            return
        # Somebody waits for its one run: ask each second instead of every ten, and end the flow with this worker.
        environment = {**self._environment, "PREFECT_WORKER_QUERY_SECONDS": "1", END_WITH_WORKER: "1"}
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", self._pool, "--type", "process"]
        command += ["--name", f"{TAG}-{os.getpid()}"]
        self.started = server.start("Prefect worker", command, environment, grace=checkpoint_grace() + _AFTER_STAGES)
        self._stack.callback(self.started.stop)


def clear_leftovers(client: "SyncPrefectClient") -> None:
    """Close the runs that a killed `make pretrain` or `make finetune` left open.

    A run that a worker of the user's still drives holds the pipeline's lock or that of its own tree, and stays.
    """
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
        FlowRunFilterTags,
    )
    from prefect.client.schemas.objects import TERMINAL_STATES
    from prefect.states import Crashed

    unfinished = FlowRunFilterState(type=FlowRunFilterStateType(not_any_=sorted(TERMINAL_STATES)))
    left = FlowRunFilter(tags=FlowRunFilterTags(all_=[TAG]), state=unfinished)
    with contextlib.suppress(HeldError), hold(ROOT / PIPELINE, "clearing leftovers"):
        for run in client.read_flow_runs(flow_run_filter=left):
            if not is_at_work(str(run.id)):
                message = "The command that drove this run was killed."
                client.set_flow_run_state(run.id, Crashed(message=message), force=True)


def _prefect(environment: dict[str, str], *arguments: str) -> str:
    """Run Prefect's command line and return what it printed. Raises LaunchError with its last line when it fails."""
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    done = run_to_end(command, ROOT, environment, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise server.LaunchError(f"prefect {' '.join(arguments)}: {' '.join(lines[-3:])}")
    return done.stdout


def deploy(client: "SyncPrefectClient", environment: dict[str, str], flow: str, own: bool) -> str:
    """Deploy this tree's flows, where they are not deployed as they are now; FLOW/DEPLOYMENT.

    On a server that is not this tree's `own`, under a name of the tree and for a work pool of that name: two trees of
    one name would take each other's directory, and a worker of one pool runs that it has no tree for.
    """
    if own:
        deployment = f"{flow}/{POOL}"
        if not _is_deployed(client, deployment):
            _prefect(environment, "deploy", "--all")
            DEPLOYED.write_text(_what_is_deployed(), encoding="utf-8")
        return deployment
    name = name_of_the_tree()
    file = server.STATE / "prefect.yaml"
    text = (ROOT / "prefect.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("name: local\n", f"name: {name}\n"), encoding="utf-8")
    _prefect(environment, "deploy", "--all", "--prefect-file", str(file))
    return f"{flow}/{name}"


def name_of_the_tree() -> str:
    """Of another user's or machine's at the same place, too."""
    place = f"{socket.gethostname()} {os.getuid()} {ROOT}"
    return f"{POOL}-{re.sub(r'[^a-zA-Z0-9._-]+', '-', ROOT.name)}-{hashlib.sha256(place.encode()).hexdigest()[:6]}"


def _is_deployed(client: "SyncPrefectClient", deployment: str) -> bool:
    """Whether the server has the deployment of this very tree as it is now: to deploy anew takes seconds."""
    from prefect.exceptions import ObjectNotFound

    try:
        client.read_deployment_by_name(deployment)
    except ObjectNotFound:
        return False
    return DEPLOYED.is_file() and DEPLOYED.read_text(encoding="utf-8") == _what_is_deployed()


def _what_is_deployed() -> str:
    """A digest of all that a deployment is made from: the place of the tree, its file, and the flow's parameters."""
    digest = hashlib.sha256(str(ROOT).encode())
    for name in ("prefect.yaml", *(f"flows/{name}.py" for name in FLOWS), "requirements.lock"):
        if (ROOT / name).is_file():
            digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()
