"""What was read, kept and dropped of the sources of a corpus, and whether that makes one."""

import logging
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore.corpus.candidates import AMOUNTS, Examined, Use
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.documents import SPLITS
from bertcore.errors import InputError

logger = logging.getLogger(__name__)


@dataclass
class SourceStatistics:
    """What was read of a source, kept and dropped."""

    read: int = 0
    """Documents in it."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Documents (and, where the reason says so, other records) by reason."""
    kept: dict[str, Counter[str]] = field(default_factory=lambda: {split: Counter() for split in SPLITS})
    """Documents, sentences, words and bytes (UTF-8) by split, as often as they are used."""
    different: Counter[str] = field(default_factory=Counter)
    """Kept documents by split, each of them once, however often it is used."""


@dataclass
class CorpusStatistics:
    """What was read, kept and dropped, for the metrics files."""

    sources: dict[str, SourceStatistics]
    """By URI, in the order of the config."""
    said: set[str] = field(default_factory=set)
    """What the log has said of records that are left out, see `Drops`."""
    least_draw: float = 1.0
    """Of the kept documents, the least of the numbers that decide the split."""
    unmatched: int = 0
    """Ids of `corpus.exclude` that no document has."""
    heldout_in_train: float = 0.0
    """Share of the held-out sentences that stand in the training text, too."""

    def add_read(self, found: Examined) -> None:
        """What was read and left out for a batch."""
        self.sources[found.source].read += found.read
        self.sources[found.source].dropped.update(found.drops.counts)
        for key, line in found.drops.said.items():
            if key not in self.said:
                logger.warning(line)
                self.said.add(key)

    def add_kept(self, use: Use, found: Examined, candidates: NDArray[np.int64]) -> None:
        """Candidates that enter the corpus, for one of their uses."""
        amounts = found.amounts[candidates].sum(axis=0).tolist()
        source = self.sources[found.source]
        source.kept[use.split].update(dict(zip(AMOUNTS, amounts, strict=True)))
        if not use.copy:
            source.different[use.split] += len(candidates)
            self.least_draw = min(self.least_draw, float(found.draws[candidates].min()))

    @property
    def read(self) -> int:
        """Documents of all sources."""
        return sum(source.read for source in self.sources.values())

    @property
    def dropped(self) -> Counter[str]:
        """Of all sources."""
        return _added(source.dropped for source in self.sources.values())

    @property
    def kept(self) -> dict[str, Counter[str]]:
        """Of all sources."""
        return {split: _added(source.kept[split] for source in self.sources.values()) for split in SPLITS}

    @property
    def different(self) -> Counter[str]:
        """Of all sources."""
        return _added(source.different for source in self.sources.values())

    def as_metrics(self) -> dict[str, Any]:
        return {
            "documents_read": {uri: source.read for uri, source in sorted(self.sources.items())},
            "dropped": dict(sorted(self.dropped.items())),
            **{split: dict(self.kept[split]) for split in SPLITS},
            "heldout_sentences_in_train_share": self.heldout_in_train,
            "excluded_ids_not_found": self.unmatched,
        }

    def dropped_by_source(self) -> dict[str, dict[str, int]]:
        return {uri: dict(sorted(source.dropped.items())) for uri, source in sorted(self.sources.items())}

    def text_by_source(self) -> list[dict[str, Any]]:
        """What of each source the corpus holds, in the order of the config: `documents`, each of them once; what there
        is in train and held out, as often as it is used; and the `train_share` of the training text's bytes."""
        whole = max(self.kept["train"]["bytes"], 1)
        return [
            {
                "uri": uri,
                "documents": source.different.total(),
                **{split: {name: source.kept[split][name] for name in AMOUNTS} for split in SPLITS},
                "train_share": source.kept["train"]["bytes"] / whole,
            }
            for uri, source in self.sources.items()
        ]


def _added(counters: Iterable[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def check_splits(config: CorpusConfig, statistics: CorpusStatistics) -> None:
    """`InputError` where a split has no document."""
    for split in SPLITS:
        if not statistics.kept[split]["documents"]:
            dropped = dict(sorted(statistics.dropped.items())) or "none"
            raise InputError(
                f"params.yaml: corpus.sources {config.uris}: no document for the split {split!r} "
                f"({statistics.read} read, dropped: {dropped}), expected at least one; "
                f"{_remedy(config, split, statistics)}"
            )


def _remedy(config: CorpusConfig, split: str, statistics: CorpusStatistics) -> str:
    if statistics.read == 1:
        if any(source.wrapped for source in config.sources):
            return "give more documents: a .txt with wrapped lines is one (docs/corpus.md)"
        return "give more documents: in a .txt a blank line ends one (docs/corpus.md)"
    if split == "heldout":
        return "give more text or a larger corpus.heldout_fraction"
    if statistics.kept["heldout"]["documents"] > 1:
        return (
            "all fell to the held-out text by their ids, which decide that; give every document an id of its own, or "
            "lower corpus.heldout_fraction"
        )
    return "give more text"


def check_share(config: CorpusConfig, statistics: CorpusStatistics) -> None:
    """Warn where so many documents are held out as chance does not bring about: several share an id, which decides."""
    different, share = statistics.different, config.heldout_fraction
    documents = different.total()
    expected, deviation = documents * share, math.sqrt(documents * share * (1 - share))
    if abs(different["heldout"] - expected) > _STANDARD_DEVIATIONS * deviation + 1:
        logger.warning(
            "corpus.heldout_fraction: %d of %d documents are held out, %.0f were expected: many share an id, which "
            "decides that; give every document an id of its own",
            *(different["heldout"], documents, expected),
        )


_STANDARD_DEVIATIONS = 5
"""By chance one corpus in a million is further off."""
