"""Stage `pretrain`: instances -> models/pretrained. Checks what the training reads, starts its processes through
Accelerate and waits for them."""

import sys
from pathlib import Path

from bertcore.errors import ArtifactError
from bertcore.files import checksum
from bertcore.instances.config import MaskConfig
from bertcore.instances.store import verify_instances
from bertcore.shards.store import MANIFEST, Manifest, damaged_remedy, verify
from bertcore.tokens.kind import TOKENIZER_FILE
from bertcore.training.config import PretrainConfig
from bertcore.training.launch import launch_command
from tasks import params
from tasks.paths import INSTANCES, SHARDS, TOKENIZER
from tasks.stage import main
from tasks.tracking.runs import StageRun
from tasks.training.launcher import run_training
from tasks.training.naming import TrainingNames


def run(_: StageRun) -> None:
    run_training(*launch_command("tasks.training.process"))


def run_file() -> Path:
    """The file beside the training's checkpoints that names its MLflow run. What it is made of is checked first."""
    config, mask = params.section("pretrain", PretrainConfig), params.section("mask", MaskConfig)
    check_inputs(mask)
    names = TrainingNames(config, mask)
    return names.checkpoints.directory / f"mlflow-run-{names.run}"


def check_inputs(mask: MaskConfig) -> None:
    """`ArtifactError` naming the first file that the training would read and that is missing, damaged or foreign."""
    manifest, tokenizer = Manifest.read(SHARDS), TOKENIZER / TOKENIZER_FILE
    if not tokenizer.is_file() or (found := checksum(tokenizer)) != manifest.tokenizer_sha256:
        what = "nothing there" if not tokenizer.is_file() else f"SHA-256 {found[:12]}…"
        remedy = damaged_remedy(tokenizer, "tokenizer shards") if tokenizer.is_file() else "run `dvc repro shards`"
        raise ArtifactError(
            f"{tokenizer}: found {what}, expected {manifest.tokenizer_sha256[:12]}…, the tokenizer of the "
            f"ids as {SHARDS / MANIFEST} says; {remedy}"
        )
    if not mask.duplicates:
        verify(SHARDS, manifest)
    verify_instances(INSTANCES, SHARDS)


if __name__ == "__main__":
    configs = {"mask": MaskConfig, "pretrain": PretrainConfig}
    sys.exit(main("pretrain", run, run_file=run_file, configs=configs))
