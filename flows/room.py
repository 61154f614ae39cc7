"""This machine's room for stages, divided among all flow runs on it: a global concurrency limit of the Prefect server.

The limit `bertcore-HOST-UID` has a slot for each stage that may run at once (`flows.devices`). `prefect gcl ls` shows
it, and it is waited for on the server, across the trees of a user. Which slots a stage has, and thereby which GPUs or
which of the cores, are locks on files, which the kernel frees however their holder ends.
"""

import contextlib
import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate
from prefect.exceptions import PrefectException
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from bertcore.files import is_locked
from flows.devices import CORES, cuda_devices, stages_at_once
from flows.locks import HeldError, hold, private

LEASE = 60.0
"""Seconds after which the server takes back the slots of a run that was killed."""
POLL = 2.0
"""Seconds between two questions for slots that were not free."""
BUSY = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds after which a server whose database is busy is asked again."""
FORGOTTEN = 10.0
"""Seconds for which all slots may be taken though no process of this machine has one, until they are freed: a run was
killed, or the server, whose leases are gone and with them what would have freed the slots."""


class StoppedWaitingError(Exception):
    """The run is being stopped, and the stage has not begun."""


def limit_name() -> str:
    """Of this user: whether a slot is held is seen in files that are the user's own."""
    return f"bertcore-{socket.gethostname()}-{os.getuid()}"


def open_room() -> None:
    """Make the limit on the server, or give it this machine's number of slots. ValueError where no slot can be held."""
    _slot(0)
    with get_client(sync_client=True) as client:
        client.upsert_global_concurrency_limit_by_name(limit_name(), stages_at_once())


@contextlib.contextmanager
def room(slots: int, stopping: threading.Event, say: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Wait for `slots` of the machine's slots (all, where it has fewer) and hold them for the block.

    Yields the variables by which the stage keeps to its share. `say` is called with a line if it has to wait. Raises
    `StoppedWaitingError` when `stopping` is set meanwhile.
    """
    total = stages_at_once()
    slots = min(slots, total)
    with contextlib.ExitStack() as stack:
        _acquire(stack, slots, stopping, say)
        numbers = [_lock_slot(stack, total, stopping) for _ in range(slots)]
        yield share(numbers, total)


def share(numbers: list[int], total: int) -> dict[str, str]:
    """What the holder of the slots `numbers` among `total` is told: its GPUs; without any GPU, its cores."""
    if devices := cuda_devices():
        count = len(devices)
        chosen = {index for index in range(count) for slot in numbers if slot == index % total or slot % count == index}
        own = [devices[index] for index in sorted(chosen)]
        return {"CUDA_VISIBLE_DEVICES": ",".join(own)} if len(own) < len(devices) else {}
    if len(numbers) == total or not hasattr(os, "sched_getaffinity"):
        return {}
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < total:
        return {}
    return {CORES: ",".join(str(core) for index, core in enumerate(cores) if index * total // len(cores) in numbers)}


def _acquire(stack: contextlib.ExitStack, slots: int, stopping: threading.Event, say: Callable[[str], None]) -> None:
    """Hold `slots` of the server's slots until `stack` closes; a server that does not answer is asked again."""
    told, full_since = "", time.monotonic()
    while not stopping.wait(POLL if told else 0.0):
        reason = _ask(stack, slots)
        if reason is None:
            return
        if reason != told:
            say(f"waiting for {slots} of the slots of {limit_name()}: {reason}")
            told = reason
        if _any_slot_held():
            full_since = time.monotonic()
        elif time.monotonic() - full_since > FORGOTTEN:
            _free_forgotten()
            full_since = time.monotonic()
    raise StoppedWaitingError


def _ask(stack: contextlib.ExitStack, slots: int) -> str | None:
    """None where the slots were granted, else why not."""
    try:
        answer = _take(slots)
    except httpx.HTTPStatusError as error:
        return "all are taken" if error.response.status_code == httpx.codes.LOCKED else str(error).splitlines()[0]
    except (httpx.HTTPError, PrefectException) as error:
        return f"the Prefect server does not answer ({str(error) or type(error).__name__})"
    lease, ended = UUID(answer.json()["lease_id"]), threading.Event()
    threading.Thread(target=_renew, args=(lease, ended), daemon=True, name="room-lease").start()
    stack.callback(_release, lease)
    stack.callback(ended.set)
    return None


def _take(slots: int) -> httpx.Response:
    """The server's answer. While its database is busy, for some milliseconds after each stage, it says 503, upon which
    Prefect's client would wait for two seconds: here it is asked again sooner."""
    for pause in (*BUSY, None):
        try:
            with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), get_client(sync_client=True) as client:
                return client.increment_concurrency_slots_with_lease([limit_name()], slots, "concurrency", LEASE)
        except httpx.HTTPStatusError as error:
            if pause is None or error.response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                raise
            time.sleep(pause)
    raise AssertionError("unreachable")


def _renew(lease: UUID, ended: threading.Event) -> None:
    while not ended.wait(LEASE / 4):
        with contextlib.suppress(httpx.HTTPError, PrefectException), get_client(sync_client=True) as client:
            client.renew_concurrency_lease(lease, LEASE)


def _release(lease: UUID) -> None:
    """Where nobody answers, the lease ends by itself."""
    with contextlib.suppress(httpx.HTTPError, PrefectException), get_client(sync_client=True) as client:
        client.release_concurrency_slots_with_lease(lease)


def _free_forgotten() -> None:
    with contextlib.suppress(httpx.HTTPError, PrefectException), get_client(sync_client=True) as client:
        client.update_global_concurrency_limit(limit_name(), GlobalConcurrencyLimitUpdate(active_slots=0))


def _lock_slot(stack: contextlib.ExitStack, total: int, stopping: threading.Event) -> int:
    """Hold the first slot that nobody has; its number. The server has granted one: it is free, or will be at once."""
    while not stopping.is_set():
        for number in range(total):
            with contextlib.suppress(HeldError):
                stack.enter_context(hold(_slot(number), f"process {os.getpid()}"))
                return number
        stopping.wait(0.1)
    raise StoppedWaitingError


def _any_slot_held() -> bool:
    return any(is_locked(_slot(number)) for number in range(stages_at_once()))


def _slot(number: int) -> Path:
    """Below the home, which other machines may share: all runs of a user see the same one, whatever their TMPDIR."""
    server = hashlib.sha256(_one_spelling(str(PREFECT_API_URL.value())).encode()).hexdigest()[:12]
    return private(Path.home() / ".cache" / "bertcore" / limit_name()) / f"{server}-{number}"


def _one_spelling(url: str) -> str:
    """Of a server's address: this machine's loopback has several names."""
    parts = urlsplit(url)
    host = "127.0.0.1" if parts.hostname in ("localhost", "::1") else parts.hostname
    return f"{host}:{parts.port}{parts.path.rstrip('/')}"
