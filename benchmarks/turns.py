"""Variants that take turns, each in a process of its own, so that neither memory nor a busy machine favours one."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

from bertcore.memory import peak_bytes
from bertcore.precision import device
from bertcore.training.flops import wait_for

Work = Callable[[], int]
"""Does one unit of work; returns its size in real tokens."""


@dataclass(frozen=True)
class Turns:
    """What one variant measured."""

    rates: list[float]
    """Tokens per second, one value for each turn."""
    peak_gib: float
    """Largest memory of its process, GiB: resident, or what its tensors took of a GPU."""

    @property
    def median(self) -> float:
        return statistics.median(self.rates)


def take_turns(
    variants: Mapping[str, Callable[[], Work]],
    turns: int,
    units: int,
    warmup: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Turns]:
    """Build every variant in a new process, warm it up, then let them work `units` each, `turns` times in rotation.

    The makers must be picklable (functions of a module, partials of them). `clock` gives seconds: `time.process_time`
    measures what the processor spent on all threads of a process, whatever else ran on it.
    """
    context = multiprocessing.get_context("spawn")
    workers = {}
    for name, make in variants.items():
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, make, warmup, clock), daemon=True)
        process.start()
        there.close()  # so that a variant that ends by an error ends the turns
        here.recv()  # ready; the next one warms up alone
        workers[name] = here
    rates: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(turns):
        for name, pipe in workers.items():
            pipe.send(units)
            rates[name].append(pipe.recv())
    return {name: Turns(rates[name], _stop(pipe)) for name, pipe in workers.items()}


def faster(ours: Turns, theirs: Turns, digits: int = 2) -> str:
    """For a table: median, smallest and largest ratio of turns that followed each other; empty beside itself."""
    if ours is theirs:
        return ""
    found = [mine / other for mine, other in zip(ours.rates, theirs.rates, strict=True)]
    middle, low, high = (f"{ratio:.{digits}f}" for ratio in (statistics.median(found), min(found), max(found)))
    return f"{middle}x ({low} to {high})"


def row(
    ours: Turns, theirs: Turns, further: Mapping[str, str] | None = None, rate: str = "real tokens/s"
) -> dict[str, str]:
    """Of a table: `theirs` beside ours. The columns `further` stand before that of the memory."""
    return {
        rate: f"{theirs.median:,.0f}",
        "bertcore is faster by": faster(ours, theirs),
        **(further or {}),
        "peak memory": f"{theirs.peak_gib:.2f} GiB",
    }


def _serve(pipe: Connection, make: Callable[[], Work], warmup: int, clock: Callable[[], float]) -> None:
    work = make()
    for _ in range(warmup):
        work()
    wait_for(device())
    pipe.send("ready")
    while units := pipe.recv():
        began = clock()
        tokens = sum(work() for _ in range(units))
        wait_for(device())
        pipe.send(tokens / (clock() - began))
    pipe.send(_peak_gib())


def _peak_gib() -> float:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    return peak_bytes() / 2**30


def _stop(pipe: Connection) -> float:
    pipe.send(0)
    return pipe.recv()
