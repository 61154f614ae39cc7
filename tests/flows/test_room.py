"""How a machine's room is divided: which GPUs or cores a stage gets. The server's limit is in test_side_by_side.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows import room
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


def test_slots_are_the_same_whatever_the_directory_for_temporary_files_and_the_servers_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two such runs would not see each other, and other users could lay something there."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    show = "from flows import room; print(room._slot(1))"
    shown = set()
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4207/api")
    for name, host in (("a", "127.0.0.1"), ("b", "localhost")):
        (tmp_path / name).mkdir()
        environment = os.environ | {"TMPDIR": str(tmp_path / name), "PREFECT_API_URL": f"http://{host}:4207/api"}
        done = subprocess.run([sys.executable, "-c", show], env=environment, capture_output=True, text=True, check=True)
        shown.add(done.stdout.strip())
    assert len(shown) == 1
    place = room._slot(1).parent
    assert place.is_relative_to(tmp_path / "home") and place.stat().st_mode & 0o777 == 0o700
