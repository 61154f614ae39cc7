"""`make faults`: harm real trainings many times over and write down what came of it, in docs/faults.md."""

import argparse
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import torch

from tasks.tracking.lineage import git_commit
from tests.faults import prefect_runs, stage_kills
from tests.faults.stages import ENDLESS, RunningStage
from tests.faults.table import TABLE, Row, page
from tests.faults.trainings import Training, assert_equal, params, prepare
from tests.faults.variants import VARIANTS, variant
from tests.import_closure import ROOT

PLAIN: dict[str, dict[str, Any]] = {
    "static masks": {},
    "masks drawn while training": {"duplicates": 0},
    "static masks, three micro-batches a step": {"micro_batch": "3"},
    "drawn masks, three micro-batches a step": {"duplicates": 0, "micro_batch": "3"},
}
"""BERT with Adam; an epoch has some 30 steps."""
_WITHOUT_RECIPE = {
    "spanbert": "SpanBERT",
    **{name: f"objective `{name}`" for name in ("mlm_clm", "mlm_repeats_displaced")},
}
RECIPES = {_WITHOUT_RECIPE.get(name, f"recipe `{name}`"): name for name in VARIANTS}
"""In three micro-batches a step."""


def kills(directory: Path, name: str, world: int, count: int, each: int, dice: random.Random) -> Row:
    """`count` times SIGKILL, `each` in one training, which then ends undisturbed and is compared."""
    values, micro_batch = _values(name, 24 * each)
    environment = {"BERTCORE_MICRO_BATCH": micro_batch} if micro_batch else {}
    whole = Training(prepare(directory / "whole", values), world, environment)
    pristine = shutil.copytree(whole.root, directory / "pristine")
    assert whole.finish() == 0, whole.log.read_text()
    row = Row(f"SIGKILL of {'the process' if world == 1 else 'one of two processes'}; {name}", 0, "")
    trainings = 0
    while row.times < count:
        trainings += 1
        killed = Training(shutil.copytree(pristine, directory / f"killed-{trainings}"), world, environment)
        row.times += sum(killed.kill(dice, longest=0.25) for _ in range(min(each, count - row.times)))
        assert killed.finish() == 0, killed.log.read_text()
        assert_equal(killed, whole)
        row.steps += killed.resumed
        shutil.rmtree(killed.root)
    row.outcome = f"trainings: {trainings}, all with the bits and curves of the one that was not killed"
    return row


def _values(name: str, steps: int) -> tuple[dict[str, Any], str | None]:
    """The content of params.yaml, and the size of a micro-batch where it is not the whole batch."""
    if name in RECIPES:
        return variant(RECIPES[name], max_steps=steps), "3"
    values = dict(PLAIN[name])
    micro_batch = values.pop("micro_batch", None)
    return params(max_steps=steps, **values), micro_batch


def stage_harm(directory: Path, world: int, what: str, victim: Callable[[RunningStage], int], number: int) -> Row:
    """The whole stage, harmed once, and started again to see that it goes on."""
    training = Training(directory, world)
    stage = RunningStage(training).at_work()
    status = stage.harm(victim(stage), signal.Signals(number))
    left = training.steps()[-1]
    row = Row(
        f"{what} ({world} process{'es' if world > 1 else ''})", 1, f"exit status {status}", seconds=[stage.seconds]
    )
    if status == 75:
        row.outcome += f", checkpoint {stage.checkpoint_seconds:.1f} s after the signal"
    again = RunningStage(training).at_work()
    assert f"going on from the checkpoint of step {left}" in again.log.read_text()
    row.steps.append(left)
    again.harm(again.process.pid, signal.SIGTERM)
    return row


def harms(directory: Path) -> Iterator[Row]:
    """Every way to end the stage from outside."""
    root = prepare(directory / "stage", ENDLESS)
    for world in (1, 2):
        yield stage_harm(root, world, "SIGTERM to the stage", lambda stage: stage.process.pid, signal.SIGTERM)
    yield stage_harm(root, 1, "SIGINT to the stage", lambda stage: stage.process.pid, signal.SIGINT)
    yield stage_harm(root, 2, "SIGKILL of one process", lambda stage: stage.ranks[1].pid, signal.SIGKILL)
    yield stage_harm(root, 2, "SIGKILL of the launcher", lambda stage: stage.launcher.pid, signal.SIGKILL)
    yield stage_harm(root, 1, "SIGKILL of the stage", lambda stage: stage.process.pid, signal.SIGKILL)


def damage(directory: Path, dice: random.Random, count: int) -> Iterator[Row]:
    """Files of the last checkpoint, harmed between two attempts; the result is that of an undisturbed training."""
    whole = Training(prepare(directory / "whole", params(max_steps=48)))
    pristine = shutil.copytree(whole.root, directory / "pristine")
    assert whole.finish() == 0
    for what, harm in (("A bit flipped in", _flip), ("The end cut off", _cut)):
        row = Row(f"{what} a file of the last checkpoint", 0, "the one before it was taken; same bits and curves")
        for _ in range(count):
            training = Training(shutil.copytree(pristine, directory / f"damaged-{what[:5]}-{row.times}"))
            while len(training.steps()) < 2:
                training.kill(dice, longest=0.1)
            before, last = training.steps()
            files = sorted(training.root.glob(f".checkpoints/pretrain/*/step-{last:08d}/*"))
            harm(dice.choice(files), dice)
            training.resumed.clear()
            assert training.finish() == 0, training.log.read_text()
            assert f"step-{last:08d} is damaged" in training.log.read_text() and training.resumed == [before]
            assert_equal(training, whole)
            row.times += 1
            row.steps += training.resumed
        yield row


def _flip(path: Path, dice: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)


def _cut(path: Path, dice: random.Random) -> None:
    os.truncate(path, dice.randrange(path.stat().st_size))


@contextmanager
def part(name: str) -> Iterator[Path]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bertcore-faults-") as directory:
        yield Path(directory)
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def prefect(directory: Path) -> Iterator[Row]:
    """Everything around the training, harmed in one story; its end is that of a training that nobody disturbed."""
    whole = prefect_runs.undisturbed(directory / "whole")
    with prefect_runs.serving(directory / "tree") as project:
        cancelled, second = prefect_runs.cancelled(project)
        yield _row(cancelled)
        yield _row(prefect_runs.worker_killed(project, second))
        process, third = prefect_runs.process_killed(project)
        yield _row(process)
        server = prefect_runs.server_killed(project, third)
        ((run_id, status),) = project.mlflow_runs()
        assert status == "FINISHED"
        assert_equal(Training(project.root, run_id=run_id), whole)
        yield _row(server, "; after all four harms the bits and curves of an undisturbed training, in one MLflow run")
        prefect_runs.change(project)
        yield _row(prefect_runs.beside_dvc_repro(project))


def _row(harm: prefect_runs.Harm, more: str = "") -> Row:
    return Row(harm.injected, 1, harm.outcome + more, harm.resumed, [harm.seconds])


def other_stages(directory: Path, each: int, dice: random.Random) -> Iterator[Row]:
    """`each` times SIGKILL of every stage but the pre-training."""
    root = stage_kills.prepare(directory / "stages", 3000)
    for stage in stage_kills.STAGES:
        killed = stage_kills.kill(root, stage, each, dice)
        outcome = f"run again: the same bytes; {killed.unfinished} had left an unfinished directory, which this cleared"
        yield Row(f"SIGKILL of stage `{stage}`", each, outcome)


def campaign(
    single: int, double: int, each_recipe: int, damaged: int, signals: int, stories: int, stages: int, seed: int
) -> Iterator[Row]:
    """The numbers are those of the command line; a part that is to happen 0 times is left out."""
    dice = random.Random(seed)
    if stages:
        with part("other stages") as directory:
            yield from other_stages(directory, stages, dice)
    for name, count in _shares(list(PLAIN), single):
        with part(name) as directory:
            yield kills(directory, name, 1, count, 6, dice)
    for name, count in _shares(list(PLAIN)[-2:], double):
        with part(f"{name}, two processes") as directory:
            yield kills(directory, name, 2, count, 5, dice)
    for name in RECIPES if each_recipe else ():
        with part(name) as directory:
            yield kills(directory, name, 1, each_recipe, 4, dice)
    if damaged:
        with part("damage") as directory:
            yield from damage(directory, dice, damaged)
    for _ in range(signals):
        with part("signals") as directory:
            yield from harms(directory)
    for _ in range(stories):
        with part("Prefect") as directory:
            yield from prefect(directory)


def _shares(names: list[str], total: int) -> Iterator[tuple[str, int]]:
    """`total` dealt out to the names, the first ones getting what is left over; without those that get none."""
    for index, name in enumerate(names):
        if count := (total + len(names) - 1 - index) // len(names):
            yield name, count


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.campaign", description=__doc__)
    parser.add_argument("--single", type=int, default=50, help="kills of trainings in one process")
    parser.add_argument("--double", type=int, default=10, help="kills of one of two processes")
    parser.add_argument("--each-recipe", type=int, default=4, help="kills of a training of each variant")
    parser.add_argument("--damaged", type=int, default=5, help="harmed checkpoints of each kind")
    parser.add_argument("--signals", type=int, default=1, help="times that every signal is sent to a whole stage")
    parser.add_argument("--stories", type=int, default=1, help="times that Prefect's parts are harmed, one by one")
    parser.add_argument("--stages", type=int, default=5, help="kills of each other stage")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", type=Path, default=TABLE, help="the file to write, docs/faults.md by default")
    arguments = vars(parser.parse_args())
    table = arguments.pop("table")
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} core(s), torch {torch.__version__}"
    machine += f"; commit {git_commit(ROOT)}, {date.today()}"
    rows: list[Row] = []
    for row in campaign(**arguments):
        rows.append(row)
        print(row, flush=True)
        table.write_text(page(rows, f"Seed {arguments['seed']}; {machine}."), encoding="utf-8")


if __name__ == "__main__":
    main()
