"""Stage `mask`: token shards -> masked pre-training instances, and the audit that proves their rates."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from bertcore.audit import Audit, unigram_baseline
from bertcore.files import disk_errors, replace_directory, write_json
from bertcore.instances.config import MaskConfig
from bertcore.instances.sources import DrawnInstances, static_path, write_counts, write_manifest
from bertcore.progress import track
from bertcore.tokens.shards import Manifest, TokenShard, verify
from bertcore.tokens.tokenizer import Vocabulary, load_tokenizer
from tasks import params
from tasks.paths import INSTANCES, METRICS, SHARDS, TOKENIZER
from tasks.stage import main
from tasks.tracking.runs import StageRun

OCCURRENCES = "train_count_of_the_rarest_but_5_percent"
"""In metrics/mask.json: how often the entry occurs than which 95 % of the entries are more frequent. Entries that are
seen fewer than some 100 times are hardly learned (Gowda and May 2020)."""


def run(stage_run: StageRun) -> None:
    config = params.section("mask", MaskConfig)
    vocabulary = Vocabulary.of(load_tokenizer(TOKENIZER))
    manifest = Manifest.read(SHARDS)
    verify(SHARDS, manifest)
    with disk_errors(INSTANCES), replace_directory(INSTANCES) as beside:
        first, *second = [_write(phase, manifest, vocabulary, beside) for phase in config.phases]
        write_manifest(beside, SHARDS)
    metrics = {**first, "second_phase": second[0]} if second else first
    write_json(METRICS / "mask.json", metrics)
    stage_run.log_metrics(metrics)


def _write(config: MaskConfig, manifest: Manifest, vocabulary: Vocabulary, directory: Path) -> dict[str, Any]:
    """The instances of one phase; its metrics."""
    audit, heldout_audit = Audit(config, vocabulary), Audit(config.held_out, vocabulary)
    train, heldout = manifest.of_split("train"), manifest.of_split("heldout")
    frequencies, labels = np.zeros(vocabulary.size, np.int64), []
    counts: dict[str, int] = {}
    for entry in track(train, f"mask {config.sequence_length}", len(train)):
        shard = TokenShard.open(SHARDS / entry.name)
        frequencies += np.bincount(shard.tokens, minlength=vocabulary.size)
        # Where masks are drawn while training, the first epoch's are audited and nothing is written.
        for epoch in range(max(config.duplicates, 1)):
            drawn = DrawnInstances.of(shard, entry.name, epoch, config, vocabulary, counts.get(entry.name))
            instances = audit.add_drawn(drawn)
            counts[entry.name] = len(instances)
            if config.duplicates:
                instances.write(static_path(directory, config, entry.name, epoch))
    for entry in heldout:
        drawn = DrawnInstances.of(TokenShard.open(SHARDS / entry.name), entry.name, 0, config.held_out, vocabulary)
        instances = heldout_audit.add_drawn(drawn)
        counts[entry.name] = len(instances)
        instances.write(static_path(directory, config, entry.name, 0))
        labels.append(instances.masked_labels)
    write_counts(directory, config, counts)
    audit.check()
    heldout_audit.check()
    return {
        OCCURRENCES: int(np.quantile(frequencies, 0.05, method="lower")),
        "train": audit.report(),
        "heldout": heldout_audit.report(),
        "heldout_unigram_baseline": unigram_baseline(frequencies, np.concatenate(labels)),
        "heldout_label_baselines": heldout_audit.label_baselines(audit),
    }


if __name__ == "__main__":
    sys.exit(main("mask", run, configs={"mask": MaskConfig}))
