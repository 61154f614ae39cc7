"""Stage `mask`: token shards -> masked pre-training instances, and the audit that proves their rates."""

import sys

import numpy as np

from bertcore.data.audit import Audit, unigram_baseline
from bertcore.data.instances import DrawnInstances, Instances, MaskConfig, static_path
from bertcore.data.shards import Manifest, ShardEntry, TokenShard, Vocabulary, verify
from bertcore.data.wordpiece import load_tokenizer
from bertcore.files import replace_directory, write_json
from bertcore.progress import track
from tasks import params
from tasks.paths import INSTANCES, METRICS, SHARDS, TOKENIZER
from tasks.stage import main
from tasks.tracking import StageRun


def run(stage_run: StageRun) -> None:
    config = params.section("mask", MaskConfig)
    vocabulary = Vocabulary.of(load_tokenizer(TOKENIZER))
    manifest = Manifest.read(SHARDS)
    verify(SHARDS, manifest)
    audit = Audit(config, vocabulary)
    train, heldout = manifest.of_split("train"), manifest.of_split("heldout")
    counts, labels = np.zeros(vocabulary.size, np.int64), []
    with replace_directory(INSTANCES) as beside:
        for entry in track(train, "mask", len(train)):
            shard = TokenShard.open(SHARDS / entry.name)
            counts += np.bincount(shard.tokens, minlength=vocabulary.size)
            # Where masks are drawn while training, the first epoch's are audited and nothing is written.
            for epoch in range(max(config.duplicates, 1)):
                instances = _draw(shard, entry, epoch, config, vocabulary, audit)
                if config.duplicates:
                    instances.write(static_path(beside, entry.name, epoch))
        heldout_audit = Audit(config, vocabulary)
        for entry in heldout:
            instances = _draw(TokenShard.open(SHARDS / entry.name), entry, 0, config, vocabulary, heldout_audit)
            instances.write(static_path(beside, entry.name, 0))
            labels.append(instances.masked_labels)
        audit.check()
    metrics = {
        "train": audit.report(),
        "heldout": heldout_audit.report(),
        "heldout_unigram_baseline": unigram_baseline(counts, np.concatenate(labels)),
    }
    write_json(METRICS / "mask.json", metrics)
    stage_run.log_metrics(metrics)


def _draw(
    shard: TokenShard, entry: ShardEntry, epoch: int, config: MaskConfig, vocabulary: Vocabulary, audit: Audit
) -> Instances:
    drawn = DrawnInstances.of(shard, entry.name, epoch, config, vocabulary)
    instances = drawn.all()
    audit.add(instances)
    audit.truncated_tokens += drawn.pairs.truncated_tokens
    return instances


if __name__ == "__main__":
    sys.exit(main("mask", run))
