"""What the machine decides (processes, threads, precision), and how the processes of one training talk to each other.

The machine's part is read from the environment (empty is unset) and recorded, and never stands in params.yaml:

| variable | meaning | default |
|---|---|---|
| `BERTCORE_PROCESSES` | training processes on this machine | GPUs, or 1 on a CPU |
| `BERTCORE_PRECISION` | `bf16` or `no` (float32) | bf16 where the processor computes in it |
| `BERTCORE_FINETUNE_PROCESSES` | processes that make the runs of a task, each alone | GPUs, or 2 on a CPU |
| `BERTCORE_MICRO_BATCH` | sequences that one process computes at once | its whole share of the batch |
| `BERTCORE_ACTIVATION_CHECKPOINTING` | 1: compute activations again in the backward pass: less memory, more time | 0 |
| `BERTCORE_COMPILE` | 1: torch.compile the encoder layers; needs a C++ compiler | 0 |
| `BERTCORE_DETERMINISTIC` | 1: a GPU adds in one order, too: the same bits every time; 0: as fast as it can | 1 |
| `BERTCORE_ACCELERATE_CONFIG` | an accelerate config file, instead of the first two | none |
"""

import os
import re
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import Accelerator, DistributedType
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils import GradientAccumulationPlugin
from torch import distributed

from bertcore import cores
from bertcore.allocator import keep_freed_memory
from bertcore.errors import ConfigError, TrainingError
from bertcore.precision import precision

Value = TypeVar("Value")

ACCELERATE_CONFIG = "BERTCORE_ACCELERATE_CONFIG"
_EXPECTED = "BERTCORE_EXPECTED_PROCESSES"
_CONFIG = Path(__file__).with_name("launch.yaml")
_QUIET = {"LOGLEVEL": "CRITICAL", "TORCH_CPP_LOG_LEVEL": "ERROR"}
"""What torch's launcher and its stores say of a connection that is lost: each tells it at length, beside the processes
themselves, who say it in a line."""


def launch_command(module: str) -> tuple[list[str], dict[str, str]]:
    """The command that runs `python -m module` in every training process, and the environment it needs."""
    # quiet: the failing process says why; the launcher would add a traceback of its own.
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--quiet"]
    environment = _QUIET | os.environ
    if config := os.environ.get(ACCELERATE_CONFIG):
        if (processes := _configured_processes(config)[0]) > 0:
            environment[_EXPECTED] = str(processes)
        # Without it accelerate gives every process one thread.
        environment.setdefault("OMP_NUM_THREADS", str(threads(launched_processes()[1])))
        return [*launch, "--config_file", config, "-m", module], environment
    processes = process_count()
    _require_gpus(processes, "BERTCORE_PROCESSES")
    environment[_EXPECTED] = str(processes)
    arguments = ["--config_file", str(_CONFIG), "--num_processes", str(processes), "--dynamo_backend", "no"]
    arguments += ["--mixed_precision", precision(), "--num_cpu_threads_per_process", str(threads(processes))]
    if not torch.cuda.is_available():
        # `--cpu` would silently start one process; with this variable `--multi_gpu` joins them through gloo.
        environment["ACCELERATE_USE_CPU"] = "true"
    if processes > 1:
        # Port 0 lets the launcher find a free one, so that two trainings on one machine do not meet.
        arguments += ["--multi_gpu", "--main_process_port", "0"]
    return [*launch, *arguments, "-m", module], environment


def launched_processes() -> tuple[int, int]:
    """Processes of the training that would be launched, and those of them on this machine."""
    if config := os.environ.get(ACCELERATE_CONFIG):
        processes, machines = _configured_processes(config)
        if processes > 0:
            return processes, -(-processes // machines)
    return process_count(), process_count()


def _configured_processes(config: str) -> tuple[int, int]:
    """What the accelerate config file says, -1 where it leaves it to the cluster, and the number of machines."""
    if not Path(config).is_file():
        raise ConfigError(f"{ACCELERATE_CONFIG}: found {config!r}, expected a file; see infra/accelerate for examples")
    try:
        found = load_config_from_file(config)
    except Exception as error:  # YAML's errors and accelerate's have no class in common
        said = " ".join(str(error).split())
        raise ConfigError(
            f"{ACCELERATE_CONFIG}: {config}: {said}; correct it, see infra/accelerate for examples"
        ) from None
    _check_configured(found, config)
    if not found.use_cpu and found.num_machines == 1:
        _require_gpus(found.num_processes, f"{ACCELERATE_CONFIG}: {config}: num_processes")
    return int(found.num_processes), max(int(found.num_machines), 1)


def _check_configured(found: Any, config: str) -> None:
    """`ConfigError` for what gives each process pieces of weights that cannot be told from whole ones."""
    kind = DistributedType(found.distributed_type)
    if kind not in (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU, DistributedType.FSDP):
        raise ConfigError(
            f"{ACCELERATE_CONFIG}: {config}: distributed_type: found {kind.value}, expected MULTI_GPU, MULTI_CPU or "
            "FSDP; see infra/accelerate for examples"
        )
    version = int(found.fsdp_config.get("fsdp_version", 1))
    if kind is DistributedType.FSDP and version != 2:
        raise ConfigError(
            f"{ACCELERATE_CONFIG}: {config}: fsdp_config.fsdp_version: found {version}, expected 2; set it, as "
            "infra/accelerate/fsdp2.yaml does"
        )


def _require_gpus(processes: int, where: str) -> None:
    """`ConfigError` where two of the processes of this machine would share a GPU, which NCCL refuses."""
    if torch.cuda.is_available() and processes > torch.cuda.device_count():
        raise ConfigError(
            f"{where}: found {processes}, expected at most the {torch.cuda.device_count()} GPUs of this machine, one "
            "for each process; lower it"
        )


def process_count() -> int:
    """Training processes on this machine."""
    return _positive("BERTCORE_PROCESSES", max(torch.cuda.device_count(), 1))


def finetune_processes(runs: int) -> int:
    """Processes that make the `runs` of a task on this machine, each run in one of them."""
    return min(_positive("BERTCORE_FINETUNE_PROCESSES", torch.cuda.device_count() or min(threads(1), 2)), runs)


def threads(processes: int) -> int:
    """CPU threads of each process: the cores this process may use, shared evenly."""
    return max(cores.available() // processes, 1)


def micro_batch_size(share: int) -> int:
    """Sequences that one process computes at once, of the `share` that it has of the global batch."""
    return min(_positive("BERTCORE_MICRO_BATCH", share), share)


def activation_checkpointing() -> bool:
    """Whether activations are computed again in the backward pass."""
    return _switch("BERTCORE_ACTIVATION_CHECKPOINTING")


def compiled() -> bool:
    """Whether the encoder layers are compiled."""
    return _switch("BERTCORE_COMPILE")


def deterministic() -> bool:
    """Whether a GPU adds in the same order every time; a CPU does."""
    return _switch("BERTCORE_DETERMINISTIC", default=True) or not torch.cuda.is_available()


def make_accelerator() -> Accelerator:
    """The accelerator of this process; `TrainingError` where another number of processes came up than was asked for."""
    keep_freed_memory()
    _add_in_one_order()
    # By ACCELERATE_GRADIENT_ACCUMULATION_STEPS it would divide every gradient, of steps that are made all the same.
    whole = GradientAccumulationPlugin(num_steps=1)
    cpu = not torch.cuda.is_available()
    accelerator = Accelerator(cpu=cpu, mixed_precision=precision(), gradient_accumulation_plugin=whole)
    autocast_alone(accelerator)
    expected = int(os.environ.get(_EXPECTED, accelerator.num_processes))
    if accelerator.num_processes != expected:
        raise TrainingError(
            f"accelerate started {accelerator.num_processes} joined processes, expected {expected}: the "
            "trainings would be "
            "independent; check BERTCORE_PROCESSES and the accelerate config"
        )
    return accelerator


def autocast_alone(accelerator: Accelerator) -> None:
    """Leave the conversion to bfloat16 to autocast where FSDP divides the weights, as it is everywhere else.

    FSDP's own would also round what goes from layer to layer, the exchanged gradients and the summed loss.
    """
    if (plugin := getattr(accelerator.state, "fsdp_plugin", None)) is not None:
        plugin.mixed_precision_policy = None


def _add_in_one_order() -> None:
    """Where it is asked for; on a CPU torch's switch would only fill new arrays, at a cost."""
    if torch.cuda.is_available() and deterministic():
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        torch.use_deterministic_algorithms(True)


def describe(accelerator: Accelerator) -> dict[str, str | int]:
    """The facts on which the bits of a training depend beside its inputs."""
    device = accelerator.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
    return {
        "device": f"{device.type} ({name})",
        "precision": accelerator.mixed_precision,
        "world_size": accelerator.num_processes,
        "divided": getattr(accelerator.state, "fsdp_plugin", None) is not None,
        "threads": torch.get_num_threads(),
        "micro_batch": os.environ.get("BERTCORE_MICRO_BATCH") or "whole",
        "compiled": compiled(),
        "deterministic": deterministic(),
        "torch": torch.__version__,
    }


_LONGEST_WAIT = timedelta(days=1)
"""While rank 0 saves a large model and tries it in another process. That a process is no more is known otherwise."""


class Control:
    """What the processes of one training tell each other beside the gradients; with one, everything stays as it is.

    The GPUs' own exchange would make every process wait for its device; this one goes past it, through gloo. It also
    tells at once when a process was lost: its connections close.
    """

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self._group = distributed.new_group(timeout=_LONGEST_WAIT, backend="gloo") if world_size > 1 else None

    @property
    def main(self) -> bool:
        """Whether this is rank 0."""
        return self._group is None or distributed.get_rank() == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each of `values` added over all processes, in float64; the same result in all of them."""
        if self._group is None:
            return list(values)
        sums = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(sums, group=self._group)
        return sums.tolist()

    def any(self, flag: bool) -> bool:
        """Whether `flag` is set in any process."""
        return self.sum([float(flag)])[0] > 0

    def gather(self, value: Value) -> list[Value]:
        """`value` of every process, by rank."""
        if self._group is None:
            return [value]
        values = [value] * distributed.get_world_size(self._group)
        distributed.all_gather_object(values, value, group=self._group)
        return values

    def on_main(self, work: Callable[[], object]) -> None:
        """Do `work` on rank 0; its `TrainingError` is raised in every process, so that none waits for another."""
        problem = ""
        if self.main:
            try:
                work()
            except TrainingError as error:
                problem = str(error)
        if problem := "".join(self.gather(problem)):
            raise TrainingError(problem)


def how_lost(error: RuntimeError) -> str:
    """What an exchange says that failed because a process at its other end is no more; empty where it failed
    otherwise."""
    found = _LOST.search(str(error))
    return found[1] if found else ""


_LOST = re.compile(
    r"(?:\[\S+\.cc:\d+\] )?(.*?(?:closed by peer|reset by peer|Broken pipe|Socket Timeout)(?: \[\S+\]:\d+)?)"
)
"""Without the place in gloo's code before it, and its advice after it."""


def _switch(variable: str, *, default: bool = False) -> bool:
    found = os.environ.get(variable) or str(int(default))
    if found not in ("0", "1"):
        raise ConfigError(f"{variable}: found {found!r}, expected 0 or 1; correct the variable")
    return found == "1"


def _positive(variable: str, default: int) -> int:
    found = os.environ.get(variable) or str(default)
    if not found.isdecimal() or int(found) < 1:
        raise ConfigError(f"{variable}: found {found!r}, expected a whole number of at least 1; correct the variable")
    return int(found)
