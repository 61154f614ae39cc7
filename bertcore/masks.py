"""The instances of all shards, written and audited shard by shard on all cores.

What the audit counts is added up in the order of the shards, so that it does not depend on the number of workers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore import workers
from bertcore.audit import Audit, unigram_baseline
from bertcore.instances.config import MaskConfig
from bertcore.instances.sources import DrawnInstances
from bertcore.instances.store import static_path, write_counts
from bertcore.progress import track
from bertcore.shards.store import Manifest, ShardEntry, TokenShard
from bertcore.tokens.tokenizer import Vocabulary

OCCURRENCES = "train_count_of_the_rarest_but_5_percent"
"""In metrics/mask.json: how often the entry occurs than which 95 % of the entries are more frequent. Entries that are
seen fewer than some 100 times are hardly learned (Gowda and May 2020)."""


@dataclass(frozen=True)
class MaskPlan:
    """A shard whose instances are to be made: everything that a worker on another machine needs to know."""

    entry: ShardEntry
    config: MaskConfig
    vocabulary: Vocabulary
    shards: str
    """Absolute path of the shards' directory."""
    output: str
    """Absolute path of the instances' directory."""

    @property
    def heldout(self) -> bool:
        return self.entry.split == "heldout"


@dataclass(frozen=True)
class ShardCounts:
    """What was counted of a shard's instances."""

    name: str
    sequences: int
    """Of an epoch."""
    audit: Audit
    frequencies: NDArray[np.int64]
    """(V,) how often each entry of the vocabulary stands in the shard."""
    labels: NDArray[np.int64]
    """(V,) how often each entry is predicted in a held-out shard; never in one for training."""


def write_phase(
    config: MaskConfig, manifest: Manifest, vocabulary: Vocabulary, shards: Path, output: Path, count: int | None = None
) -> dict[str, Any]:
    """Write the instances of one phase into the existing directory `output`; the metrics of stage `mask`.

    `count`: worker processes, see `workers.run`. Raises `ArtifactError` and `InputError` as `Audit.check` does.
    """
    places = str(shards.resolve()), str(output.resolve())
    entries = [*manifest.of_split("train"), *manifest.of_split("heldout")]
    plans = [
        MaskPlan(entry, config.held_out if entry.split == "heldout" else config, vocabulary, *places)
        for entry in entries
    ]
    audit, heldout_audit = Audit(config, vocabulary), Audit(config.held_out, vocabulary)
    frequencies, labels = np.zeros((2, vocabulary.size), np.int64)
    counts: dict[str, int] = {}
    done = track(workers.run(write_shard, plans, count), f"mask {config.sequence_length}", len(plans))
    for plan, masked in zip(plans, done, strict=True):
        counts[masked.name] = masked.sequences
        if plan.heldout:
            heldout_audit.update(masked.audit)
            labels += masked.labels
        else:
            audit.update(masked.audit)
            frequencies += masked.frequencies
    write_counts(output, config, counts)
    audit.check()
    heldout_audit.check()
    return {
        "train_text_tokens": int(frequencies.sum()),
        "copies": max(config.duplicates, 1),
        OCCURRENCES: int(np.quantile(frequencies, 0.05, method="lower")),
        "train": audit.report(),
        "heldout": heldout_audit.report(),
        "heldout_unigram_baseline": unigram_baseline(frequencies, labels),
        "heldout_label_baselines": heldout_audit.label_baselines(audit),
    }


def write_shard(plan: MaskPlan) -> ShardCounts:
    """Make the instances of one shard; the same files each time."""
    shard, config, name = TokenShard.open(Path(plan.shards, plan.entry.name)), plan.config, plan.entry.name
    size = plan.vocabulary.size
    audit, sequences, labels = Audit(config, plan.vocabulary), None, np.zeros(size, np.int64)
    for epoch, written in _epochs(plan):
        drawn = DrawnInstances.of(shard, name, epoch, config, plan.vocabulary, sequences)
        instances = audit.add_drawn(drawn)
        sequences = len(instances)
        if plan.heldout:
            labels = np.bincount(instances.masked_labels, minlength=size)
        if written:
            instances.write(static_path(Path(plan.output), config, name, epoch))
    assert sequences is not None
    return ShardCounts(name, sequences, audit, np.bincount(shard.tokens, minlength=size), labels)


def _epochs(plan: MaskPlan) -> Iterator[tuple[int, bool]]:
    """Which epochs are drawn and audited, and whether they are written. Where masks are drawn while training, the first
    epoch's are audited and nothing is written."""
    if plan.heldout:
        return iter([(0, True)])
    return ((epoch, plan.config.duplicates > 0) for epoch in range(max(plan.config.duplicates, 1)))
