"""The variables of the machine that stages read when their turn comes, each read beforehand as they will read it."""

from bertcore import workers
from bertcore.training import distributed
from tasks.tracking import models


def check() -> None:
    """`ConfigError` for the first variable that cannot be used."""
    distributed.launch_command("")
    distributed.finetune_processes(runs=1)
    distributed.micro_batch_size(share=1)
    distributed.activation_checkpointing()
    distributed.compiled()
    distributed.deterministic()
    models.check_switch()
    workers.check_cluster()
