"""Stage `shards`: corpus and tokenizer -> memory-mapped Arrow shards of token ids, with a manifest."""

import shutil
import sys

from bertcore.corpus.documents import SPLITS
from bertcore.files import disk_errors, replace_directory
from bertcore.shards.build import build_shards
from bertcore.shards.store import ShardsConfig
from tasks import params
from tasks.paths import CHECKPOINTS, CORPUS, SHARDS, TOKENIZER
from tasks.stage import main
from tasks.tracking.runs import StageRun


def run(stage_run: StageRun) -> None:
    config, work = params.section("shards", ShardsConfig), CHECKPOINTS / "shards"
    with disk_errors(SHARDS), replace_directory(SHARDS) as beside:
        manifest = build_shards(CORPUS, TOKENIZER, config, beside, work)
    shutil.rmtree(work)
    counts = {f"{split}_tokens": manifest.tokens(split) for split in SPLITS}
    stage_run.log_metrics(counts | {"shards": len(manifest.shards)})


if __name__ == "__main__":
    sys.exit(main("shards", run, configs={"shards": ShardsConfig}))
