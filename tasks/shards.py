"""Stage `shards`: corpus and tokenizer -> memory-mapped Arrow shards of token ids, with a manifest."""

import shutil
import sys

from bertcore.data.disk import disk_errors
from bertcore.data.documents import SPLITS
from bertcore.data.sharding import build_shards
from bertcore.data.shards import ShardsConfig
from bertcore.files import replace_directory
from tasks import params
from tasks.paths import CHECKPOINTS, CORPUS, SHARDS, TOKENIZER
from tasks.stage import main
from tasks.tracking import StageRun


def run(stage_run: StageRun) -> None:
    config, work = params.section("shards", ShardsConfig), CHECKPOINTS / "shards"
    with disk_errors(SHARDS), replace_directory(SHARDS) as beside:
        manifest = build_shards(CORPUS, TOKENIZER, config, beside, work)
    shutil.rmtree(work)
    counts = {f"{split}_tokens": manifest.tokens(split) for split in SPLITS}
    stage_run.log_metrics(counts | {"shards": len(manifest.shards)})


if __name__ == "__main__":
    sys.exit(main("shards", run, configs={"shards": ShardsConfig}))
