"""Stages of dvc.yaml as a Slurm job: `python -m infra.slurm.job STAGE…`, which job.sh runs on the first node

The signal that Slurm sends before the limit lets the stage write its checkpoint, and the job is requeued: it goes on
from there. A stage that keeps nothing before its end would begin anew for ever: its job ends. On a job of several nodes
the first one runs the pipeline, and the others join its pre-training.
"""

import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType

from bertcore.corpus.sources.http import cache_directory
from bertcore.errors import STOPPED, UNAVAILABLE
from bertcore.files import replace_file
from bertcore.precision import precision
from flows.devices import cuda_devices
from flows.environment import ROOT, project_environment
from flows.guard import guarded, release
from tasks.processes import GRACE, checkpoint_grace

GRACE_SECONDS = 120
"""That a stage has for its checkpoint unless the environment says otherwise; submit.sh has it, too, and has Slurm's
signal come half as long again before the limit (Slurm itself may be a minute early)."""
PORT = 29500
"""Where the first node's process 0 listens, plus the job's number modulo 1000: jobs may share nodes."""
_NOTICED_SECONDS = 60
"""In which a training that has begun notices by itself that other nodes have ended."""


def main(stages: list[str]) -> int:
    """The status of the job; 0 where it was requeued."""
    environment, grace = project_environment(), checkpoint_grace(GRACE_SECONDS)
    environment[GRACE] = str(grace)
    nodes = int(environment.get("SLURM_JOB_NUM_NODES", "1"))
    stopping, others, before = _Stopping(), None, kept()
    with contextlib.ExitStack() as stack:
        if nodes > 1:
            environment["BERTCORE_ACCELERATE_CONFIG"] = str(write_config(environment, rank=0))
            if not cuda_devices():
                environment["ACCELERATE_USE_CPU"] = "true"  # without it every process would train alone
            others = stack.enter_context(_other_nodes(nodes - 1, environment))
        command = [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", *stages]
        dvc = guarded(command, stop_signal="SIGINT", grace=grace, env=environment)
        left = _left_alone(dvc, others, stopping, before)
        if stopping.asked:
            print(f"stopping before the limit: the stage has {grace} s for a checkpoint", flush=True)
        status = release(dvc, timeout=grace + 10) if stopping.asked or left else dvc.returncode
        # Where it preempts a job, Slurm may tell the other nodes alone at first: the training stops with them.
        told = others is not None and _ended(others) == STOPPED
        stopped = status != 0 and (stopping.asked or told)
    if stopped:
        return _requeue(environment, kept() != before)
    return UNAVAILABLE if left else int(status or 0)


def kept() -> tuple[bytes, dict[str, int]]:
    """What a stopped job leaves for the next one: the stages that DVC has recorded, and with the times of their last
    change checkpoints, finished token shards and downloads. Empty files are left out: they are locks."""
    lock, files = ROOT / "dvc.lock", [*(ROOT / ".checkpoints").rglob("*.json"), *cache_directory().rglob("*")]
    changed = {str(path): path.stat().st_mtime_ns for path in files if path.is_file() and path.stat().st_size}
    return lock.read_bytes() if lock.is_file() else b"", changed


def join() -> int:
    """On every node but the first: its processes of the pre-training, as soon as that begins."""
    environment = project_environment()
    if not cuda_devices():
        environment["ACCELERATE_USE_CPU"] = "true"
    environment["BERTCORE_ACCELERATE_CONFIG"] = str(
        write_config(environment, rank=int(environment["SLURM_PROCID"]) + 1)
    )
    os.execve(sys.executable, [sys.executable, "-m", "tasks.training.launcher"], environment)


def write_config(environment: Mapping[str, str], rank: int) -> Path:
    """infra/accelerate/nodes.yaml with this job's numbers and addresses, for the node `rank`; where it lies."""
    nodes, devices = int(environment["SLURM_JOB_NUM_NODES"]), len(cuda_devices())
    values = {
        "num_machines": nodes,
        "num_processes": nodes * max(1, devices),
        "machine_rank": rank,
        "main_process_ip": first_address(environment),
        "main_process_port": PORT + int(environment["SLURM_JOB_ID"]) % 1000,
    }
    path = ROOT / ".slurm" / f"{environment['SLURM_JOB_ID']}-node-{rank}.yaml"
    path.parent.mkdir(exist_ok=True)
    with replace_file(path) as beside:
        beside.write_text(filled(values | {"mixed_precision": f"'{precision()}'"}), encoding="utf-8")
    return path


def filled(values: Mapping[str, object]) -> str:
    """infra/accelerate/nodes.yaml with other values."""
    lines = (ROOT / "infra" / "accelerate" / "nodes.yaml").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line.partition(":")[0] not in values]
    return "\n".join([*kept, *(f"{key}: {value}" for key, value in values.items()), ""])


def first_address(environment: Mapping[str, str]) -> str:
    """The first node of the job, as the others reach it: BERTCORE_MAIN_ADDRESS, else its address in Slurm."""
    if given := environment.get("BERTCORE_MAIN_ADDRESS"):
        return given
    ask = ["scontrol", "show", "hostnames", environment["SLURM_JOB_NODELIST"]]
    first = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()[0]
    shown = subprocess.run(["scontrol", "show", "node", first], capture_output=True, text=True, check=True).stdout
    found = [word.partition("=")[2] for word in shown.split() if word.startswith("NodeAddr=")]
    return found[0] if found else first


class _Stopping:
    """Whether Slurm has asked to stop: by SIGTERM before the limit, or `scancel --signal=TERM --batch`."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


@contextlib.contextmanager
def _other_nodes(count: int, environment: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """The step of all nodes but the first, for as long as the block lasts."""
    command = ["srun", f"--nodes={count}", f"--ntasks={count}", "--relative=1", "--kill-on-bad-exit=0"]
    if cores := environment.get("SLURM_CPUS_PER_TASK"):
        command.append(f"--cpus-per-task={cores}")  # which srun does not take over from its job
    step = subprocess.Popen(
        [*command, sys.executable, "-m", "infra.slurm.job", "--join"], env=dict(environment), cwd=ROOT
    )
    try:
        yield step
    finally:
        step.terminate()
        step.wait()


def _left_alone(
    dvc: "subprocess.Popen[str]", others: "subprocess.Popen[bytes] | None", stopping: _Stopping, before: object
) -> bool:
    """Wait until dvc ends or Slurm asks to stop. True where instead the other nodes have failed while the first one
    waits for them to join: nothing is `kept` beside what was there `before`. One that has saved a model goes on without
    them."""
    failed = math.inf
    while dvc.poll() is None and not stopping.asked:
        if others is not None and others.poll() not in (None, 0, STOPPED):
            failed = min(failed, time.monotonic())
        if time.monotonic() - failed > _NOTICED_SECONDS and kept() == before:
            print("error: the other nodes have ended before the training; what they wrote says why", file=sys.stderr)
            return True
        time.sleep(0.5)
    return False


def _ended(step: "subprocess.Popen[bytes]") -> int | None:
    """The status of the other nodes, whose processes end with the training; None where they do not."""
    try:
        return step.wait(20)
    except subprocess.TimeoutExpired:
        return None


def _requeue(environment: Mapping[str, str], further: bool) -> int:
    """Have Slurm run the job again, unless it was cancelled or has not come `further` in all of its time."""
    job = environment["SLURM_JOB_ID"]
    shown = subprocess.run(["scontrol", "show", "job", job], capture_output=True, text=True, check=False).stdout
    # One that is requeued while it ends would come back after every `scancel`. One that Slurm has preempted ends, too,
    # and is counted as begun once more.
    if "JobState=COMPLETING" in shown and f"Restarts={environment.get('SLURM_RESTART_COUNT', '0')} " in shown:
        print(f"job {job} was cancelled; submitted again, it goes on from the checkpoint", flush=True)
        return STOPPED
    if not further and at_limit(shown):
        print(
            f"error: job {job} is at its time limit, and nothing that its stage does is kept before the stage ends; "
            "submit it again with a longer --time",
            file=sys.stderr,
        )
        return STOPPED
    done = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, check=False)
    if done.returncode and "pending" not in done.stderr:  # as it is where Slurm has preempted it
        print(f"error: scontrol requeue {job}: {done.stderr.strip()}; submit it again", file=sys.stderr)
        return STOPPED
    print(f"job {job} is requeued and goes on from the checkpoint", flush=True)
    return 0


def at_limit(shown: str) -> bool:
    """Whether the job that `scontrol show job` shows is stopped because of its time, and not for another job."""
    run, limit = (_seconds(re.search(rf"{name}=(\S+)", shown)) for name in ("RunTime", "TimeLimit"))
    return run is not None and limit is not None and limit - run <= checkpoint_grace(GRACE_SECONDS) * 1.5 + 60


def _seconds(found: "re.Match[str] | None") -> int | None:
    """Of [days-]hours:minutes:seconds; None for UNLIMITED."""
    parts = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", found[1]) if found else None
    if parts is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return ((24 * days + hours) * 60 + minutes) * 60 + seconds


if __name__ == "__main__":
    sys.exit(join() if sys.argv[1:] == ["--join"] else main(sys.argv[1:]))
