"""Stage `pretrain`: instances -> models/pretrained. Starts the training processes through Accelerate and waits for
them."""

import subprocess
import sys

from bertcore.training.config import PretrainConfig
from bertcore.training.distributed import launch_command
from tasks import params
from tasks.stage import main
from tasks.tracking import StageRun


def run(_: StageRun) -> None:
    params.section("pretrain", PretrainConfig)
    command, environment = launch_command("tasks.pretrain_process")
    subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    sys.exit(main("pretrain", run))
