"""Where the processes of several machines listen, and that they do not wait for each other for ever."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bertcore.training.network import INTERFACE, choose_interface, interface_towards
from tests.import_closure import ROOT

JOINED = """
import sys, time
from datetime import timedelta
from torch import distributed
from bertcore.training import network
from bertcore.training.control import how_failed
rank = int(sys.argv[1])
distributed.init_process_group("gloo", store=distributed.FileStore(sys.argv[2], 2), rank=rank, world_size=2)
if rank == 1:
    print("joined", flush=True)
    time.sleep(600)
network._LONGEST_JOINING = timedelta(seconds=2)
try:
    network.require_connections()
except RuntimeError as error:
    sys.exit(0 if how_failed(error) else repr(error))
sys.exit("connected")
"""


def test_the_interface_towards_an_address_is_found() -> None:
    assert interface_towards("127.0.0.2") in {name for _, name in socket.if_nameindex()}
    assert interface_towards("no.such.host.invalid") is None


@pytest.mark.parametrize(("machines", "before", "after"), [("2", None, True), ("2", "eth7", "eth7"), ("1", None, None)])
def test_gloo_listens_there_among_several_machines(
    machines: str, before: str | None, after: str | bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUP_WORLD_SIZE", machines)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv(INTERFACE, before or "")
    choose_interface()
    expected = interface_towards("127.0.0.1") if after is True else after or ""
    assert os.environ[INTERFACE] == expected


def test_a_process_that_does_not_connect_is_not_waited_for_long(tmp_path: Path) -> None:
    command = [sys.executable, "-c", JOINED]
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "1", str(tmp_path / "store")], **options) as silent:
        waiting = subprocess.run([*command, "0", str(tmp_path / "store")], **options, timeout=60, check=False)
        silent.kill()
    assert waiting.returncode == 0, waiting.stderr
