"""The launcher: the command that starts the processes of a training through Accelerate, and how many there will be."""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import DistributedType
from accelerate.commands.config.config_args import load_config_from_file

from bertcore.errors import ConfigError
from bertcore.precision import precision
from bertcore.training.machine import EXPECTED, process_count, threads

ACCELERATE_CONFIG = "BERTCORE_ACCELERATE_CONFIG"
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
            environment[EXPECTED] = str(processes)
        # Without it accelerate gives every process one thread.
        environment.setdefault("OMP_NUM_THREADS", str(threads(launched_processes()[1])))
        return [*launch, "--config_file", config, "-m", module], environment
    processes = process_count()
    _require_gpus(processes, "BERTCORE_PROCESSES")
    environment[EXPECTED] = str(processes)
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
