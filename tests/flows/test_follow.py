"""What the follower, and `make pretrain` around it, make of a server that refuses or fails."""

import io
import signal
from types import SimpleNamespace

import httpx
import pytest
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from rich.console import Console

from flows import deployment_run, launch, server
from flows.follow import Follower, pause

RUN = SimpleNamespace(state=None)


class Client:
    """Answers once, and then as it is told."""

    api_url = "http://h/api"

    def __init__(self, *then: Exception) -> None:
        self._answers = iter([None, *then])

    def read_flow_run(self, _: object) -> SimpleNamespace:
        if error := next(self._answers):
            raise error
        return RUN


def answer(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://127.0.0.1/api/flow_runs")
    try:
        httpx.Response(status, request=request).raise_for_status()
    except httpx.HTTPStatusError as error:
        return PrefectHTTPStatusError.from_httpx_error(error)
    raise AssertionError


def test_a_server_whose_database_is_away_is_asked_again() -> None:
    follower = Follower(Client(answer(500), answer(503), httpx.ConnectError("refused")), None, Console())  # type: ignore[arg-type]
    for _ in range(3):
        follower._poll(None)  # type: ignore[arg-type]


def test_a_server_that_stays_silent_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(record=True, width=300, file=io.StringIO())
    follower = Follower(Client(*[httpx.ConnectError("refused")] * 4), None, console)  # type: ignore[arg-type]
    for seconds in (0.0, 20.0, 40.0, 60.0):
        monkeypatch.setattr("time.monotonic", lambda now=follower._heard + seconds: now)
        follower._poll(None)  # type: ignore[arg-type]
    (said,) = console.export_text().splitlines()
    assert said.startswith("The Prefect server at http://h/api has not answered for 30 s") and "Ctrl-C" in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (answer(401), "refuses the password, or that there is none; set PREFECT_API_AUTH_STRING"),
        (ObjectNotFound(answer(404)), "Client error '404 Not Found"),
    ],
    ids=["without its password", "a run that was deleted"],
)
def test_what_it_refuses_is_one_line(error: Exception, said: str) -> None:
    follower = Follower(Client(error), None, Console())  # type: ignore[arg-type]
    with (
        pytest.raises(server.LaunchError, match=f"^the Prefect server at URL: {said}") as raised,
        deployment_run._in_one_line("URL"),
    ):
        follower._poll(None)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_a_hang_up_that_the_caller_ignores_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(launch, "_launch", lambda stages: signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert launch.main([]) == 1
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert launch.main([]) == 0
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def test_a_long_run_is_asked_about_less_often() -> None:
    assert [pause(elapsed) for elapsed in (0, 30, 60, 120, 7200)] == [0.5, 0.5, 1.0, 2.0, 2.0]
