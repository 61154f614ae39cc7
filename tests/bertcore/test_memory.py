"""The peak of a process is its own, and not that of the one that started it."""

import subprocess
import sys

import numpy as np

from bertcore.memory import peak_bytes
from tests.import_closure import ROOT


def test_the_peak_is_that_of_this_program_alone() -> None:
    held = np.ones(3 * 2**25)  # 768 MiB, far more than what imports take
    command = [sys.executable, "-c", "from bertcore.memory import peak_bytes; print(peak_bytes())"]
    started = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(started.stdout) < held.nbytes < peak_bytes()
