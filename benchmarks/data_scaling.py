"""The data path on one core and on two, stage by stage: from the sources to the instances, in seconds and memory.

    python -m benchmarks.data_scaling --text FILE [FILE …] [--half FILE [FILE …]]

Runs the stages of the pipeline as they are, in a tree of their own, with the process and its workers held to so many
cores: the cores take turns, and the least of the turns is shown. With `--dask` two clusters of one worker and of two,
each of one thread, do it as well; scheduler, workers and the stage share the machine. Memory is that of the stage's
largest process; beside it stands that for the text given with `--half`, so that what grows with the text is seen. The
bytes of all are compared. The result is printed, and kept in benchmarks/results/ with --keep.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from benchmarks import results
from benchmarks.machine import describe
from benchmarks.options import make_parser
from flows.environment import ROOT
from tasks.tracking.lineage import dvc_hash

STAGES = {
    "corpus": "data/corpus",
    "corpus, near duplicates too": "data/corpus",
    "tokenizer": "models/tokenizer",
    "shards": "data/shards",
    "mask, two copies": "data/instances",
}
"""What is measured, in the order in which each finds what it needs -> what is compared."""
ONE, TWO, DASK_ONE, DASK_TWO = "one core", "two cores", "Dask, one worker", "Dask, two workers"


@dataclass(frozen=True)
class Run:
    """Of one stage."""

    seconds: float
    peak_bytes: int
    """Of the largest process."""


def main() -> None:
    parser = make_parser(__doc__, turns=2)
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="files, as corpus.sources has them")
    parser.add_argument("--half", type=Path, nargs="+", help="about half as much text, for the memory")
    parser.add_argument("--dask", action="store_true", help="measure a Dask cluster, too (requirements-dask.lock)")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        parser.error("this process may use one core only; two are needed")
    ways: dict[str, tuple[Sequence[int], int]] = {ONE: (cores[:1], 0), TWO: (cores, 0)}
    if arguments.dask:
        ways |= {DASK_ONE: (cores, 1), DASK_TWO: (cores, 2)}
    with tempfile.TemporaryDirectory(prefix="bertcore-scaling-") as directory:
        found = _in_turns(ways, arguments.turns, arguments.text, Path(directory))
        half = {}
        if arguments.half:
            half = dict(runs(prepare(Path(directory) / "half", arguments.half), arguments.half, cores, None))
    facts = {key: value for key, value in describe().items() if key in ("device", "commit", "versions")}
    facts["work"] = f"{_megabytes(arguments.text)} MB in {len(arguments.text)} files as they lie there"
    if half:
        facts["half"] = f"{_megabytes(arguments.half)} MB"
    facts["seconds"] = f"by the clock, the least of {arguments.turns} turns; the bytes of all are the same"
    results.show("data-scaling", facts, list(_rows(found, half)), keep=arguments.keep)


def _in_turns(
    ways: Mapping[str, tuple[Sequence[int], int]], turns: int, text: Sequence[Path], directory: Path
) -> dict[str, dict[str, list[Run]]]:
    """The runs of each stage by way, which is cores and Dask workers; `RuntimeError` where one makes other bytes."""
    found: dict[str, dict[str, list[Run]]] = {stage: defaultdict(list) for stage in STAGES}
    made: dict[str, str] = {}
    for turn in range(turns):
        for way, (cores, workers) in ways.items():
            tree = prepare(directory / f"{turn}-{way}", text)
            with _cluster(tree, workers) as address:
                for stage, run in runs(tree, text, cores, address):
                    found[stage][way].append(run)
                    digest = dvc_hash(tree / STAGES[stage])
                    if made.setdefault(stage, digest) != digest:
                        raise RuntimeError(f"{stage}: other bytes by {way}")
            shutil.rmtree(tree)
    return found


def _rows(found: dict[str, dict[str, list[Run]]], half: dict[str, Run]) -> Iterator[dict[str, str]]:
    for stage, by_way in found.items():
        seconds = {way: min(run.seconds for run in runs) for way, runs in by_way.items()}
        row = {"stage": stage, **{way: f"{least:.1f}" for way, least in seconds.items()}}
        row["two over one"] = f"{seconds[ONE] / seconds[TWO]:.2f}"
        if DASK_TWO in seconds:
            row["Dask: two over one"] = f"{seconds[DASK_ONE] / seconds[DASK_TWO]:.2f}"
        row["MiB"] = f"{max(run.peak_bytes for run in by_way[TWO]) / 2**20:.0f}"
        if half:
            row["MiB of half"] = f"{half[stage].peak_bytes / 2**20:.0f}"
        yield row


def prepare(tree: Path, text: Sequence[Path]) -> Path:
    """A tree whose parameters are checked."""
    tree.mkdir()
    shutil.copy(ROOT / "dvc.yaml", tree)
    _write_params(tree, text, near_duplicates=False)
    _run(tree, "inputs", sorted(os.sched_getaffinity(0)), None)
    return tree


def runs(tree: Path, text: Sequence[Path], cores: Sequence[int], address: str | None) -> Iterator[tuple[str, Run]]:
    """Each stage in `tree`, once; the corpus that the later ones read is that without the search."""
    for stage in STAGES:
        name, searched = stage.split(",")[0], "near duplicates" in stage
        if searched:
            shutil.move(tree / "data/corpus", tree / "data/plain")
            _write_params(tree, text, near_duplicates=True)
        yield stage, _run(tree, name, cores, address)
        if searched:
            shutil.rmtree(tree / "data/corpus")
            shutil.move(tree / "data/plain", tree / "data/corpus")
            _write_params(tree, text, near_duplicates=False)


def _write_params(tree: Path, text: Sequence[Path], near_duplicates: bool) -> None:
    search = {"threshold": 0.8, "ngram": 5} if near_duplicates else None
    values: dict[str, Any] = {
        "recipe": None,
        "corpus": {"sources": [str(path.resolve()) for path in text], "near_duplicates": search},
        "tokenizer": {"vocab_size": 16384},
        "shards": {"shard_bytes": 8_000_000},
        "mask": {"duplicates": 2, "max_predictions_per_seq": 20},
        "pretrain": {"model": {"preset": "tiny"}},
        "minimal_pairs": {"pairs": None},
        "embed": None,
        "finetune": {"tasks": {}},
    }
    with (tree / "params.yaml").open("w") as file:
        YAML().dump(values, file)


def _run(tree: Path, stage: str, cores: Sequence[int], address: str | None) -> Run:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "BERTCORE_PIPELINE_RUN": "scaling"}
    if address:
        environment["BERTCORE_DASK"] = address
    began = time.monotonic()
    with (tree / "stage.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", f"tasks.{stage}"], cwd=tree, env=environment, stdout=log, stderr=log
        )
        os.sched_setaffinity(process.pid, cores)
        _, status, usage = os.wait4(process.pid, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"stage {stage} ended with status {code}:\n{(tree / 'stage.log').read_text()}")
    return Run(time.monotonic() - began, 1024 * usage.ru_maxrss)


@contextmanager
def _cluster(tree: Path, workers: int) -> Iterator[str | None]:
    """The address of a scheduler with so many workers on this machine, which are there; None where none are asked
    for."""
    if not workers:
        yield None
        return
    place = tree / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    common = ["--scheduler-file", str(place)]
    commands = [["dask", "scheduler", "--no-dashboard", "--port", "0", *common]]
    commands += [["dask", "worker", "--nthreads", "1", "--no-dashboard", *common]] * workers
    with ExitStack() as stack:
        for name, *options in commands:
            program = [str(Path(sys.executable).parent / name), *options]
            process = subprocess.Popen(
                program, cwd=tree, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            while not place.is_file():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with status {process.returncode}")
                time.sleep(0.1)
        address = YAML(typ="safe").load(place.read_text())["address"]
        from distributed import Client  # of requirements-dask.lock

        with Client(address) as client:
            client.wait_for_workers(workers, timeout=60)
        yield address


def _megabytes(files: Sequence[Path]) -> str:
    return f"{sum(path.stat().st_size for path in files) / 1e6:.1f}"


if __name__ == "__main__":
    main()
