"""infra/kubernetes on a cluster: flows run in the worker's pod and as jobs of their own, and where a pod is taken away
its training goes on from a checkpoint.

The cluster is the one that kubectl knows as the context BERTCORE_TEST_KUBE_CONTEXT, with the image bertcore:cpu on its
only node, which is this machine: the tree is a directory here. Everything is made in a namespace that goes at the end.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.flows.conftest import ROOT, SLOW_TO_STOP, Tree, make_tree
from tests.flows.test_launch import STAGES
from tests.infra.kubernetes import PLACE, documents
from tests.infra.parts import needs_program
from tests.waiting import until

KUBECTL = needs_program("kubectl")
CONTEXT = "BERTCORE_TEST_KUBE_CONTEXT"
if CONTEXT not in os.environ:
    pytest.skip(f"needs a cluster to test with: {CONTEXT}, a context of kubectl", allow_module_level=True)

pytestmark = pytest.mark.slow

USER = 1000
"""Of the image."""
SMALL = [f"--job-variable={each}" for each in ("image=bertcore:cpu", "cpu=0.9", "memory=1Gi", "gpus=0")]
SERVER = """
apiVersion: v1
kind: Pod
metadata: {name: prefect-server, labels: {app: prefect-server}}
spec:
  containers:
    - name: server
      image: bertcore:cpu
      args: [prefect, server, start, --host, 0.0.0.0]
      env: [{name: PREFECT_HOME, value: /tmp/prefect}]
      readinessProbe: {httpGet: {path: /api/health, port: 4200}}
---
apiVersion: v1
kind: Service
metadata: {name: prefect-server}
spec:
  selector: {app: prefect-server}
  ports: [{port: 4200}]
"""


class Cluster:
    """A namespace of its own, with a Prefect server, whose only volume is a directory of this machine."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.name = f"bertcore-test-{os.getpid()}"
        self._prefect = ""
        if len(self._kubectl("get", "nodes", "--output=name", namespace=False).split()) != 1:
            pytest.skip(f"{os.environ[CONTEXT]} has not one node, which is this machine")
        self._kubectl("create", "namespace", self.name, namespace=False)

    def start(self) -> None:
        self.apply(*YAML(typ="safe").load_all(SERVER))
        self._kubectl("wait", "--for=condition=Ready", "pod/prefect-server", "--timeout=120s")
        address = self._kubectl("get", "service", "prefect-server", "--output=jsonpath={.spec.clusterIP}")
        self._prefect = f"http://{address}:4200/api"
        self._kubectl("create", "secret", "generic", "bertcore", "--from-literal=BERTCORE_STAGES_AT_ONCE=2")
        [claim] = documents("storage.yaml")
        self.apply(_volume(self.name, str(self.tree.root), claim))
        self.deploy("storage.yaml", volumeName=self.name, storageClassName="")
        self.deploy("worker.yaml")
        self.started("bertcore-worker")

    def close(self) -> None:
        for kind in ("namespace", "persistentvolume"):
            self._kubectl(
                "delete", kind, self.name, "--ignore-not-found", "--timeout=240s", namespace=False, must=False
            )

    def deploy(self, file: str, **claimed: str) -> None:
        """What a file declares, as a user of one small machine without GPUs would edit it."""
        for document in documents(file):
            if document["kind"] == "PersistentVolumeClaim":
                document["spec"] |= claimed
            if document["kind"] == "Deployment":
                [container] = document["spec"]["template"]["spec"]["containers"]
                container["image"] = "bertcore:cpu"
                container["resources"] = {"requests": {"cpu": "100m", "memory": "256Mi"}}
                [address] = [each for each in container["env"] if each["name"] == "PREFECT_API_URL"]
                address["value"] = self._prefect
            self.apply(document)

    def apply(self, *documents: dict[str, Any]) -> None:
        self._kubectl(
            "apply", "--filename=-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        )

    def started(self, deployment: str) -> None:
        self._kubectl("rollout", "status", f"deployment/{deployment}", "--timeout=240s")

    def prefect(self, *arguments: str) -> str:
        """A command in the worker's pod, where the tree is."""
        return self._kubectl("exec", "deployment/bertcore-worker", "--", "prefect", "--no-prompt", *arguments)

    def run(self, deployment: str, *options: str) -> str:
        """A new run of pretrain-flow."""
        made = self.prefect("deployment", "run", f"pretrain-flow/{deployment}", *options)
        return re.findall(r"UUID: (\S+)", made)[0]

    def ended(self, run: str) -> None:
        self.until(lambda: self.state(run) in ("Completed", "Failed", "Crashed"))

    def completed(self, run: str) -> None:
        """Wait for the end of a run, which must be a good one."""
        self.ended(run)
        assert self.state(run) == "Completed", self.seen()

    def state(self, run: str) -> str:
        return str(json.loads(self.prefect("flow-run", "inspect", run, "--output=json"))["state"]["name"])

    def until(self, ready: Callable[[], bool], seconds: float = 240.0) -> None:
        until(ready, self.seen, seconds)

    def seen(self) -> str:
        """For who reads why a test failed."""
        logs = (self.logs(f"deployment/bertcore-{name}")[-3000:] for name in ("worker", "jobs"))
        return "\n".join([self._kubectl("get", "pods,events")[-4000:], *logs])

    def logs(self, of: str) -> str:
        """What its container has printed; nothing while it is not there."""
        return self._kubectl("logs", of, must=False)

    def pods_of_jobs(self) -> list[str]:
        found = self._kubectl("get", "pods", "--selector=job-name", "--output=jsonpath={.items[*].metadata.name}")
        return found.split()

    def restart(self) -> None:
        self._kubectl("rollout", "restart", "deployment/bertcore-worker")
        self.started("bertcore-worker")

    def take_away(self, pod: str) -> None:
        """As a node that is drained does."""
        self._kubectl("delete", "pod", pod, "--wait=false")

    def _kubectl(self, *arguments: str, given: str | None = None, namespace: bool = True, must: bool = True) -> str:
        where = ["--context", os.environ[CONTEXT], *(["--namespace", self.name] if namespace else [])]
        done = subprocess.run([KUBECTL, *where, *arguments], input=given, capture_output=True, text=True, check=False)
        assert not must or done.returncode == 0, f"{' '.join(arguments)}: {(done.stdout + done.stderr)[-3000:]}"
        return done.stdout


def _volume(name: str, directory: str, claim: dict[str, Any]) -> dict[str, Any]:
    """As much and as shared as is claimed, in a directory of the node."""
    wanted = claim["spec"]
    kept = {"capacity": wanted["resources"]["requests"], "accessModes": wanted["accessModes"]}
    here = {"hostPath": {"path": directory}, "claimRef": {"namespace": name, "name": claim["metadata"]["name"]}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": kept | here}


@pytest.fixture
def tree() -> Iterator[Tree]:
    """The toy pipeline in a directory of the image's user."""
    if os.getuid() not in (0, USER):
        pytest.skip(f"user {os.getuid()} cannot give a directory to the image's user, {USER}")
    place = Path(tempfile.mkdtemp(prefix="bertcore-cluster-"))
    place.chmod(0o755)
    tree = make_tree(place / "tree")
    (tree.root / "stage.py").write_text(SLOW_TO_STOP)
    shutil.copytree(PLACE, tree.root / PLACE.relative_to(ROOT))
    for each in (tree.root, *tree.root.rglob("*")):
        shutil.chown(each, USER, USER)
    yield tree
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def cluster(tree: Tree) -> Iterator[Cluster]:
    found = Cluster(tree)
    try:
        found.start()
        yield found
    finally:
        found.close()


def test_flows_run_in_the_workers_pod_and_as_jobs_and_outlive_the_loss_of_their_pods(cluster: Cluster) -> None:
    tree, slow, stopped = cluster.tree, cluster.tree.root / "slow-pretrain", cluster.tree.root / "stopped"
    cluster.prefect("work-pool", "create", "local", "--type", "process", "--overwrite")
    cluster.prefect("deploy", "--all")
    slow.touch()
    cluster.run("local")
    cluster.until(lambda: "pretrain  " in cluster.logs("deployment/bertcore-worker"))
    cluster.restart()
    assert stopped.read_text() == "pretrain"

    slow.unlink()
    stopped.unlink()
    cluster.completed(cluster.run("local"))
    assert sorted(tree.runs()) == sorted([*STAGES, "pretrain"])

    template = ["--base-job-template", "infra/kubernetes/work-pool.json"]
    cluster.prefect("work-pool", "create", "gpus", "--type", "kubernetes", *template)
    cluster.deploy("jobs.yaml")
    cluster.started("bertcore-jobs")
    cluster.prefect("deploy", "--all", "--prefect-file", "infra/kubernetes/prefect.yaml")
    tree.edit("stage.py", "import os,", "import json, os,")  # all stages are new
    slow.touch()
    here = [*SMALL, f"--job-variable=namespace={cluster.name}"]
    moved = cluster.run("gpus", *here)
    cluster.until(lambda: any("pretrain  " in cluster.logs(f"pod/{pod}") for pod in cluster.pods_of_jobs()))
    slow.unlink()
    [pod] = cluster.pods_of_jobs()
    cluster.take_away(pod)
    # It goes on in another pod, or crashes where the cluster replaces the pod before Prefect schedules the run again.
    cluster.ended(moved)
    assert stopped.read_text() == "pretrain"
    cluster.completed(cluster.run("gpus", *here))
    runs = tree.runs()
    assert set(runs) == set(STAGES) and len(runs) - runs.count("pretrain") == len(STAGES) - 1

    unfit = cluster.run("gpus", *here, "--job-variable=gpus=99")
    cluster.until(lambda: "unschedulable" in cluster.prefect("flow-run", "logs", unfit))
    assert "orbidden" not in cluster.logs("deployment/bertcore-jobs")
