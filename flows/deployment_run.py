"""A deployment of this tree, run and shown from nothing: what `make pretrain` and `make finetune` have in common.

Starts a Prefect server and a worker where none runs, deploys, runs the deployment as `prefect deployment run` would,
follows the run, and stops what it started.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from bertcore.files import unwritable
from flows import prefect_api, server
from flows.deployment import POOL, TAG, Workers, clear_leftovers, deploy, name_of_the_tree
from flows.environment import project_environment
from flows.locks import HeldError, hold

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from rich.console import Console

    from flows.follow import Watched

    Completed = Callable[[SyncPrefectClient, Watched, Console], int]

CANCEL_TIMEOUT = 45.0
"""Seconds that a cancelled run may take: stages get 25 to write a checkpoint, Prefect kills after 30."""


def launched(command: str, work: Callable[[], int]) -> int:
    """The exit status of `work`, which is what `command` does, alone in this tree: its own, 1 with one line where
    nothing can be run, 130 where it is stopped."""
    server.end_as_by_ctrl_c()
    try:
        Path.home()
        # Prefect reads its settings from the environment when it is imported, which is after this.
        os.environ.update(project_environment())
    except RuntimeError as error:  # of a user without a home
        return _refuse(f"{str(error).rstrip('.')}; set HOME, and write paths without ~")
    if found := unwritable(server.STATE):
        return _refuse(f"{': '.join(map(str, found))}; work in a clone that this user may write to")
    try:
        with hold(server.STATE / "launch.lock", f"{command}, process {os.getpid()}"):
            return work()
    except HeldError as holder:
        return _refuse(f"this tree has a run that was started already ({holder}); wait for it or stop it there")
    except server.LaunchError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        print("stopped before the pipeline ran", file=sys.stderr)
        return 130


def run_deployment(flow: str, parameters: Mapping[str, Any], completed: "Completed") -> int:
    """Run this tree's deployment of `flow` and show it to its end; the exit status, that of `completed` where the run
    is. Raises LaunchError where it cannot be started."""
    environment = dict(os.environ)
    with contextlib.ExitStack() as stack:
        prefect = server.find_or_start(environment)
        stack.callback(prefect.stop)
        environment["PREFECT_API_URL"] = prefect.url
        os.environ.update(environment)
        print(f"Prefect server: {prefect.page} ({'started' if prefect.service else 'was running'})", flush=True)

        from prefect.client.orchestration import get_client

        from flows.follow import Follower, status_table

        console = console_of()
        stack.enter_context(_in_one_line(prefect.url))
        client = stack.enter_context(get_client(sync_client=True))
        if prefect.own:
            clear_leftovers(client)
        pool = POOL if prefect.own else name_of_the_tree()
        workers = Workers(client, environment, stack, pool)
        if prefect.service is not None or not workers.online():
            workers.start()
        server.until(workers.pool_exists, workers.started, f"the work pool {pool!r}")
        deployment = deploy(client, environment, flow, own=prefect.own)
        run_id = _create_run(client, deployment, parameters)
        follower = Follower(client, run_id, console)
        print(f"flow run {follower.watched.run.name}: {prefect.page}/runs/flow-run/{run_id}", flush=True)
        try:
            watched = follower.follow(check=lambda: _check(prefect.service, workers.started), unclaimed=workers.start)
        except KeyboardInterrupt:
            return _cancel(client, run_id)
        if watched.stages:
            console.print()
            console.print(status_table(watched))
        if not watched.state.is_completed():
            reason = watched.state.message or "no reason given"
            console.print(f"\n{watched.state.name}: {reason}", markup=False, soft_wrap=True)
            return 1
        return completed(client, watched, console)


def console_of() -> "Console":
    """The terminal; a file or a pipe has no width of its own, and the table of results needs this much."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 130)


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
            said = f"refuses the password, or that there is none; set {prefect_api.PASSWORD} as the server has it"
        raise server.LaunchError(f"the Prefect server at {url}: {said}") from error


def _create_run(client: "SyncPrefectClient", deployment: str, parameters: Mapping[str, Any]) -> UUID:
    found = client.read_deployment_by_name(deployment)
    return client.create_flow_run_from_deployment(found.id, parameters=dict(parameters), tags=[TAG]).id


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
                print("cancelled; the same command goes on where it was")
                return 130
            time.sleep(0.5)
    print("ended without Prefect's confirmation; the same command goes on from the last checkpoint", file=sys.stderr)
    return 130


def _check(*services: server.Service | None) -> None:
    """Raises LaunchError when a service that this command started has ended: the run would never end."""
    for service in services:
        if service is not None:
            service.check()


def _refuse(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 1
