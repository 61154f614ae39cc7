"""Stage `mask`: token shards -> masked pre-training instances, and the audit that proves their rates."""

import sys

from bertcore.files import disk_errors, replace_directory, write_json
from bertcore.instances.config import MaskConfig
from bertcore.instances.store import write_manifest
from bertcore.masks import write_phase
from bertcore.shards.store import Manifest, verify
from bertcore.tokens.tokenizer import Vocabulary, load_tokenizer
from tasks import params
from tasks.paths import INSTANCES, METRICS, SHARDS, TOKENIZER
from tasks.stage import main
from tasks.tracking.runs import StageRun


def run(stage_run: StageRun) -> None:
    config = params.section("mask", MaskConfig)
    vocabulary = Vocabulary.of(load_tokenizer(TOKENIZER))
    manifest = Manifest.read(SHARDS)
    verify(SHARDS, manifest)
    with disk_errors(INSTANCES), replace_directory(INSTANCES) as beside:
        first, *second = [write_phase(phase, manifest, vocabulary, SHARDS, beside) for phase in config.phases]
        write_manifest(beside, SHARDS)
    metrics = {**first, "second_phase": second[0]} if second else first
    write_json(METRICS / "mask.json", metrics)
    stage_run.log_metrics(metrics)


if __name__ == "__main__":
    sys.exit(main("mask", run, configs={"mask": MaskConfig}))
