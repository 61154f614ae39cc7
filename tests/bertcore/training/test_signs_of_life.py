"""Processes that hear of each other through a real store, as threads of this process."""

import threading
import time
from datetime import timedelta

import pytest
from torch.distributed import HashStore, TCPStore

from bertcore.errors import StoppedError
from bertcore.memory import TooLargeError
from bertcore.training import signs_of_life
from bertcore.training.agreement import UnlikeError
from bertcore.training.control import Control
from bertcore.training.signs_of_life import SignsOfLife, store_of


class Lost(list[int]):
    """The ranks of which somebody was told."""

    def __init__(self) -> None:
        self.told = threading.Event()

    def __call__(self, rank: int) -> None:
        self.append(rank)
        self.told.set()


class Muted(SignsOfLife):
    """One that hears the others, and can be made to say nothing any more."""

    muted = False

    def _give(self) -> None:
        while not self.muted and not self._ended.wait(0.2):
            self._store.add(self._names[self._rank], 1)


def test_a_process_that_falls_silent_is_named_to_the_others() -> None:
    store, lost = HashStore(), [Lost() for _ in range(3)]
    lives = [kind(store, rank, 3, lost[rank], 2.0) for rank, kind in enumerate((SignsOfLife, Muted, SignsOfLife))]
    with lives[0], lives[2]:
        threading.Thread(target=lives[1]._give, daemon=True).start()
        time.sleep(3.0)
        assert not any(lost), "all are heard of"
        lives[1].muted = True  # type: ignore[attr-defined]
        assert lost[0].told.wait(10) and lost[2].told.wait(10)
    assert [list(each) for each in lost] == [[1], [], [1]]


def test_one_that_leaves_is_no_loss_to_those_who_stay() -> None:
    store, lost = HashStore(), Lost()
    stays, leaves = SignsOfLife(store, 0, 2, lost, patience=1.0), SignsOfLife(store, 1, 2, lost, patience=1.0)
    with stays:
        with leaves:
            time.sleep(0.5)
        time.sleep(2.5)
    assert not lost


@pytest.mark.parametrize(
    ("error", "expected"), [(StoppedError, []), (UnlikeError, []), (TooLargeError, [1]), (RuntimeError, [1])]
)
def test_one_that_ends_by_an_error_of_its_own_is_lost(error: type[Exception], expected: list[int]) -> None:
    store, lost = HashStore(), Lost()
    stays, leaves = SignsOfLife(store, 0, 2, lost, patience=1.0), SignsOfLife(store, 1, 2, lost, patience=1.0)
    with stays:
        with pytest.raises(error), leaves:
            time.sleep(0.5)
            raise error
        assert lost.told.wait(2.5) == bool(expected)
    assert lost == expected


def test_a_process_that_was_stopped_itself_does_not_blame_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """As SIGSTOP and SIGCONT do it: the clock goes on, and none of its threads has run."""
    store, lost, ahead = HashStore(), Lost(), [0.0]
    monkeypatch.setattr(signs_of_life.time, "monotonic", lambda real=time.monotonic: real() + ahead[0])
    with SignsOfLife(store, 0, 2, lost, patience=2.0), SignsOfLife(store, 1, 2, lost, patience=2.0):
        time.sleep(0.5)
        ahead[0] = 600.0
        time.sleep(1.5)
        assert not lost


def test_where_the_store_does_not_answer_process_0_is_lost() -> None:
    answers = threading.Event()

    class Silent(HashStore):
        def multi_get(self, keys: list[str]) -> list[bytes]:
            answers.wait()
            return [b"0"] * len(keys)

    lost = Lost()
    with SignsOfLife(Silent(), 1, 2, lost, patience=1.0):
        assert lost.told.wait(10)
    answers.set()
    assert lost == [0]


def test_whoever_is_left_when_the_store_has_closed_has_lost_process_0() -> None:
    class Closed(HashStore):
        def multi_get(self, keys: list[str]) -> list[bytes]:
            raise RuntimeError("Connection reset by peer")

    lost = Lost()
    with SignsOfLife(Closed(), 1, 2, lost, patience=1.0):
        pass
    time.sleep(1.5)
    assert not lost, "it has left, too"
    with SignsOfLife(Closed(), 1, 2, lost, patience=1.0):
        assert lost.told.wait(10)
    assert lost == [0]


def test_the_store_is_reached_under_the_address_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    store = store_of(Control(1))
    assert isinstance(store, TCPStore)
    other = TCPStore("127.0.0.1", store.port, wait_for_workers=False, timeout=timedelta(seconds=20))
    assert other.add("0", 2) == store.add("0", 0) == 2
