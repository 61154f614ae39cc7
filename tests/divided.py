"""FSDP2 on the CPU, for processes of tests."""

from accelerate import Accelerator
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

from bertcore.training import machine


def divide_weights() -> None:
    """Have the trainings of this process divide their weights among the processes.

    Accelerate does so on GPUs only; told so after it has joined the processes, it does the same on the CPU.
    """
    plain = machine.make_accelerator

    def divided() -> Accelerator:
        accelerator = plain()
        accelerator.state.distributed_type = DistributedType.FSDP
        accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2, auto_wrap_policy="transformer_based_wrap"
        )
        accelerator.state.fsdp_plugin.set_mixed_precision("bf16")  # as an accelerate config may ask for
        machine.autocast_alone(accelerator)
        return accelerator

    machine.make_accelerator = divided
