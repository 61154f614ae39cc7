"""What passes before and beside what a stage computes: imports, a pipeline in which all is cached, the servers of a
first run, and the curves that a training reports.

    python -m benchmarks.seams [--cached] [--first] [--curves]

Imports and the cached pipeline are processes of their own, run `--turns` times in turn: seconds of processor time,
which neighbours on the machine hardly change, with those of the processes that they start. `--cached` needs a tree in
which every stage is up to date. `--first` makes clones of this tree's commit and runs a small pipeline in each, by
`dvc repro` and by the flow in turn: seconds by the clock. `--curves` reports points of ten curves to MLflow at a
training's pace, to a file and to a server: seconds of the training by the clock. Of all, the least of the turns. The
result is printed, and kept in benchmarks/results/ with --keep.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from unittest.mock import patch

from ruamel.yaml import YAML

from benchmarks import results
from benchmarks.clones import make_clone, vary_params
from benchmarks.machine import describe
from benchmarks.options import make_parser
from flows import prefect_api, server
from flows.ui import MLFLOW_PORT
from tasks.tracking import runs
from tasks.tracking.curves import Unreported

WAYS = {"dvc repro": ["-m", "dvc", "repro"], "the flow": ["-m", "flows.launch"]}
SMALL = {"corpus.max_documents": 3000, "pretrain.max_steps": 20, "pretrain.eval_steps": 20, "finetune.tasks": {}}
"""Changes of params.yaml with which eleven stages compute next to nothing."""
POINTS, CURVES, PACE = 60, 10, 2.0
"""Points of a training that reports every two seconds, as the default's does on two cores."""


def main() -> None:
    parser = make_parser(__doc__, turns=3)
    parser.add_argument("--cached", action="store_true", help="measure a cached pipeline in this tree, too")
    parser.add_argument("--first", action="store_true", help="measure the first run in fresh clones, too")
    parser.add_argument("--curves", action="store_true", help="measure what MLflow takes for a point, too")
    arguments = parser.parse_args()
    commands = dict(_imports())
    if arguments.cached:
        commands |= {f"{name}, all cached": command for name, command in WAYS.items()}
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(arguments.turns):
        for name, command in commands.items():
            seconds[name, "processor"].append(_processor_seconds(command))
        for name, command in WAYS.items() if arguments.first else ():
            for what, found in zip(("to the first stage", "in all"), _first_run(command), strict=True):
                seconds[f"first run, {name}: {what}", "clock"].append(found)
        for name, found in _points() if arguments.curves else ():
            seconds[f"a point of {CURVES} curves, {name}", "clock"].append(found)
    facts = {key: value for key, value in describe().items() if key in ("device", "commit")}
    facts["work"] = f"the least of {arguments.turns} turns"
    rows = [{"what": what, "seconds": f"{min(found):.3g}", "of": of} for (what, of), found in seconds.items()]
    results.show("seams", facts, rows, keep=arguments.keep)


def _imports() -> Iterator[tuple[str, list[str]]]:
    stages = YAML(typ="safe", pure=True).load(Path("dvc.yaml"))["stages"]
    for module in ("mlflow.tracking", "torch", "flows.launch", *(f"tasks.{stage}" for stage in stages)):
        yield f"import {module}", ["-c", f"import {module}"]


def _processor_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _first_run(command: list[str]) -> tuple[float, float]:
    """Seconds until the first stage begins, and until all has ended, in a fresh clone."""
    with tempfile.TemporaryDirectory(prefix="bertcore-seams-") as directory:
        tree = Path(directory) / "tree"
        make_clone(tree)
        vary_params(tree, SMALL)
        began, first = time.monotonic(), None
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        with subprocess.Popen(
            [sys.executable, *command], cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if first is None and b"Running stage 'inputs'" in line:
                    first = time.monotonic() - began
        if process.returncode or first is None:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode} in a fresh clone")
        return first, time.monotonic() - began


def _points() -> Iterator[tuple[str, float]]:
    """Seconds that one report takes, by the kind of store."""
    with tempfile.TemporaryDirectory(prefix="bertcore-seams-") as directory, chdir(directory):
        Path("dvc.yaml").write_text("stages: {pretrain: {cmd: p}}", encoding="utf-8")
        Path("params.yaml").write_text("{}", encoding="utf-8")
        with patch.dict(os.environ, {"BERTCORE_PIPELINE_RUN": "seams"}):
            os.environ.pop("MLFLOW_TRACKING_URI", None)
            yield "a file", _seconds_of_a_point()
            with _server() as address, patch.dict(os.environ, {"MLFLOW_TRACKING_URI": address}):
                yield "a server on this machine", _seconds_of_a_point()


def _seconds_of_a_point() -> float:
    run = runs.start("pretrain", {})
    report, seconds = Unreported(run).report, 0.0
    for step in range(POINTS + 1):
        time.sleep(PACE)
        began = time.monotonic()
        report(step, {f"train/{curve}": 1.0 for curve in range(CURVES)})
        seconds += time.monotonic() - began if step else 0.0  # the first one opens the connection
    began = time.monotonic()
    run.close()
    return (seconds + time.monotonic() - began) / POINTS


@contextmanager
def _server() -> Iterator[str]:
    port = server.free_port(MLFLOW_PORT)
    command = ["server", "--backend-store-uri", "sqlite:///server.db", "--port", str(port), "--workers", "1"]
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "mlflow", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not prefect_api.answers(f"{address}/health"):
            if process.poll() is not None:
                raise RuntimeError(f"mlflow server ended with {process.returncode}")
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
