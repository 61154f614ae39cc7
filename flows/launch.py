"""`make pretrain`: run the pipeline through its Prefect deployment and show it, from nothing to the table of results.

Starts a Prefect server and a worker where none runs, deploys, runs the deployment as `prefect deployment run
'pretrain-flow/local'` would, follows the run, and stops what it started. Exit status: 0 completed, 1 failed or not
started, 130 stopped with Ctrl-C.
"""

import argparse
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID

from flows import server
from flows.environment import REMOTE, ROOT, project_environment
from flows.locks import PIPELINE, HeldError, hold
from tasks.reporting.document import TABLES, read_tables
from tasks.reporting.rendering import plain_text

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from rich.console import Console

    from flows.follow import Watched
    from tasks.reporting.document import Table as ReportTable

REPORTS = ROOT / "reports"
DEPLOYMENT = "pretrain-flow/local"
POOL = "local"
"""The deployment's work pool, as prefect.yaml names it; on a server of others, a pool of the tree's name."""
FLOWS = ("pretrain", "finetune", "sweep")
"""Modules of the flows that prefect.yaml deploys."""
DEPLOYED = server.STATE / "deployed"
"""What was deployed on the tree's own server."""
TAG = "make-pretrain"
CANCEL_TIMEOUT = 45.0
"""Seconds that a cancelled run may take: stages get 25 to write a checkpoint, Prefect kills after 30."""
WORKER_GRACE = 35.0
"""Seconds that a worker gets to end with the run below it, for the same reason."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m flows.launch", description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", help="run only these stages of dvc.yaml and what they need")
    stages = parser.parse_args(arguments).stages
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` has the hang-up ignored
            signal.signal(number, _interrupt)
    # Prefect reads its settings from the environment when it is imported, which is after this.
    os.environ.update(project_environment())
    try:
        with hold(server.STATE / "launch.lock", f"process {os.getpid()}"):
            return _launch(stages)
    except HeldError as holder:
        return _refuse(f"`make pretrain` runs in this tree already ({holder}); wait for it or stop it there")
    except server.LaunchError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        print("stopped before the pipeline ran", file=sys.stderr)
        return 130


def _launch(stages: list[str]) -> int:
    environment = dict(os.environ)
    if not server.runs(environment) and _up_to_date(stages):
        # A server and a worker, started to be told so, would take a quarter of a minute.
        print("nothing to do: every stage is up to date in dvc.lock")
        return _push(environment) or _show_results()
    with contextlib.ExitStack() as stack:
        prefect = server.find_or_start(environment)
        stack.callback(prefect.stop)
        environment["PREFECT_API_URL"] = prefect.url
        os.environ.update(environment)
        print(f"Prefect server: {prefect.page} ({'started' if prefect.service else 'was running'})", flush=True)

        from prefect.client.orchestration import get_client

        from flows.follow import Follower, status_table

        console = _console()
        stack.enter_context(_in_one_line(prefect.url))
        client = stack.enter_context(get_client(sync_client=True))
        if prefect.own:
            _clear_leftovers(client)
        pool = POOL if prefect.own else _name_of_the_tree()
        workers = _Workers(client, environment, stack, pool)
        if prefect.service is not None or not workers.online():
            workers.start()
        server.until(workers.pool_exists, workers.started, f"the work pool {pool!r}")
        deployment = _deploy(client, environment, own=prefect.own)
        run_id = _run_deployment(client, deployment, stages)
        follower = Follower(client, run_id, console)
        print(f"flow run {follower.watched.run.name}: {prefect.page}/runs/flow-run/{run_id}", flush=True)
        try:
            watched = follower.follow(check=lambda: _check(prefect.service, workers.started), unclaimed=workers.start)
        except KeyboardInterrupt:
            return _cancel(client, run_id)
        if watched.stages:
            console.print()
            console.print(status_table(watched))
        return _conclude(watched, console)


def _push(environment: dict[str, str]) -> int:
    """Give the remote what it misses, which an earlier run could not push; 1 where it cannot be done."""
    if not environment.get(REMOTE):
        return 0
    print(f"{REMOTE}: what is missing there is pushed", flush=True)
    command = [sys.executable, "-m", "flows.remote", "push"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


@contextlib.contextmanager
def _in_one_line(url: str) -> Iterator[None]:
    """What the Prefect server refuses, or cannot answer, as a LaunchError."""
    import httpx
    from prefect.exceptions import ObjectNotFound, PrefectException

    try:
        yield
    except (httpx.HTTPError, PrefectException) as error:
        cause = error.http_exc if isinstance(error, ObjectNotFound) else error
        said = (str(cause) or type(cause).__name__).splitlines()[0]
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == httpx.codes.UNAUTHORIZED:
            said += "; set PREFECT_API_AUTH_STRING as the server has it"
        raise server.LaunchError(f"the Prefect server at {url}: {said}") from error


def _up_to_date(stages: list[str]) -> bool:
    from flows.graph import GraphError, read_graph, select, unchanged

    try:
        selected = select(read_graph(ROOT), stages or None)
        return unchanged(ROOT, selected) == {stage.name for stage in selected}
    except GraphError:
        return False  # the flow tells it


class _Workers:
    """The workers of the pool; at most one of them started here."""

    def __init__(
        self, client: "SyncPrefectClient", environment: dict[str, str], stack: contextlib.ExitStack, pool: str
    ) -> None:
        self._client, self._environment, self._stack, self._pool = client, environment, stack, pool
        self.started: server.Service | None = None

    def online(self) -> bool:
        from prefect.exceptions import ObjectNotFound

        try:
            workers = self._client.read_workers_for_work_pool(self._pool)
        except ObjectNotFound:
            return False
        # A worker counts as online for 90 s after its end; those of earlier `make pretrain`s have certainly ended.
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
        environment = {**self._environment, "PREFECT_WORKER_QUERY_SECONDS": "1", "BERTCORE_END_WITH_WORKER": "1"}
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", self._pool, "--type", "process"]
        command += ["--name", f"{TAG}-{os.getpid()}"]
        self.started = server.start("Prefect worker", command, environment, grace=WORKER_GRACE)
        self._stack.callback(self.started.stop)


def _clear_leftovers(client: "SyncPrefectClient") -> None:
    """Close the runs that a killed `make pretrain` left open.

    A run that a worker of the user's still drives holds the pipeline's lock, and stays.
    """
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
    from prefect.states import Crashed

    with contextlib.suppress(HeldError), hold(ROOT / PIPELINE, "make pretrain"):
        for run in client.read_flow_runs(flow_run_filter=FlowRunFilter(tags=FlowRunFilterTags(all_=[TAG]))):
            if run.state is not None and not run.state.is_final():
                message = "The `make pretrain` that drove this run was killed."
                client.set_flow_run_state(run.id, Crashed(message=message), force=True)


def _prefect(environment: dict[str, str], *arguments: str) -> str:
    """Run Prefect's command line and return what it printed. Raises LaunchError with its last line when it fails."""
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    nothing = subprocess.DEVNULL
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=nothing, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise server.LaunchError(f"prefect {' '.join(arguments)}: {' '.join(lines[-3:])}")
    return done.stdout


def _deploy(client: "SyncPrefectClient", environment: dict[str, str], own: bool) -> str:
    """Deploy this tree's flow, where it is not deployed as it is now; FLOW/DEPLOYMENT.

    On a server that is not this tree's `own`, under a name of the tree and for a work pool of that name: two trees of
    one name would take each other's directory, and a worker of one pool runs that it has no tree for.
    """
    if own:
        if not _is_deployed(client):
            _prefect(environment, "deploy", "--all")
            DEPLOYED.write_text(_what_is_deployed(), encoding="utf-8")
        return DEPLOYMENT
    name = _name_of_the_tree()
    file = server.STATE / "prefect.yaml"
    text = (ROOT / "prefect.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("name: local\n", f"name: {name}\n"), encoding="utf-8")
    _prefect(environment, "deploy", "--all", "--prefect-file", str(file))
    return f"{DEPLOYMENT.partition('/')[0]}/{name}"


def _name_of_the_tree() -> str:
    return f"{POOL}-{ROOT.name}-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:6]}"


def _is_deployed(client: "SyncPrefectClient") -> bool:
    """Whether the server has the deployment of this very tree as it is now: to deploy anew takes seconds."""
    from prefect.exceptions import ObjectNotFound

    try:
        client.read_deployment_by_name(DEPLOYMENT)
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


def _run_deployment(client: "SyncPrefectClient", deployment: str, stages: list[str]) -> UUID:
    found = client.read_deployment_by_name(deployment)
    parameters = {"stages": stages} if stages else {}
    return client.create_flow_run_from_deployment(found.id, parameters=parameters, tags=[TAG]).id


def _cancel(client: "SyncPrefectClient", run_id: UUID) -> int:
    """Ctrl-C: Prefect's own cancellation, which lets the stages write their checkpoints."""
    import httpx
    from prefect.states import Cancelling

    print("\ncancelling: the running stages are asked to stop, which may take half a minute", flush=True)
    with contextlib.suppress(KeyboardInterrupt, httpx.HTTPError):
        client.set_flow_run_state(run_id, Cancelling())
        deadline = time.monotonic() + CANCEL_TIMEOUT
        while time.monotonic() < deadline:
            state = client.read_flow_run(run_id).state
            if state is not None and state.is_final():
                print("cancelled; `make pretrain` goes on where it was")
                return 130
            time.sleep(0.5)
    print("ended without Prefect's confirmation; `make pretrain` goes on from the last checkpoint", file=sys.stderr)
    return 130


def _check(*services: server.Service | None) -> None:
    """Raises LaunchError when a service that this command started has ended: the run would never end."""
    for service in services:
        if service is not None:
            service.check()


def _conclude(watched: "Watched", console: "Console") -> int:
    if not watched.state.is_completed():
        reason = watched.state.message or "no reason given"
        console.print(f"\n{watched.state.name}: {reason}", markup=False, soft_wrap=True)
        return 1
    return _show_results()


def _show_results() -> int:
    """The report's first table, and where the rest is."""
    if found := read_tables(REPORTS / TABLES):
        _, results = found[0]
        console = _console()
        console.print()
        _print_table(results, console)
    page = REPORTS / "report.html"
    if page.is_file():
        print(f"\nThe whole report: {page.relative_to(ROOT)}")
    print("The runs in Prefect and MLflow: make ui")
    return 0


def _console() -> "Console":
    from rich.console import Console

    # A file or a pipe has no width of its own; the table of results needs this much.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 130)


def _print_table(table: "ReportTable", console: "Console") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in table.header:
        shown.add_column(column)
    for row in table.rows:
        shown.add_row(*(Text(plain_text(cell)) for cell in row))
    console.print(shown)


def _refuse(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 1


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
