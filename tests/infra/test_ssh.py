"""The DVC remote on a real SSH server: pushed from one tree, pulled by a clone elsewhere, and what goes wrong."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flows.environment import REMOTE
from tests.flows.conftest import Tree, make_tree
from tests.flows.test_launch import STAGES
from tests.flows.test_remote import clone, git, remote
from tests.infra.parts import needs_module, needs_program
from tests.samples import free_port

needs_module("asyncssh", "dvc_ssh")
import asyncssh  # noqa: E402

from flows.ssh import KnownHosts  # noqa: E402

pytestmark = pytest.mark.slow

SERVER = """
import asyncio, sys, asyncssh
async def serve(port, host_key, authorized):
    options = {"server_host_keys": [host_key], "authorized_client_keys": authorized, "sftp_factory": True}
    await (await asyncssh.listen("127.0.0.1", int(port), **options)).wait_closed()
asyncio.run(serve(*sys.argv[1:]))
"""


@dataclass
class Host:
    """An SSH server that takes one key, and the home of a user who has it."""

    port: int
    home: Path
    store: Path

    def url(self) -> str:
        return f"ssh://127.0.0.1:{self.port}{self.store}"


def _asyncssh(port: int, host_key: Path, authorized: Path) -> list[str]:
    return [sys.executable, "-c", SERVER, str(port), str(host_key), str(authorized)]


def _openssh(port: int, host_key: Path, authorized: Path) -> list[str]:
    """OpenSSH's server for this user alone, with nothing of its configuration."""
    options = {"ListenAddress": "127.0.0.1", "Port": port, "HostKey": host_key, "AuthorizedKeysFile": authorized}
    options |= {"StrictModes": "no", "UsePAM": "no", "PidFile": "none", "Subsystem": "sftp internal-sftp"}
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    return [needs_program("sshd"), "-D", "-e", "-f", "/dev/null", *given]


@pytest.fixture(scope="module", params=[_asyncssh, _openssh])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    place, port = tmp_path_factory.mktemp("ssh"), free_port()
    ssh = place / "home" / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    server, client = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    server.write_private_key(str(place / "host"))
    client.write_private_key(str(ssh / "id_ed25519"))
    (place / "host").chmod(0o600)
    client.write_public_key(str(place / "authorized"))
    known = server.export_public_key().decode().strip()
    (ssh / "known_hosts").write_text(f"[127.0.0.1]:{port} {known}\n")
    command = request.param(port, place / "host", place / "authorized")
    with (place / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while not _listens(port):
            assert process.poll() is None and time.monotonic() < deadline, (place / "log").read_text()
            time.sleep(0.2)
        yield Host(port, place / "home", place / "store")
    finally:
        process.terminate()
        process.wait(20)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return not probe.connect_ex(("127.0.0.1", port))


@pytest.fixture(scope="module")
def computed(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A tree whose stages were run one after the other, each of them pushed."""
    tree = make_tree(tmp_path_factory.mktemp("here") / "tree")
    tree.environment |= {REMOTE: host.url(), "HOME": str(host.home)}
    for name in STAGES:
        done = remote(tree, "stage", name)
        assert done.returncode == 0, done.stdout + done.stderr
    with (tree.root / ".gitignore").open("a") as file:
        file.write("/home/\n/runs.log\n")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "computed")
    return tree


def elsewhere(computed: Tree, home: Path, place: Path) -> Tree:
    other = clone(computed, place)
    other.environment["HOME"] = str(home)
    return other


def test_the_agent_is_lent_to_no_host() -> None:
    arguments = KnownHosts(host="127.0.0.1").fs_args
    assert arguments["agent_forwarding"] is False and arguments["known_hosts"] == ()


def test_a_clone_elsewhere_pulls_everything_and_computes_nothing(computed: Tree, host: Host, tmp_path: Path) -> None:
    other = elsewhere(computed, host.home, tmp_path / "clone")
    for name in STAGES:
        done = remote(other, "stage", name)
        assert done.returncode == 0, done.stdout + done.stderr
    assert other.runs() == []
    for name in ("models/topic.txt", "reports/tables.json"):
        assert (other.root / name).read_bytes() == (computed.root / name).read_bytes()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("key", "Permission denied|Too many authentication failures"),
        ("host", "Host key is not trusted"),
        ("port", "Connect call failed"),
        ("directory", r"pushed to \(No such file"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_remedy(
    computed: Tree, host: Host, wrong: str, said: str, tmp_path: Path
) -> None:
    home, tree = tmp_path / "home", Tree(computed.root)
    shutil.copytree(host.home, home)
    tree.environment = computed.environment | {"HOME": str(home)}
    if wrong == "key":
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(home / ".ssh" / "id_ed25519"))
    elif wrong == "host":
        (home / ".ssh" / "known_hosts").write_text("")
    elif wrong == "port":
        tree.environment[REMOTE] = f"ssh://127.0.0.1:{free_port()}/store"
    else:
        tree.environment[REMOTE] = f"ssh://127.0.0.1:{host.port}/proc/store"
    done = remote(tree, "push")
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {REMOTE}=ssh://") and re.search(said, line), line
