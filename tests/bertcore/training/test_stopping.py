"""A training that is asked to stop may end its step, however long its steps are; one that is stuck is ended."""

import subprocess
import sys

import pytest

from bertcore.errors import STOPPED

TRAINING = """
import os, signal, sys, time
from bertcore.training.stopping import StopRequest
stop = StopRequest(grace=0.5)
stop.listen()
for step in range(3):
    if stop.requested:
        sys.exit(3)
    if step == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(float(sys.argv[1]) if step == 1 else 0.8)
stop.requested and sys.exit(3)
"""


@pytest.mark.parametrize(("seconds", "status"), [("1.0", 3), ("30", STOPPED)])
def test_a_step_may_end_that_takes_no_longer_than_those_before(seconds: str, status: int) -> None:
    command = [sys.executable, "-c", TRAINING, seconds]
    assert subprocess.run(command, timeout=20, check=False).returncode == status
