"""What the machine decides of a training: its processes, their threads, and how they compute.

It is read from the environment (docs/machine.md has the variables) and recorded, and never stands in params.yaml.
"""

import os

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, GradientAccumulationPlugin

from bertcore import cores
from bertcore.allocator import keep_freed_memory
from bertcore.errors import TrainingError
from bertcore.precision import precision
from bertcore.variables import positive, switch

EXPECTED = "BERTCORE_EXPECTED_PROCESSES"
"""Processes that the launcher was to start, as it tells them."""


def process_count() -> int:
    """Training processes on this machine."""
    return positive("BERTCORE_PROCESSES") or max(torch.cuda.device_count(), 1)


def finetune_processes(runs: int) -> int:
    """Processes that make the `runs` of a task on this machine, each run in one of them."""
    return min(positive("BERTCORE_FINETUNE_PROCESSES") or torch.cuda.device_count() or min(threads(1), 2), runs)


def threads(processes: int) -> int:
    """CPU threads of each process: the cores this process may use, shared evenly."""
    return max(cores.available() // processes, 1)


def micro_batch_size(share: int) -> int:
    """Sequences that one process computes at once, of the `share` that it has of the global batch."""
    return min(positive("BERTCORE_MICRO_BATCH") or share, share)


def activation_checkpointing() -> bool:
    """Whether activations are computed again in the backward pass."""
    return switch("BERTCORE_ACTIVATION_CHECKPOINTING")


def compiled() -> bool:
    """Whether the encoder layers are compiled."""
    return switch("BERTCORE_COMPILE")


def deterministic() -> bool:
    """Whether a GPU adds in the same order every time; a CPU does."""
    return switch("BERTCORE_DETERMINISTIC", default=True) or not torch.cuda.is_available()


def make_accelerator() -> Accelerator:
    """The accelerator of this process; `TrainingError` where another number of processes came up than was asked for."""
    keep_freed_memory()
    _add_in_one_order()
    # By ACCELERATE_GRADIENT_ACCUMULATION_STEPS it would divide every gradient, of steps that are made all the same.
    whole = GradientAccumulationPlugin(num_steps=1)
    cpu = not torch.cuda.is_available()
    accelerator = Accelerator(
        cpu=cpu,
        mixed_precision=precision(),
        gradient_accumulation_plugin=whole,
        # Exchanged gradients stay where they were added up: no second copy of them all is held, and none is made.
        kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
    )
    autocast_alone(accelerator)
    expected = int(os.environ.get(EXPECTED, accelerator.num_processes))
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
