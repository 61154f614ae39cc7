"""How a machine's room is divided: which GPUs or cores a stage gets. The server's limit is in test_side_by_side.py."""

import os
import subprocess
import sys

import pytest

from flows.devices import CORES
from flows.room import share


@pytest.mark.parametrize(
    ("devices", "numbers", "total", "own"),
    [
        ("0,1,2,3", [1], 4, "1"),
        ("0,1,2,3", [0, 2], 4, "0,2"),
        ("0,1,2,3", [0, 1, 2, 3], 4, None),
        ("0,1,2,3", [1], 2, "1,3"),
        ("0,1,2,3", [0], 1, None),
        ("0,1", [3], 4, "1"),
        ("GPU-a,GPU-b", [0], 2, "GPU-a"),
    ],
)
def test_gpus_go_to_the_slots_in_turn(
    devices: str, numbers: list[int], total: int, own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)
    assert share(numbers, total) == ({} if own is None else {"CUDA_VISIBLE_DEVICES": own})


@pytest.mark.parametrize("total", [1, 2, 3, 4])
def test_without_gpus_every_core_belongs_to_one_slot(total: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 5, 6, 7, 9}, raising=False)
    shares = [share([number], total).get(CORES) for number in range(total)]
    if total == 1:
        assert shares == [None]
    else:
        cores = [int(core) for text in shares for core in (text or "").split(",")]
        assert sorted(cores) == [4, 5, 6, 7, 9]
    assert share(list(range(total)), total) == {}


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="this system does not tell which cores a process may use"
)
def test_the_guard_keeps_a_stage_to_its_cores() -> None:
    core = max(os.sched_getaffinity(0))
    show = "import os; print(os.sched_getaffinity(0), 'BERTCORE_CORES' in os.environ)"
    command = [sys.executable, "-m", "flows.guard", "SIGTERM", "1", sys.executable, "-c", show]
    environment = os.environ | {CORES: str(core)}
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command, env=environment, **options) as process:  # type: ignore[call-overload]
        assert process.stdout.readline().strip() == f"{{{core}}} False"
        process.stdin.close()
