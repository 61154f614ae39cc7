"""Write the encoder of a checkpoint as a Hugging Face directory: `python -m tasks.training.export [STEP] --out DIR`.

The training is that of params.yaml; it may be running, or have been stopped. Nothing of it is written to or waited for,
and all is computed on the CPU. Without STEP it is the newest checkpoint's.
"""

import argparse
import logging
import os
import sys
from pathlib import Path

from bertcore.errors import ArtifactError, ConfigError
from bertcore.instances.config import MaskConfig
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.machine import make_accelerator
from bertcore.training.supervision import Supervision
from tasks import params
from tasks.paths import PRETRAINED
from tasks.status import exit_status
from tasks.training.naming import TrainingNames
from tasks.training.process import build
from tasks.training.saving import metrics_of, save


def export(out: Path, step: int | None) -> None:
    """Write the models of the checkpoint of `step`, as stage `pretrain` writes those of the last step, into `out`.

    `ConfigError` where something is there, or no checkpoint of that step; `ArtifactError` where it cannot be read.
    """
    if out.exists():
        raise ConfigError(f"--out: found {out}, expected a path where nothing is; give another one, or remove that")
    config, mask = params.section("pretrain", PretrainConfig), params.section("mask", MaskConfig)
    chosen = _chosen(TrainingNames(config, mask).checkpoints, step)
    training = build(make_accelerator(), Supervision())
    training.resume(chosen, report=False)
    if training.state.step != chosen:
        raise ArtifactError(
            f"{training.checkpoints.directory}: the checkpoint of step {chosen} cannot be read, expected a whole one: "
            "the training has removed it meanwhile, or it is damaged; run the command again, or give another step"
        )
    save(training.whole_models(), metrics_of(training), out)
    print(f"{out}: the encoder after {chosen:,} of {config.max_steps:,} steps")


def _chosen(checkpoints: Checkpoints, step: int | None) -> int:
    steps = checkpoints.steps()
    if not steps:
        raise ConfigError(
            f"{checkpoints.directory}: found no checkpoint, expected one of the training of params.yaml, of its inputs "
            f"and code as they are now; begin it (`dvc repro pretrain`), or take {PRETRAINED} if it has ended"
        )
    if step is not None and step not in steps:
        raise ConfigError(
            f"{checkpoints.directory}: found checkpoints of the steps {', '.join(map(str, steps))}, expected one of "
            f"step {step}; give one of them, and set pretrain.keep_every to keep encoders of earlier steps"
        )
    return steps[-1] if step is None else step


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tasks.training.export", description="Write a checkpoint as a Hugging Face directory"
    )
    parser.add_argument("step", type=int, nargs="?", help="of the checkpoint; the newest one's by default")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where nothing is yet")
    options = parser.parse_args(arguments)
    # The training may need all of the GPU; and its other bits here are of no account, of which resuming warns.
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "BERTCORE_COMPILE": "0"}
    logging.getLogger("bertcore.training.state").setLevel(logging.ERROR)
    return exit_status(lambda: export(options.out, options.step))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
