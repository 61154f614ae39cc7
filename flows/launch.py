"""`make pretrain`: run the pipeline through its Prefect deployment and show it, from nothing to the table of results.

Starts a Prefect server and a worker where none runs, deploys, runs the deployment as `prefect deployment run
'pretrain-flow/local'` would, follows the run, and stops what it started. Exit status: 0 completed, 1 failed or not
started, 130 stopped with Ctrl-C.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from flows import server
from flows.deployment import POOL, TAG, Workers, clear_leftovers, deploy, name_of_the_tree
from flows.environment import REMOTE, ROOT, project_environment
from flows.locks import HeldError, hold
from tasks.reporting.document import SIGNS, TABLES, read_tables
from tasks.reporting.rendering import plain_text

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from rich.console import Console

    from flows.follow import Watched
    from tasks.reporting.document import Table as ReportTable

REPORTS = ROOT / "reports"
CANCEL_TIMEOUT = 45.0
"""Seconds that a cancelled run may take: stages get 25 to write a checkpoint, Prefect kills after 30."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m flows.launch", description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", help="run only these stages of dvc.yaml and what they need")
    stages = parser.parse_args(arguments).stages
    server.end_as_by_ctrl_c()
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
        return _push(environment) or _show_results(stages)
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
            clear_leftovers(client)
        pool = POOL if prefect.own else name_of_the_tree()
        workers = Workers(client, environment, stack, pool)
        if prefect.service is not None or not workers.online():
            workers.start()
        server.until(workers.pool_exists, workers.started, f"the work pool {pool!r}")
        deployment = deploy(client, environment, own=prefect.own)
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
        return _conclude(watched, console, stages)


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
        if isinstance(cause, httpx.HTTPStatusError) and cause.response.status_code == httpx.codes.UNAUTHORIZED:
            said = f"refuses the password, or that there is none; set {server.PASSWORD} as the server has it"
        raise server.LaunchError(f"the Prefect server at {url}: {said}") from error


def _up_to_date(stages: list[str]) -> bool:
    from flows.graph import GraphError, read_graph, select, unchanged
    from tasks.links import other_files

    try:
        selected = select(read_graph(ROOT), stages or None)
        return other_files(ROOT) is None and unchanged(ROOT, selected) == {stage.name for stage in selected}
    except GraphError:
        return False  # the flow tells it


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


def _conclude(watched: "Watched", console: "Console", stages: list[str]) -> int:
    if not watched.state.is_completed():
        reason = watched.state.message or "no reason given"
        console.print(f"\n{watched.state.name}: {reason}", markup=False, soft_wrap=True)
        return 1
    return _show_results(stages)


def _show_results(stages: list[str]) -> int:
    """The report's first table, and where the rest is; nothing where `stages` were run that make no report."""
    if stages and "report" not in stages:
        return 0
    if found := read_tables(REPORTS / TABLES):
        _, results = found[0]
        console = _console()
        console.print()
        _print_table(results, console)
        for table in (table for _, table in found if tuple(table.header) == SIGNS):
            console.print()
            _print_table(table, console)
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


if __name__ == "__main__":
    sys.exit(main())
