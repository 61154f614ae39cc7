"""The runs of a task in several processes of this machine, each run made by one of them exactly as it would be alone.

Nothing is concluded here: the runs are kept where `Grid.run` finds them.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import multiprocessing
from torch.multiprocessing.spawn import ProcessException

from bertcore.finetune.config import RunConfig
from bertcore.finetune.grid import Grid
from bertcore.finetune.run import Finetuning, InitialEncoder
from bertcore.training.machine import threads
from bertcore.workers import start_worker, without_program

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Runs:
    """All runs of a task, of which every process makes its own grids."""

    prepare: Callable[[], Finetuning]
    """A function of a module, or a `partial` of one."""
    systems: Mapping[str, InitialEncoder]
    """Name -> encoder."""
    settings: Sequence[Sequence[RunConfig]]
    directory: Path
    key: str

    def grids(self, finetuning: Finetuning) -> dict[str, Grid]:
        """Of this process, one for each system."""
        return {
            name: Grid(finetuning, encoder, name, self.settings, self.directory, self.key)
            for name, encoder in self.systems.items()
        }


def make(runs: Runs, grids: Mapping[str, Grid], processes: int) -> None:
    """Make what is missing of all `grids` in so many processes; with one, leave it to `Grid.run`.

    So is what a process leaves that fails or is killed: it is tried again in this one, which can say why, when the
    others have made their own.
    """
    for grid in grids.values():
        grid.tell_finished()
    missing = [(name, task) for name, grid in grids.items() for task in grid.missing()]
    if min(processes, len(missing)) < 2:
        return
    shares = [missing[place::processes] for place in range(min(processes, len(missing)))]
    with without_program():
        context = multiprocessing.start_processes(
            _make, (runs, shares, processes), len(shares), join=False, daemon=True, start_method="spawn"
        )
    try:
        for process in context.processes:  # `context` would end those that still work with the first that has failed
            process.join()
        context.join()
    except ProcessException as error:
        why = str(error).strip().splitlines()[-1]
        logger.warning("one of %d processes ended (%s); what it left is made in this one", len(shares), why)
    finally:
        for process in context.processes:
            process.terminate()


def share_threads(processes: int) -> None:
    """Compute with as many threads as one of `processes` has, the bits of a run depend on it."""
    torch.set_num_threads(min(torch.get_num_threads(), threads(processes)))


def _make(place: int, runs: Runs, shares: Sequence[Sequence[tuple[str, RunConfig]]], processes: int) -> None:
    start_worker()
    share_threads(processes)
    if torch.cuda.is_available():
        torch.cuda.set_device(place % torch.cuda.device_count())
    logging.disable()  # what there is to say of the examples has been said where `runs` come from
    grids = runs.grids(runs.prepare())
    logging.disable(logging.NOTSET)
    for name, task in shares[place]:
        grids[name].make(task)
        grids[name].forget_weights(task)
