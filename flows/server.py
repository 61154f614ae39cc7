"""Find or start a Prefect server and a worker for this tree, and stop what was started. Imports nothing of Prefect."""

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from flows.environment import ROOT
from flows.guard import guarded, release
from flows.locks import hold
from flows.prefect_api import PASSWORD, healthy, home_of

STATE = ROOT / ".prefect"
"""What a local server keeps: its database, logs, and server.json, which says where it is. Git and DVC ignore it."""
RECORD = STATE / "server.json"
PREFERRED_PORT = 4200
START_TIMEOUT = 120.0
"""Seconds that a server may take to answer; the very first start builds its database (14 s on 2 cores)."""
STOP_GRACE = 5.0
"""Seconds between asking a server to stop and killing it; its database survives either."""


SERVERS_PASSWORD = "PREFECT_SERVER_API_AUTH_STRING"
"""Environment variable of Prefect's: the password that a server that is started here asks for."""


class LaunchError(Exception):
    """Nothing can be run: no server, no worker, or another run holds the tree. One line for the user."""


def end_as_by_ctrl_c() -> None:
    """Have SIGTERM and SIGHUP end this command as SIGINT does; `nohup` has the hang-up ignored, which stays so."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@dataclass
class Service:
    """A server, worker or page that this process started, and its log."""

    name: str
    process: "subprocess.Popen[str]"
    log: Path
    grace: float

    def check(self) -> None:
        """Raises LaunchError with the end of the log when the process has ended."""
        if self.process.poll() is not None:
            lines = [
                line for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
            ]
            raise LaunchError(f"the {self.name} ended: {lines[-1] if lines else 'no output'} (log: {self.log})")

    def stop(self) -> None:
        """Ask it to stop, kill what is left of it, its children included."""
        release(self.process, timeout=self.grace + 5.0)


def start(name: str, command: list[str], environment: dict[str, str], grace: float = STOP_GRACE) -> Service:
    """Start a service in a session of its own. It ends with this process, however this process ends.

    `grace`: seconds that it and everything below it get to stop by themselves.
    """
    log = STATE / "logs" / f"{name.replace(' ', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as stream:
        options = {"cwd": ROOT, "env": environment, "stdout": stream, "stderr": subprocess.STDOUT}
        return Service(name, guarded(command, stop_signal="SIGTERM", grace=grace, **options), log, grace)


@dataclass
class Server:
    """A Prefect server that answers; `service` is None when it was there before."""

    url: str
    service: Service | None
    own: bool
    """Whether its database is this tree's `.prefect`, so that nobody else's runs stand in it."""

    @property
    def page(self) -> str:
        return self.url.removesuffix("/api")

    def stop(self) -> None:
        if self.service is not None:
            RECORD.unlink(missing_ok=True)
            self.service.stop()


def find_or_start(environment: dict[str, str]) -> Server:
    """The server this tree uses: PREFECT_API_URL, the active profile's, one that runs already, else a new one.

    Unless PREFECT_API_URL names one, PREFECT_HOME is set in `environment`, for what its caller starts.
    Raises LaunchError when PREFECT_API_URL is set and nothing answers there, or when a new server does not start.
    """
    if there := _named(environment):
        return there
    environment.setdefault("PREFECT_HOME", str(STATE))
    STATE.mkdir(exist_ok=True)
    with contextlib.suppress(PermissionError):  # of a tree that is another user's, too
        STATE.chmod(0o700)
    with hold(STATE / "server.lock", f"process {os.getpid()}", wait=True):
        running = _running(environment)
        return running if running is not None else _start(environment)


def runs(environment: dict[str, str]) -> bool:
    """Whether there is a server that `find_or_start` would use as it is; LaunchError as there."""
    return bool(_named(environment) or _running({"PREFECT_HOME": str(STATE), **environment}))


def _named(environment: dict[str, str]) -> Server | None:
    """The server of PREFECT_API_URL or of the active profile."""
    if url := address(environment):
        if not healthy(url):
            raise LaunchError(f"PREFECT_API_URL: nothing answers at {url}; start a Prefect server there or unset it")
        return _server(url, home_of(url))
    of_profile = _profile_url(environment)
    return _server(of_profile, home_of(of_profile)) if of_profile and healthy(of_profile) else None


def address(environment: Mapping[str, str]) -> str:
    """PREFECT_API_URL, as `_trimmed` has it; LaunchError for what cannot be one, or holds a user's name or password,
    which would be shown."""
    url = _trimmed(environment)
    if "@" in url:
        raise LaunchError(f"PREFECT_API_URL: found a user in the address, expected none; set {PASSWORD} for a password")
    if url and not url.startswith(("http://", "https://")):
        raise LaunchError(f"PREFECT_API_URL: found {url!r}, expected an address such as http://HOST:4200/api; mend it")
    return url


def _trimmed(settings: Mapping[str, str]) -> str:
    """PREFECT_API_URL, which Prefect's clients take with a slash at its end, too; empty where it is not set."""
    return settings.get("PREFECT_API_URL", "").rstrip("/")


def free_port(preferred: int) -> int:
    """The preferred port of the loopback address when nothing holds it, else any that is free."""
    for port in (preferred, 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return int(probe.getsockname()[1])
    raise LaunchError("no free port on 127.0.0.1")


def until(ready: Callable[[], bool], service: Service | None, what: str) -> None:
    """Wait for `ready()`. Raises LaunchError when the service ends first or START_TIMEOUT passes."""
    deadline = time.monotonic() + START_TIMEOUT
    while not ready():
        if service is not None:
            service.check()
        if time.monotonic() > deadline:
            where = f" (log: {service.log})" if service is not None else ""
            raise LaunchError(f"{what} was not ready within {START_TIMEOUT:.0f} s{where}")
        time.sleep(0.1)


def _start(environment: dict[str, str]) -> Server:
    """A server of this tree's own. Between the look for a free port and the start another tree's may take it."""
    if environment.get(SERVERS_PASSWORD, "") not in ("", environment.get(PASSWORD)):
        raise LaunchError(f"{SERVERS_PASSWORD} is set, and {PASSWORD} is not the same; set both")
    for preferred in (PREFERRED_PORT, 0, 0):
        port = free_port(preferred)
        url = f"http://127.0.0.1:{port}/api"
        command = f"-m prefect --no-prompt server start --host 127.0.0.1 --port {port}".split()
        # Without its address the page asks port 4200, whatever the server's own: another tree's server, or none. By
        # default Prefect takes requests from the pages of every site that the user's browser shows.
        pages = ",".join(f"http://{host}:{port}" for host in ("127.0.0.1", "localhost"))
        own = {"PREFECT_SERVER_CORS_ALLOWED_ORIGINS": pages, **environment, "PREFECT_SERVER_UI_API_URL": url}
        service = start("Prefect server", [sys.executable, *command], own)
        try:
            until(functools.partial(healthy, url), service, "the Prefect server")
            if (home := home_of(url)) == Path(environment["PREFECT_HOME"]):
                RECORD.write_text(json.dumps({"url": url, "pid": service.process.pid}), encoding="utf-8")
                return _server(url, home, service)
            service.stop()
        except LaunchError:
            service.stop()
            if free_port(port) == port:
                raise  # nobody else has it: the server itself is at fault
        except BaseException:
            service.stop()
            raise
    raise LaunchError("other servers took every port that was free a moment before; run this again")


def _running(environment: dict[str, str]) -> Server | None:
    """A server on the database of PREFECT_HOME, or the user's own server at Prefect's usual address."""
    wanted = Path(environment["PREFECT_HOME"])
    with contextlib.suppress(OSError, ValueError, KeyError):
        url = json.loads(RECORD.read_text(encoding="utf-8"))["url"]
        if home_of(url) == wanted:
            return _server(url, wanted)
    usual = f"http://127.0.0.1:{PREFERRED_PORT}/api"
    home = home_of(usual)
    return _server(usual, home) if home in (wanted, Path.home() / ".prefect") else None


def _server(url: str, home: Path | None, service: Service | None = None) -> Server:
    """The one at `url`, whose database is below `home`."""
    return Server(url, service, own=home == STATE)


def _profile_url(environment: dict[str, str]) -> str | None:
    """PREFECT_API_URL of the active profile, which `prefect config set` and `prefect cloud login` write."""
    path = Path(environment.get("PREFECT_HOME", str(Path.home() / ".prefect"))) / "profiles.toml"
    try:
        profiles = tomllib.loads(path.read_text(encoding="utf-8"))
        active = environment.get("PREFECT_PROFILE") or profiles["active"]
        return _trimmed(profiles["profiles"][active]) or None
    except (OSError, tomllib.TOMLDecodeError, KeyError):
        return None
