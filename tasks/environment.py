"""The variables of the machine that stages read when their turn comes, each read beforehand as they will read it."""

from bertcore import workers
from bertcore.training import machine
from bertcore.training.launch import launch_command
from bertcore.variables import switch
from tasks.tracking import models


def check() -> None:
    """`ConfigError` for the first variable that cannot be used."""
    launch_command("")
    machine.finetune_processes(runs=1)
    machine.micro_batch_size(share=1)
    machine.activation_checkpointing()
    machine.compiled()
    machine.deterministic()
    switch(models.SWITCH)
    workers.check_cluster()
