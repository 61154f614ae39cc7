"""What a stage makes of a launcher whose processes have ended and which does not end itself."""

import os
import socket
import subprocess
import sys

import pytest

from bertcore.errors import BAD_INPUT, STOPPED, UNAVAILABLE
from tasks.training.launcher import LOST, OWNER
from tests.import_closure import ROOT

STAGE = """
import os, sys
from tasks.status import exit_status
from tasks.training.launcher import run_training
sys.exit(exit_status(lambda: run_training([sys.executable, "-c", sys.argv[1]], dict(os.environ))))
"""
LAUNCHER = f"""
import os, time
with open(os.environ["{OWNER}"], "a") as owner:
    owner.write("%s\\n")
time.sleep(600)
"""


@pytest.mark.parametrize(("reported", "status"), [([STOPPED], STOPPED), ([LOST], 1), ([BAD_INPUT, LOST], BAD_INPUT)])
def test_a_launcher_that_waits_for_another_machines_is_ended(reported: list[int], status: int) -> None:
    """As torch's does for five minutes where a signal has ended the other one. Where one process has said what is wrong
    with the input, that the others have lost it is no failure that passes."""
    command = [sys.executable, "-c", STAGE, LAUNCHER % "\\n".join(map(str, reported))]
    assert subprocess.run(command, cwd=ROOT, timeout=120, check=False).returncode == status


FAILING = """
import sys, torch
from tasks.training import process
def fail():
    raise torch.AcceleratorError("CUDA error: unspecified launch failure\\nCompile with TORCH_USE_CUDA_DSA")
process.machine.make_accelerator = fail
sys.exit(process.main())
"""


def test_a_gpu_that_fails_is_one_line_and_no_killed_process() -> None:
    command = [sys.executable, "-c", STAGE, FAILING]
    environment = os.environ | {"RANK": "3"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == UNAVAILABLE
    said = f"error: process 3 ({socket.gethostname()}): CUDA error: unspecified launch failure; run the same command "
    assert ended.stderr.startswith(said) and ended.stderr.count("\n") == 1


def test_another_machine_needs_a_config_that_says_which_one_it_is() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "BERTCORE_ACCELERATE_CONFIG"}
    command = [sys.executable, "-m", "tasks.training.launcher"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == BAD_INPUT
    said = (
        "error: BERTCORE_ACCELERATE_CONFIG: found nothing, expected this machine's config, with its machine_rank; see "
    )
    assert ended.stderr.startswith(said) and ended.stderr.count("\n") == 1
