"""How a machine's room is divided: who waits for whom, and which GPUs or cores a stage gets."""

import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from flows.devices import CORES
from flows.room import POLL, StoppedWaitingError, room, share, slots_directory
from tests.waiting import until


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


def test_slots_are_the_same_whatever_the_directory_for_temporary_files_and_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two such runs would not see each other, and other users could lay something there."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    show = "from flows import room; print(room.slots_directory())"
    shown = set()
    for name, port in (("a", 4207), ("b", 4208)):
        (tmp_path / name).mkdir()
        environment = os.environ | {"TMPDIR": str(tmp_path / name), "PREFECT_API_URL": f"http://127.0.0.1:{port}/api"}
        done = subprocess.run([sys.executable, "-c", show], env=environment, capture_output=True, text=True, check=True)
        shown.add(done.stdout.strip())
    assert len(shown) == 1
    place = slots_directory()
    assert place.is_relative_to(tmp_path / "home") and place.stat().st_mode & 0o777 == 0o700


@pytest.fixture
def two_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("BERTCORE_STAGES_AT_ONCE", "2")


def work(slots: int, entered: "queue.Queue[int]", leave: threading.Event, said: list[str]) -> threading.Thread:
    """A stage that takes `slots`, says so, and holds them until it may leave."""

    def run() -> None:
        with room(slots, threading.Event(), said.append):
            entered.put(slots)
            leave.wait(60)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.usefixtures("two_slots")
def test_stages_wait_for_slots_and_two_that_want_all_do_not_wait_for_each_other() -> None:
    entered, leave, said = queue.Queue[int](), [threading.Event() for _ in range(4)], list[str]()
    first, second = (work(1, entered, each, said) for each in leave[:2])
    assert [entered.get(timeout=60), entered.get(timeout=60)] == [1, 1]
    said.clear()  # on a busy machine one may have waited for the other's turn
    alls = [work(2, entered, each, said) for each in leave[2:]]
    until(lambda: len(said) == 2, lambda: str(said), 60)
    assert entered.empty()
    assert all(line.startswith("waiting for 2 of the 2 slots of ") for line in said)
    leave[0].set()
    time.sleep(2 * POLL)
    assert entered.empty()
    leave[1].set()
    assert entered.get(timeout=60) == 2
    time.sleep(2 * POLL)
    assert entered.empty()
    leave[2].set()
    leave[3].set()
    assert entered.get(timeout=60) == 2
    for thread in (first, second, *alls):
        thread.join(60)


@pytest.mark.usefixtures("two_slots")
def test_a_stage_that_waits_can_be_stopped_and_leaves_what_it_has_gathered() -> None:
    stopping, began = threading.Event(), time.monotonic()
    with room(1, threading.Event(), print):
        threading.Timer(POLL, stopping.set).start()
        with pytest.raises(StoppedWaitingError), room(2, stopping, print):
            raise AssertionError("one of the two is taken")
        with room(1, threading.Event(), print) as shared:
            assert shared
    assert time.monotonic() - began < 30


@pytest.mark.usefixtures("two_slots")
def test_slots_of_a_killed_process_are_free() -> None:
    show = (
        "import threading, time\nfrom flows.room import room\n"
        "with room(2, threading.Event(), print): print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", show], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        process.kill()
        process.wait()
        with room(2, threading.Event(), pytest.fail) as shared:
            assert shared == {}
