"""What passes before a stage computes anything: the imports of every stage, and a pipeline in which all is cached.

    python -m benchmarks.seams [--cached]

Everything is a process of its own, run `--turns` times in turn; seconds of processor time, which neighbours on the
machine hardly change, with those of the processes that it starts; the least of the turns. `--cached` adds `dvc repro`
and the flow by `python -m flows.launch` in this tree, in which every stage must be up to date. The result is printed,
and kept in benchmarks/results/ with --keep.
"""

import argparse
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML

from benchmarks import results
from benchmarks.machine import describe

CACHED = {"dvc repro, all cached": ["-m", "dvc", "repro"], "the flow, all cached": ["-m", "flows.launch"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3, help="runs of each (%(default)s)")
    parser.add_argument("--cached", action="store_true", help="measure a cached pipeline in this tree, too")
    parser.add_argument("--keep", action="store_true", help="write the result into benchmarks/results/")
    arguments = parser.parse_args()
    commands = dict(_imports()) | (CACHED if arguments.cached else {})
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(arguments.turns):
        for name, command in commands.items():
            seconds[name].append(_processor_seconds(command))
    facts = {key: value for key, value in describe().items() if key in ("device", "commit")}
    facts["work"] = f"seconds of processor time, the least of {arguments.turns} turns"
    rows = [{"what": name, "seconds": f"{min(times):.2f}"} for name, times in seconds.items()]
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


if __name__ == "__main__":
    main()
