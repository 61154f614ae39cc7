"""Processes that hear of each other through a real store, as threads of this process."""

import threading
import time
from datetime import timedelta

import pytest
from torch.distributed import HashStore, TCPStore

from bertcore.training.distributed import Control
from bertcore.training.signs_of_life import SignsOfLife, store_of


class Lost(list[int]):
    """The ranks of which somebody was told."""

    def __init__(self) -> None:
        self.told = threading.Event()

    def __call__(self, rank: int) -> None:
        self.append(rank)
        self.told.set()


def test_a_process_that_falls_silent_is_named_to_the_others() -> None:
    store, lost = HashStore(), [Lost() for _ in range(3)]
    lives = [SignsOfLife(store, rank, 3, lost[rank], patience=2.0) for rank in range(3)]
    with lives[0], lives[2]:
        with lives[1]:
            time.sleep(3.0)
            assert not any(lost), "all are heard of"
        assert lost[0].told.wait(10) and lost[2].told.wait(10)
    assert [list(each) for each in lost] == [[1], [], [1]]


def test_where_the_store_does_not_answer_process_0_is_lost() -> None:
    answers = threading.Event()

    class Silent(HashStore):
        def multi_get(self, keys: list[str]) -> list[bytes]:
            answers.wait()
            return [b""] * len(keys)

    lost = Lost()
    with SignsOfLife(Silent(), 1, 2, lost, patience=1.0):
        assert lost.told.wait(10)
    answers.set()
    assert lost == [0]


def test_a_store_that_has_closed_is_no_loss() -> None:
    closed = threading.Event()

    class Closed(HashStore):
        def multi_get(self, keys: list[str]) -> list[bytes]:
            closed.set()
            raise RuntimeError("Connection reset by peer")

    lost = Lost()
    with SignsOfLife(Closed(), 1, 2, lost, patience=1.0):
        assert closed.wait(10)
        time.sleep(1.5)
    assert not lost


def test_the_store_is_reached_under_the_address_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    store = store_of(Control(1))
    assert isinstance(store, TCPStore)
    other = TCPStore("127.0.0.1", store.port, wait_for_workers=False, timeout=timedelta(seconds=20))
    assert other.add("0", 2) == store.add("0", 0) == 2
