"""Versions, devices, memory and time: the machine against what the pipeline needs."""

import difflib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
import torch

from bertcore import cores
from bertcore.cores import control_groups
from bertcore.corpus.sources.pydoc.installation import compare, few, read_lock
from bertcore.precision import device, has_fast_bf16, precision
from bertcore.training.launch import launched_processes
from bertcore.training.machine import compiled, threads
from bertcore.variables import VARIABLES
from tasks import environment
from tasks.doctor.findings import Finding, fail, ok, warn
from tasks.doctor.plan import Plan
from tasks.durations import duration
from tasks.processes import checkpoint_grace

OLDEST_PYTHON = (3, 11)
PROCESS_BYTES = 500 * 2**20
"""Of a training process before it holds anything: the interpreter, torch, MLflow."""
UNCERTAINTY = 1.3
"""How far the estimate of the memory may be off, to either side."""
_GROWTH = 4
"""Times as much as it needs at first a training on a CPU may hold after hours, as kernels are compiled for each shape
and the heap goes to pieces: a mini 3.7 times after 9,400 steps, a tiny 2.1 times after 3,200 (docs/limits.md)."""
LONG_DAYS = 14
"""A pre-training that takes longer is hardly meant for this machine."""
_WORTH_COMPILING = 10
"""Minutes: compiling takes one to two of a training, and saves a third of it."""


def check_versions(lock: Path) -> Finding:
    """Python, and the packages against `lock`; nothing is imported."""
    python = ".".join(map(str, sys.version_info[:3]))
    pins = read_lock(lock)
    missing, differing = compare(pins)
    if problems := missing + differing:
        return Finding(
            level="FAIL" if missing else "warn",
            name="versions",
            text=f"Python {python}; {lock}: {few(problems)}",
            remedy=f"{sys.executable} -m pip install -r {lock}",
        )
    if sys.version_info < OLDEST_PYTHON:
        remedy = "remove .venv, then: make PYTHON=python3.11 pretrain"
        return fail("versions", f"Python {python}, expected 3.11 or later", remedy)
    return ok("versions", f"Python {python}, {len(pins)} packages as in {lock}")


def check_devices() -> Finding:
    """What computes, in how many processes, how precisely; `ConfigError` for a variable that cannot be used."""
    (_, processes), number = launched_processes(), precision()
    count, each = torch.cuda.device_count(), threads(processes)
    where = f"{count} x {torch.cuda.get_device_name(0)}" if count else f"no GPU, {_counted(cores.available(), 'core')}"
    text = f"{where}; {_counted(processes, 'training process')} of {_counted(each, 'thread')}, precision {number}"
    if count and processes > count:
        remedy = f"set BERTCORE_PROCESSES to at most {count}, or unset it"
        return fail("devices", f"{text}: more processes than GPUs", remedy)
    if number == "bf16" and not has_fast_bf16():
        text += ", which this processor only emulates"
        return warn("devices", text, "unset BERTCORE_PRECISION, or set it to no")
    return ok("devices", text)


def check_variables(given: Mapping[str, str] = os.environ) -> Finding:
    """What else stages read of the environment; `ConfigError` for a variable that cannot be used. One that seems to be
    misspelt would be ignored."""
    environment.check()
    checkpoint_grace()
    for name in sorted(given):
        near = difflib.get_close_matches(name, VARIABLES, n=1, cutoff=0.85)
        if near and name not in VARIABLES:
            text = f"{name} is no variable of this project"
            return warn("variables", text, f"did you mean {near[0]}? Else ignore it")
    return ok("variables", "those of the environment that stages read can be used")


class Memory(NamedTuple):
    """Bytes, of a machine or of one GPU."""

    free: int
    whole: int


def check_memory(plan: Plan, here: Memory | None = None) -> Finding:
    """What all processes of this machine's training need, against what is there (`here` in place of a look). What is
    taken now is no failure: it may be another run's, after which this one has its turn."""
    need, (_, processes) = plan.memory().total, launched_processes()
    remedy = (
        "set BERTCORE_MICRO_BATCH (the batch in parts) or BERTCORE_ACTIVATION_CHECKPOINTING=1, choose a smaller preset "
        "or free memory"
    )
    if device().type == "cuda":
        here, place, later = here or _memory_of_gpus(), "on the GPU", ""
    else:
        need = processes * (need + PROCESS_BYTES)
        here, place, later = here or memory(), "of memory", f", up to {size(_GROWTH * need)} after hours"
    text = f"pre-training needs about {size(need)}{later}; of {size(here.whole)} {place}, {size(here.free)} are free"
    if need * UNCERTAINTY <= here.free:
        return ok("memory", text)
    # Weights that are divided among processes need less than what was computed.
    certain = need > here.whole * UNCERTAINTY and not os.environ.get("BERTCORE_ACCELERATE_CONFIG")
    return Finding(level="FAIL" if certain else "warn", name="memory", text=text, remedy=remedy)


def check_time(plan: Plan) -> Finding:
    """How long and how large the run will be, from the speed of a few steps here and now."""
    seconds, flops = plan.seconds(plan.speed()), plan.flops()
    minutes, speed = seconds / 60, flops / seconds
    text = (
        f"pre-training about {duration(minutes)}: {flops:.2g} FLOPs at {gigaflops(speed)} GFLOP/s, as measured "
        f"now; models {size(plan.models_bytes)}, checkpoints {size(plan.checkpoint_bytes)}"
    )
    if gains_by_compiling(minutes, device().type):
        text += "; BERTCORE_COMPILE=1 made a base 1.45 times as fast on one GPU (benchmarks/results/gpu.md)"
    if minutes > LONG_DAYS * 24 * 60:
        remedy = "lower pretrain.max_steps or take a smaller preset; or is another machine meant?"
        return warn("time", text, remedy)
    return ok("time", text)


def gains_by_compiling(minutes: float, kind: str) -> bool:
    """Whether a training of so many minutes on a device of this kind would be faster compiled, and can be."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))  # as torch looks for it
    return kind == "cuda" and minutes >= _WORTH_COMPILING and compiler is not None and not compiled()


def memory(root: Path = Path("/")) -> Memory:
    """The machine's, or its control group's where that has less.

    `root`: of the file system with /proc and /sys.
    """
    machine = psutil.virtual_memory()
    return _least([Memory(machine.available, machine.total), *_of_control_groups(root)])


def _least(found: list[Memory]) -> Memory:
    return Memory(min(each.free for each in found), min(each.whole for each in found))


def _of_control_groups(root: Path) -> Iterator[Memory]:
    """The limits of this process's groups, and what they leave, in both versions of Linux's control groups."""
    for version, place in control_groups("memory", root):
        if version == 2:
            limit, used, cached = "memory.max", "memory.current", "inactive_file"
        else:
            limit, used, cached = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        yield from _left(place / limit, place / used, place / "memory.stat", cached)


def _left(limit: Path, used: Path, statistics: Path, cached: str) -> Iterator[Memory]:
    """The limit, and it less what is used; files that the kernel only keeps in mind count as free."""
    try:
        most = limit.read_text().strip()
        if most == "max":
            return
        entries = dict(line.split() for line in statistics.read_text().splitlines())
        yield Memory(int(most) - int(used.read_text()) + int(entries.get(cached, 0)), int(most))
    except OSError:
        return


def _memory_of_gpus() -> Memory:
    return _least([Memory(*torch.cuda.mem_get_info(index)) for index in range(torch.cuda.device_count())])


def size(number: float) -> str:
    """Bytes, as a person reads them."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}" if number < 1000 * factor else f"{number / factor:,.0f} {unit}"
    return f"{number / 1024:.3g} KiB"


def gigaflops(speed: float) -> str:
    """Operations per second in billions, as a person reads them."""
    billions = speed / 1e9
    return f"{billions:.3g}" if billions < 1000 else f"{billions:,.0f}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "es" if what.endswith("s") else "s")
