"""Independent pieces of work, on the cores of this machine or on an existing Dask cluster.

What is computed never depends on where: a piece is a function of a module and its arguments, it reads and writes files
only, and it may be done twice. `BERTCORE_DASK=tcp://HOST:PORT` names the scheduler of a cluster whose workers see the
same files under the same paths and have this project on their path; without it, processes of this machine are used.
"""

import multiprocessing
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from types import ModuleType
from typing import Any, TypeVar
from uuid import uuid4

from bertcore import cores
from bertcore.allocator import give_back_freed_memory, keep_freed_memory
from bertcore.errors import ConfigError, UnavailableError

SCHEDULER = "BERTCORE_DASK"
AHEAD = 3
"""Pieces for each worker that are taken before their turn: so many, with their results, are in memory at once."""

ANSWER = 2.0
"""Seconds that a scheduler may take to accept a connection, where it is looked for before any work."""

PATIENCE = 60.0
"""Seconds that a cluster may be without a worker, or its scheduler silent, while pieces wait."""

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def run(work: Callable[[Piece], Result], pieces: Iterable[Piece], workers: int | None = None) -> Iterator[Result]:
    """`work` of every piece, in the order of the pieces, which are taken as they are needed: `AHEAD` for each worker.

    `workers`: processes of this machine; None takes one for each core that this process may use. One worker, or one
    piece, is done in this process. A lost worker of a cluster is replaced by another one; `UnavailableError` where none
    is left, or one of this machine dies. `work` is a function of a module, as workers do not import the program.
    """
    _check(work)
    address = os.environ.get(SCHEDULER)
    if address:
        return _on_cluster(work, pieces, address)
    return on_this_machine(work, pieces, workers)


def on_this_machine(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], workers: int | None = None
) -> Iterator[Result]:
    """As `run`, for pieces that a cluster may not see."""
    _check(work)
    workers, pieces = workers or cores.available(), iter(pieces)
    first = list(islice(pieces, 2))
    if workers == 1 or len(first) < 2:
        return map(work, chain(first, pieces))
    return _in_processes(work, chain(first, pieces), workers)


def _check(work: Callable[..., Any]) -> None:
    """Also where one process does it all: small texts need no workers, which large ones do."""
    function = _function(work)
    assert function.__module__ != "__main__", f"{function} is of the program, expected a function of a module"


def _function(work: Callable[..., Any]) -> Callable[..., Any]:
    return work.func if isinstance(work, partial) else work


def check_cluster() -> None:
    """`ConfigError` where a cluster is named at whose address nothing answers."""
    if address := os.environ.get(SCHEDULER):
        dask = _dask(address)
        try:
            socket.create_connection(dask.comm.get_address_host_port(address), ANSWER).close()
        except (OSError, ValueError) as error:
            raise _no_scheduler(address, error) from None


def _in_processes(work: Callable[[Piece], Result], pieces: Iterable[Piece], workers: int) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")  # the caller may hold threads, which a fork would not survive
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=start_worker)
    waiting: deque[Future[Result]] = deque()
    try:
        for piece in pieces:
            with without_program():  # a process is started as its piece comes
                waiting.append(pool.submit(work, piece))
            if len(waiting) >= AHEAD * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise UnavailableError(
            f"one of {workers} worker processes was killed, by another program or because memory ran out; run the "
            "stage again, on fewer cores (`taskset`) if memory is short"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def without_program() -> Iterator[None]:
    """Processes started within import what `work` needs. By default each imports the program first: a stage and all of
    its tracking, two seconds of processor time for work that often takes less."""
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


def start_worker() -> None:
    """Run first in each worker process: it ends with its parent, even when that is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _in_worker(work: Callable[[Piece], Result], piece: Piece) -> Result:
    """A piece, in a worker of a cluster that others have started, which holds none of its memory afterwards."""
    keep_freed_memory()
    try:
        return work(piece)
    finally:
        give_back_freed_memory()


def _on_cluster(work: Callable[[Piece], Result], pieces: Iterable[Piece], address: str) -> Iterator[Result]:
    distributed = _dask(address)
    try:
        client = distributed.Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _no_scheduler(address, error) from None
    waiting: deque[Any] = deque()
    name = _function(work).__name__  # as Dask's own pages show it
    with client:
        try:
            for piece in pieces:
                waiting.append(client.submit(_in_worker, work, piece, key=f"{name}-{uuid4()}"))
                if len(waiting) >= AHEAD * _threads(client):
                    yield _result(waiting.popleft(), client)
            while waiting:
                yield _result(waiting.popleft(), client)
        except (_Lost, distributed.KilledWorker) as error:
            raise UnavailableError(
                f"{SCHEDULER}={address}: the Dask cluster has lost the work: {error}; see the logs of its workers "
                "(memory that ran out is the usual reason), start them again, and run the stage again, or unset the "
                "variable to use this machine's cores"
            ) from None
        except RuntimeError as error:
            if not isinstance(error.__cause__, ImportError):
                raise
            raise ConfigError(
                f"{SCHEDULER}={address}: the Dask cluster cannot import this project ({error.__cause__}); start "
                "scheduler and workers in its directory with the packages of requirements.lock"
            ) from None


def _dask(address: str) -> Any:
    try:
        from dask import distributed
    except ImportError:
        raise ConfigError(
            f"{SCHEDULER}={address}: the package distributed is not installed; run `pip install -r "
            "requirements-dask.lock`, or unset the variable to use this machine's cores"
        ) from None
    return distributed


def _no_scheduler(address: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"{SCHEDULER}={address}: no Dask scheduler answers ({error or type(error).__name__}); start one or correct "
        "the address, or unset the variable to use this machine's cores"
    )


class _Lost(Exception):  # noqa: N818  (becomes an UnavailableError, with the address)
    """Nobody works on the pieces any more."""


def _threads(client: Any) -> int:
    try:
        return max(sum(client.nthreads().values()), 1)
    except OSError:
        return 1  # what is wrong is said where a result is waited for


def _result(future: Any, client: Any) -> Any:
    """The result of a piece; without workers Dask itself would wait for ever."""
    alive = time.monotonic()
    while True:
        try:
            return future.result(timeout=1)
        except CancelledError:
            raise _Lost("the scheduler has forgotten a piece") from None
        except TimeoutError:
            if future.status == "error":  # it is the work's own
                raise
        trouble, now = _trouble(client), time.monotonic()
        alive = alive if trouble else now
        if now - alive > PATIENCE:
            raise _Lost(f"{trouble} for {PATIENCE:.0f} seconds")


def _trouble(client: Any) -> str | None:
    try:
        if client.status == "running":
            # Not client.scheduler_info(), which gives its last answer again where none comes.
            found = client.sync(client.scheduler.identity, n_workers=1)
            return None if found["workers"] else "no worker is there"
    except OSError:  # the connection broke while it was asked
        pass
    return "the scheduler does not answer"
