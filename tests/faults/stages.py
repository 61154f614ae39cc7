"""Stage `pretrain` as dvc starts it, with its launcher and its processes, to be harmed from outside."""

import os
import signal
import subprocess
import sys
import time

import psutil

from tests.faults.trainings import Training, params
from tests.import_closure import ROOT

ENDLESS = params(max_steps=100_000, checkpoint_steps=20)
"""Of a training that does not end before it is harmed."""


class RunningStage:
    """`python -m tasks.pretrain` in the tree of `training`, with a training process per `training.world`."""

    def __init__(self, training: Training) -> None:
        self.training = training
        environment = {**os.environ, **training.environment, "BERTCORE_PROCESSES": str(training.world)}
        environment |= {"PYTHONPATH": str(ROOT), "BERTCORE_PRECISION": "no", "OMP_NUM_THREADS": "1"}
        self.log = training.root / "stage.log"
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "tasks.pretrain"]
            self.process = subprocess.Popen(
                command, cwd=training.root, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self.ranks: list[psutil.Process] = []
        self.seconds = self.checkpoint_seconds = 0.0
        """From the harm to the end of all processes, and to the last checkpoint."""

    def at_work(self) -> "RunningStage":
        """Waits until it has written a checkpoint of its own."""
        before, deadline = self.training.steps(), time.monotonic() + 120
        while self.training.steps() == before:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)
        (self.launcher,) = psutil.Process(self.process.pid).children()
        self.ranks = self.launcher.children()
        assert len(self.ranks) == self.training.world
        return self

    def harm(self, victim: int, number: signal.Signals) -> int:
        """Send `number` to the process `victim`; the stage's status when no process is left."""
        began, signalled = time.monotonic(), time.time()
        os.kill(victim, number)
        status = self.process.wait(30)
        _, left = psutil.wait_procs([self.launcher, *self.ranks], timeout=30)
        self.seconds = time.monotonic() - began
        assert not left, f"{left} train on"
        written = max(path.stat().st_mtime for path in self.training.root.glob(".checkpoints/pretrain/*/step-*"))
        self.checkpoint_seconds = written - signalled
        return status

    def said(self, start: str) -> str:
        """The one line of the log that begins so."""
        (line,) = [line for line in self.log.read_text().splitlines() if line.startswith(start)]
        return line

    def clean(self) -> bool:
        """Whether the log is without a traceback."""
        return "Traceback" not in self.log.read_text()
