"""The first process of a container waits for the checkpoint of a stage whose worker has ended at once."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from infra.slurm import job
from tests.import_closure import ROOT

FIRST = [sys.executable, str(ROOT / "infra" / "docker" / "first_process.py")]
STAGE = """
import signal, sys, time
from pathlib import Path
def stop(*_):
    time.sleep(1)
    Path(sys.argv[1], "checkpoint").touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, stop)
Path(sys.argv[1], "trains").touch()
time.sleep(600)
"""
WORKER = """
import os, sys, time
from flows.guard import guarded
guarded([sys.executable, "-c", os.environ["STAGE"], sys.argv[1]], stop_signal="SIGTERM", grace=25.0)
time.sleep(600)
"""


def test_a_stage_writes_its_checkpoint_when_the_worker_is_stopped(tmp_path: Path) -> None:
    environment = os.environ | {"STAGE": STAGE}
    first = subprocess.Popen([*FIRST, sys.executable, "-c", WORKER, str(tmp_path)], cwd=ROOT, env=environment)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "trains").exists():
            assert time.monotonic() < deadline and first.poll() is None
            time.sleep(0.1)
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 128 + signal.SIGTERM
    finally:
        first.kill()
    assert (tmp_path / "checkpoint").is_file()


def test_seconds_that_are_none_are_told_before_anything_begins() -> None:
    done = subprocess.run(
        [*FIRST, "true"], env=os.environ | {"BERTCORE_GRACE": "2m"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "error: BERTCORE_GRACE: found '2m', expected whole seconds; correct the variable\n"


def test_what_is_around_a_stage_waits_longer_than_it_has_for_its_checkpoint() -> None:
    infra = ROOT / "infra"
    images = "".join((infra / "docker" / name).read_text() for name in ("Dockerfile", "Dockerfile.cuda"))
    graces = [int(grace) for grace in re.findall(r"^ENV BERTCORE_GRACE=(\d+)$", images, re.M)]
    minutes = re.findall(r"stop_grace_period: (\d+)m", (infra / "compose.yaml").read_text())
    kubernetes = "".join(path.read_text() for path in (infra / "kubernetes").iterdir())
    seconds = re.findall(r"terminationGracePeriodSeconds\W+(\d+)", kubernetes)
    assert (len(graces), len(minutes), len(seconds)) == (2, 1, 2)
    periods = [*(60 * int(each) for each in minutes), *map(int, seconds)]
    assert min(periods) >= max(graces) + 20 and len(set(graces)) == 1
    submit = (infra / "slurm" / "submit.sh").read_text()
    assert f"B:TERM@$((${{BERTCORE_GRACE:-{job.GRACE_SECONDS}}} * 3 / 2))" in submit


ORPHANING = """
import os, subprocess, sys, time
shell = subprocess.run(["sh", "-c", "sleep 2 > /dev/null & echo $!"], stdout=subprocess.PIPE)
orphan = int(shell.stdout)
os.kill(orphan, 0)
deadline = time.monotonic() + 30
while time.monotonic() < deadline:
    try:
        os.kill(orphan, 0)
    except ProcessLookupError:
        sys.exit(7)
    time.sleep(0.1)
"""


def test_an_orphan_that_ends_while_the_command_works_is_no_more() -> None:
    assert subprocess.run([*FIRST, sys.executable, "-c", ORPHANING], timeout=60).returncode == 7


def test_it_ends_with_the_status_of_its_command() -> None:
    done = subprocess.run([*FIRST, sys.executable, "-c", "print('said'); raise SystemExit(3)"], capture_output=True)
    assert (done.returncode, done.stdout) == (3, b"said\n")
