"""The artifact of a stage's progress: what of it is written, and that nobody waits for a server that hangs."""

import threading
from uuid import UUID, uuid4

import httpx
import pytest

from flows import progress
from flows.progress import Bar


class Server:
    """Stands in for Prefect's calls: keeps what is written, and can hang or fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written: list[tuple[float, str]] = []
        self.keys: list[str] = []
        self.answers, self.asked, self.refused = threading.Event(), threading.Event(), threading.Event()
        self.fails = False
        monkeypatch.setattr(progress, "create_progress_artifact", self.create)
        monkeypatch.setattr(progress, "update_progress_artifact", self.update)

    def create(self, percent: float, key: str, description: str) -> UUID:
        self.update(uuid4(), percent, description)
        self.keys.append(key)
        return uuid4()

    def update(self, _: UUID, percent: float, description: str) -> None:
        self.asked.set()
        self.answers.wait(20)
        if self.fails:
            self.refused.set()
            raise httpx.ConnectError("refused")
        self.written.append((percent, description))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def test_of_what_came_while_the_server_hung_the_last_is_written(server: Server) -> None:
    bar = Bar("finetune@Cola")
    bar.show(1, "first")
    assert server.asked.wait(10)
    for percent in range(2, 100):
        bar.show(percent, "between")
    bar.show(100, "last")
    assert server.written == []
    server.answers.set()
    bar.close(20)
    assert server.written == [(1.0, "first"), (100.0, "last")] and server.keys == ["progress-finetune-cola"]


def test_a_server_that_never_answers_is_not_waited_for(server: Server) -> None:
    bar = Bar("pretrain")
    bar.show(1, "first")
    bar.close(0.1)
    assert server.written == []
    server.answers.set()


def test_after_an_error_the_next_line_is_written(server: Server) -> None:
    server.answers.set()
    server.fails = True
    bar = Bar("pretrain")
    bar.show(1, "lost")
    assert server.refused.wait(10)
    server.fails = False
    bar.show(2, "kept")
    bar.close(20)
    assert server.written == [(2.0, "kept")]
    Bar("silent").close()
