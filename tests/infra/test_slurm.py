"""infra/slurm on a real Slurm of two nodes: stopped before the limit, requeued, and nothing shows in the result."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.faults.prefect_runs import prepare_project
from tests.faults.trainings import Training, params, prepare
from tests.import_closure import ROOT
from tests.infra.parts import needs_program
from tests.samples import free_port
from tests.waiting import until

PROGRAMS = {name: needs_program(name) for name in ("munged", "slurmctld", "slurmd")}

pytestmark = pytest.mark.slow

CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerParameters=sched_interval=2,preempt_send_user_signal
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=60
PartitionName=abrupt Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2
"""
STAGE = "python -c \"import pathlib; pathlib.Path('{out}').write_text('done')\""


class Cluster:
    """munged, slurmctld and two slurmd below `place`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("state", "spool-n1", "spool-n2"):
            (place / name).mkdir()
        (place / "munge.key").write_bytes(os.urandom(1024))
        (place / "munge.key").chmod(0o400)
        ports = [free_port() for _ in range(3)]
        user = os.environ.get("USER") or "root"
        text = CONFIG.format(host=socket.gethostname(), ports=ports, place=place, user=user)
        (place / "slurm.conf").write_text(text)
        self.environment = os.environ | {"SLURM_CONF": str(place / "slurm.conf")}
        self.services: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        keys = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        munge = [f"--{option}={self.place}/munge.{name}" for option, name in keys.items()]
        self._serve(PROGRAMS["munged"], "--foreground", "--force", *munge)
        self._until((self.place / "munge.socket").exists, "munged")
        self._serve(PROGRAMS["slurmctld"], "-D")
        for node in ("n1", "n2"):
            self._serve(PROGRAMS["slurmd"], "-D", "-N", node)
        self._until(lambda: self.run("sinfo", "-h", "-o", "%F").strip() == "0/2/0/2", "two idle nodes")

    def _serve(self, *command: str) -> None:
        with (self.place / f"{Path(command[0]).name}.out").open("ab") as log:
            service = subprocess.Popen(
                command, env=self.environment, cwd=self.place, stdout=log, stderr=log, start_new_session=True
            )
            self.services.append(service)

    def run(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def until(self, ready: Callable[[], bool], what: str, seconds: float = 240.0) -> None:
        self._until(ready, what, seconds)

    def _until(self, ready: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        until(ready, lambda: f"{what}: {self.run('squeue')}{self.run('sinfo')}", seconds)

    def state(self, job: str) -> str:
        found = re.search(r"JobState=(\S+)", self.run("scontrol", "show", "job", job))
        return found[1] if found else ""

    def stop(self) -> None:
        self.run("scancel", "--full", "--user", os.environ.get("USER") or "root")
        for service in reversed(self.services):
            os.killpg(service.pid, signal.SIGTERM)
            try:
                service.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(service.pid, signal.SIGKILL)
                service.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def make_project(root: Path, values: dict[str, Any]) -> Path:
    """The real pre-training between stages before it and one after it that do nothing."""
    prepare_project(root, values)
    shutil.copytree(ROOT / "infra", root / "infra", ignore=shutil.ignore_patterns("__pycache__"))
    stages = YAML(typ="safe").load((root / "dvc.yaml").read_text())["stages"]
    before = {
        name: {"cmd": STAGE.format(out=f"{name}.txt"), "outs": [f"{name}.txt"]} for name in ("mask", "contamination")
    }
    after = {"cmd": STAGE.format(out="after.txt"), "deps": ["models/pretrained"], "outs": ["after.txt"]}
    with (root / "dvc.yaml").open("w") as file:
        YAML().dump({"stages": {**before, **stages, "finetune": after}}, file)
    return root


def ask_to_stop(cluster: Cluster, job: str) -> None:
    cluster.run("scancel", "--signal=TERM", "--batch", job)


def take_the_nodes(cluster: Cluster, _: str) -> None:
    cluster.run("sbatch", "--partition=urgent", "--nodes=2", "--output=/dev/null", "--wrap", "sleep 5")


def lower_the_limit(cluster: Cluster, job: str) -> None:
    """To two minutes, of which one and a half times `BERTCORE_GRACE` leave one: however fast the machine, it is not
    done by then."""
    cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=2")


class Submitted:
    """The three jobs of submit.sh in a tree of its own."""

    def __init__(self, cluster: Cluster, root: Path, options: list[str]) -> None:
        self._cluster, self.root = cluster, root
        cluster.environment |= {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "BERTCORE_PRECISION": "no",  # as of the training that they are compared with, on any processor
            "BERTCORE_GRACE": "40",
            "OMP_NUM_THREADS": "1",
        }
        said = cluster.run("bash", str(root / "infra" / "slurm" / "submit.sh"), "2", *options)
        found = re.fullmatch(r"data (\d+), pre-training (\d+) on 2 nodes, fine-tuning and report (\d+); .*\n", said)
        assert found, said
        self.data, self.pretrain, self.rest = found.groups()

    def log(self, job: str) -> str:
        return "".join(file.read_text(errors="replace") for file in (self.root / ".slurm").glob(f"*-{job}.log"))

    def until_it_trains(self) -> Training:
        training = Training(self.root)
        state = self._cluster.state
        self._cluster.until(lambda: bool(training.steps()) or state(self.pretrain) == "FAILED", "a checkpoint")
        assert training.steps(), self.log(self.data) + self.log(self.pretrain)
        return training


def test_a_stage_that_keeps_nothing_is_not_begun_anew_for_ever(cluster: Cluster, tmp_path: Path) -> None:
    root = make_project(tmp_path / "tree", params(max_steps=40))
    stages = YAML(typ="safe").load((root / "dvc.yaml").read_text())
    stages["stages"]["mask"]["cmd"] = "sleep 600"
    with (root / "dvc.yaml").open("w") as file:
        YAML().dump(stages, file)
    jobs = Submitted(cluster, root, ["--time=30"])
    cluster.until(lambda: "sleep 600" in jobs.log(jobs.data), "the stage")
    lower_the_limit(cluster, jobs.data)
    cluster.until(lambda: cluster.state(jobs.data) not in ("RUNNING", "COMPLETING"), "the end of the job", 240)
    assert cluster.state(jobs.data) == "FAILED", jobs.log(jobs.data)
    assert "nothing that its stage does is kept" in jobs.log(jobs.data)
    cluster.until(lambda: cluster.state(jobs.rest) == "CANCELLED", "the end of the jobs after it")


def test_a_job_that_is_cancelled_writes_its_checkpoint_and_stays_so(cluster: Cluster, tmp_path: Path) -> None:
    values = params(max_steps=4000, checkpoint_steps=20, eval_steps=2000, logging_steps=20)
    jobs = Submitted(cluster, make_project(tmp_path / "tree", values), ["--time=30", "--comment=two words"])
    jobs.until_it_trains()
    cluster.run("scancel", jobs.pretrain)
    cluster.until(lambda: "was cancelled; submitted again, it goes on" in jobs.log(jobs.pretrain), "its last line")
    cluster.until(lambda: cluster.state(jobs.rest) == "CANCELLED", "the end of the job after it")
    time.sleep(5)
    assert cluster.state(jobs.pretrain) == "CANCELLED" and "stopped: at step" in jobs.log(jobs.pretrain)


@pytest.mark.parametrize(
    ("stop", "options", "max_steps"),
    [
        (ask_to_stop, ["--time=30"], 400),
        (take_the_nodes, ["--time=30"], 400),
        (take_the_nodes, ["--time=30", "--partition=abrupt"], 400),
        (lower_the_limit, ["--time=30"], 4000),
    ],
    ids=["asked", "preempted", "preempted at once", "at its limit"],
)
def test_training_on_two_nodes_is_stopped_requeued_and_ends_as_if_nothing_had_been(
    stop: Callable[[Cluster, str], None], options: list[str], max_steps: int, cluster: Cluster, tmp_path: Path
) -> None:
    values = params(max_steps=max_steps, checkpoint_steps=20, eval_steps=200, logging_steps=20)
    root = make_project(tmp_path / "tree", values)
    jobs = Submitted(cluster, root, options)
    pretrain, rest, log = jobs.pretrain, jobs.rest, jobs.log

    def ended() -> bool:
        if cluster.state(pretrain) == "PENDING":
            time.sleep(10)  # what is left of its run before ends; Slurm itself gives it two minutes
            if cluster.state(pretrain) == "PENDING":
                cluster.run("scontrol", "update", f"JobId={pretrain}", "StartTime=now")
        return cluster.state(pretrain) in ("COMPLETED", "FAILED")

    training = jobs.until_it_trains()
    stop(cluster, pretrain)
    cluster.until(lambda: "is requeued and goes on" in log(pretrain), "the requeued job")
    cluster.run("scontrol", "update", f"JobId={pretrain}", "TimeLimit=30")
    cluster.until(ended, "the end of the training", 600)
    assert cluster.state(pretrain) == "COMPLETED", log(pretrain)
    cluster.until(lambda: cluster.state(rest) in ("COMPLETED", "FAILED"), "the last job")
    assert all((root / f"{name}.txt").is_file() for name in ("mask", "contamination", "after")), log(rest)
    assert re.search(r"going on from the checkpoint of step \d+", log(pretrain))
    if stop is not take_the_nodes:  # a launcher that Slurm signals itself says so at length
        assert "Traceback" not in log(pretrain), log(pretrain)

    whole = Training(prepare(tmp_path / "whole", values), world=2)
    assert whole.finish() == 0, whole.log.read_text()
    assert training.result() == whole.result()
