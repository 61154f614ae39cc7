"""The server of a tree: its own, also where another tree starts one at the same moment."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from flows import prefect_api, server
from flows.doctor import check_prefect

FAKE = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
port, home = int(sys.argv[1]), sys.argv[2]

class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"home": home} if "settings" in self.path else True).encode())
    def log_message(self, *_):
        pass

ThreadingHTTPServer.allow_reuse_address = False
ThreadingHTTPServer(("127.0.0.1", port), Answers).serve_forever()
"""


class Other(BaseHTTPRequestHandler):
    """The server of another tree."""

    def do_GET(self) -> None:  # noqa: N802  (the name that http.server calls)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"home": "/elsewhere"} if "settings" in self.path else True).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which another tree's server answers."""
    other = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    yield other.server_port
    other.shutdown()
    other.server_close()


def test_a_port_that_another_tree_takes_in_between_is_left_to_it(
    taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = server.free_port
    looked: list[int] = []

    def free_a_moment_ago(preferred: int) -> int:
        looked.append(preferred)
        return taken if len(looked) == 1 else free(preferred)

    def start(name: str, command: list[str], environment: dict[str, str], grace: float = 1.0) -> server.Service:
        port, log = command[-1], tmp_path / "log"
        with log.open("w") as stream:
            process = subprocess.Popen([sys.executable, "-c", FAKE, port, str(tmp_path)], stderr=stream, text=True)
        return server.Service(name, process, log, grace)

    monkeypatch.setattr(server, "free_port", free_a_moment_ago)
    monkeypatch.setattr(server, "start", start)
    monkeypatch.setattr(server, "STATE", tmp_path)
    monkeypatch.setattr(server, "RECORD", tmp_path / "server.json")
    monkeypatch.setattr(server, "release", lambda process, timeout: (process.kill(), process.wait()))
    found = server._start({"PREFECT_HOME": str(tmp_path)})
    try:
        assert found.own and str(taken) not in found.url and prefect_api.home_of(found.url) == tmp_path
        assert json.loads((tmp_path / "server.json").read_text())["url"] == found.url
    finally:
        found.stop()


@pytest.mark.parametrize("state", ["/elsewhere", "/tree/.prefect"])
def test_a_database_that_trees_share_is_no_trees_own(
    taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(server, "STATE", Path(state))
    monkeypatch.setattr(server, "RECORD", tmp_path / "server.json")
    (tmp_path / "server.json").write_text(json.dumps({"url": f"http://127.0.0.1:{taken}/api"}))
    found = server._running({"PREFECT_HOME": "/elsewhere"})
    assert found is not None and found.own is (state == "/elsewhere")


def test_the_page_of_a_server_asks_that_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PREFERRED_PORT", 0)
    told: list[str] = []

    def start(name: str, command: list[str], environment: dict[str, str], grace: float = 1.0) -> server.Service:
        shown = (
            "from prefect.settings import get_current_settings as s; "
            "print(s().server.ui.api_url, s().server.api.cors_allowed_origins)"
        )
        told.extend(
            subprocess.check_output([sys.executable, "-c", shown], env={**os.environ, **environment}, text=True).split()
        )
        raise server.LaunchError(command[-1])

    monkeypatch.setattr(server, "start", start)
    with pytest.raises(server.LaunchError) as raised:
        server._start({"PREFECT_HOME": str(tmp_path)})
    pages = f"http://127.0.0.1:{raised.value},http://localhost:{raised.value}"
    assert told == [f"http://127.0.0.1:{raised.value}/api", pages], "and it takes requests from no other page"


@pytest.mark.skipif(not Path("/proc/net/tcp").is_file(), reason="only Linux tells whose a socket is")
def test_a_server_of_another_user_is_not_taken(taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STATE", Path("/elsewhere"))
    monkeypatch.setattr(server, "RECORD", tmp_path / "server.json")
    (tmp_path / "server.json").write_text(json.dumps({"url": f"http://127.0.0.1:{taken}/api"}))
    monkeypatch.setattr(server, "PREFERRED_PORT", taken)
    assert server._running({"PREFECT_HOME": "/elsewhere"}) is not None
    own = os.getuid()
    table = Path("/proc/net/tcp").read_text()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    others = {line.split()[7] for line in table.splitlines()[1:] if line.split()[1].endswith(f":{taken:04X}")}
    assert others == {str(own)}
    if own:  # root's servers are taken by all
        assert server._running({"PREFECT_HOME": "/elsewhere"}) is None
    monkeypatch.setattr(prefect_api, "TRUSTED", ())
    assert server._running({"PREFECT_HOME": "/elsewhere"}) is None


def test_what_does_not_speak_http_is_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"220 mail\r\n")

        threading.Thread(target=greet, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        assert prefect_api.get(url) is None and not prefect_api.answers(url)
    assert not prefect_api.healthy("http://127.0.0.1:42OO/api")


def test_an_address_may_end_in_a_slash() -> None:
    assert server.address({"PREFECT_API_URL": "http://h:4200/api/"}) == "http://h:4200/api"
    assert server.address({}) == ""


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("prefect.team.example/api", "found 'prefect.team.example/api', expected an address such as http://HOST"),
        ("http://me:secret@host/api", "found a user in the address, expected none; set PREFECT_API_AUTH_STRING"),
    ],
)
def test_what_is_no_address_is_told_in_one_line(url: str, said: str) -> None:
    with pytest.raises(server.LaunchError) as caught:
        server.address({"PREFECT_API_URL": url})
    assert said in str(caught.value) and "secret" not in str(caught.value)
    finding = check_prefect({"PREFECT_API_URL": url})
    assert finding.level == "FAIL" and said in finding.text and "secret" not in finding.text
