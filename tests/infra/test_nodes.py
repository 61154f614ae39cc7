"""Several machines, as two groups of processes that know each other by address and port only."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bertcore.errors import BAD_INPUT
from infra.slurm.job import filled
from tests.faults.trainings import Training, params, prepare
from tests.import_closure import ROOT
from tests.samples import free_port

pytestmark = pytest.mark.slow

FIRST_MACHINE = "127.0.0.2"
"""An address of the loopback network, and not the one that processes of one machine would take by default."""


class Machines:
    """The stage on the first machine, and the processes of the second."""

    def __init__(self, root: Path) -> None:
        self.root, port = root, free_port()
        common = {"num_machines": 2, "num_processes": 2, "main_process_ip": FIRST_MACHINE, "main_process_port": port}
        for rank in (0, 1):
            text = filled(common | {"machine_rank": rank, "mixed_precision": "'no'"})
            (root / f"node-{rank}.yaml").write_text(text)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BERTCORE")},
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "ACCELERATE_USE_CPU": "true",
            "OMP_NUM_THREADS": "1",
            "BERTCORE_PIPELINE_RUN": "nodes",
        }

    def start(self, **extra: str) -> None:
        """`extra`: variables of the second machine."""
        stage = {"BERTCORE_ACCELERATE_CONFIG": "node-0.yaml"}
        self.first = self._start("first", ["-m", "tasks.pretrain"], stage)
        own = {"BERTCORE_ACCELERATE_CONFIG": "node-1.yaml"} | extra
        self.second = self._start("second", ["-m", "tasks.training.launcher"], own)

    def _start(self, name: str, command: list[str], extra: dict[str, str]) -> "subprocess.Popen[bytes]":
        with (self.root / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, *command],
                cwd=self.root,
                env=self.environment | extra,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def log(self, name: str) -> str:
        return (self.root / f"{name}.log").read_text()


def test_two_machines_give_the_bits_of_two_processes_on_one(tmp_path: Path) -> None:
    machines = Machines(prepare(tmp_path / "two", params(max_steps=30)))
    machines.start()
    assert machines.first.wait(240) == 0, machines.log("first") + machines.log("second")
    assert machines.second.wait(60) == 0, machines.log("second")

    alone = prepare(tmp_path / "one", params(max_steps=30))
    environment = machines.environment | {"BERTCORE_PROCESSES": "2", "BERTCORE_PRECISION": "no"}
    done = subprocess.run([sys.executable, "-m", "tasks.pretrain"], cwd=alone, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    result = Training(machines.root).result()
    assert len(result) > 5 and result == Training(alone).result()


@pytest.mark.parametrize("loss", [signal.SIGKILL, signal.SIGSTOP], ids=["ended", "silent"])
@pytest.mark.parametrize(("lost", "left"), [("second", "first"), ("first", "second")])
def test_when_a_machine_is_lost_the_other_ends_within_a_minute_with_one_line(
    tmp_path: Path, lost: str, left: str, loss: int
) -> None:
    """Its connections close, or stay open without an answer, as when it has lost its power or its network. The first
    one takes with it what the others have found each other by."""
    machines = Machines(prepare(tmp_path / "tree", params(max_steps=100_000)))
    machines.start()
    training = Training(machines.root)
    while not training.steps():
        assert machines.first.poll() is None, machines.log("first")
        time.sleep(0.1)
    parent = psutil.Process(getattr(machines, lost).pid)
    gone = [*parent.children(recursive=True), parent]
    for process in gone:
        process.send_signal(loss)
    assert getattr(machines, left).wait(60) not in (0, 2)
    for process in gone:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    getattr(machines, lost).wait(10)
    lines = [line for line in machines.log(left).splitlines() if "error:" in line.lower()]
    assert len(lines) == 1, machines.log(left)
    assert lines[0].startswith("error: another process of the training is no more (")
    assert lines[0].endswith("); run the same command again to go on from the last checkpoint")
    assert ".cc:" not in lines[0] and len(lines[0]) < 200
    assert "Traceback" not in machines.log(left)


def test_machines_with_other_versions_are_refused_in_one_line(tmp_path: Path) -> None:
    machines = Machines(prepare(tmp_path / "tree", params(max_steps=100_000)))
    metadata = tmp_path / "older" / "tokenizers-0.1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: tokenizers\nVersion: 0.1\n")
    machines.start(PYTHONPATH=f"{tmp_path / 'older'}{os.pathsep}{ROOT}")
    assert machines.first.wait(240) == BAD_INPUT and machines.second.wait(60) != 0
    lines = [line for line in machines.log("first").splitlines() if line.startswith("error:")]
    assert len(lines) == 1, machines.log("first") + machines.log("second")
    (line,) = lines
    assert line.startswith("error: process 1 (") and ": found tokenizers 0.1, expected 0." in line
    assert line.endswith("; install the same requirements.lock on every machine")
    assert "Traceback" not in machines.log("first") and not Training(machines.root).steps()
