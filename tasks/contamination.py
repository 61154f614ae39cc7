"""Stage `contamination`: corpus and examples -> the share of evaluation examples whose long n-grams stand in the
corpus. On all cores."""

import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertcore import workers
from bertcore.corpus.contamination import Ngrams
from bertcore.corpus.documents import RowGroup, first_copies, row_groups
from bertcore.examples import schema
from bertcore.examples.schema import ExampleSet
from bertcore.files import write_json
from bertcore.progress import track
from tasks.paths import CORPUS, EXAMPLES, METRICS
from tasks.stage import main
from tasks.tracking.runs import StageRun

logger = logging.getLogger(__name__)

GROUPS_AT_ONCE = 32
"""Blocks of training text that a worker looks through, some 130 MB: the evaluation texts go with them."""


@dataclass(frozen=True)
class _Part:
    """Some blocks of the training text, with absolute paths, and all evaluation texts."""

    texts: Sequence[str]
    groups: Sequence[RowGroup]


def run(stage_run: StageRun) -> None:
    # What a killed stage was about to write has a dot before its name.
    sets = {path.name: schema.read(path) for path in sorted(EXAMPLES.iterdir()) if not path.name.startswith(".")}
    if not sets:
        logger.info("params.yaml names no fine-tuning tasks: there are no examples to look for in the corpus")
    metrics = measure(sets, CORPUS) if sets else {}
    write_json(METRICS / "contamination.json", metrics)
    stage_run.log_metrics(metrics)


def measure(sets: dict[str, ExampleSet], corpus: Path, count: int | None = None) -> dict[str, Any]:
    """For every task and split other than train: its examples, those long enough to be checked, those of which a text
    shares an n-gram with the corpus, and their share of the checked ones. `count`: worker processes, see
    `workers.run`."""
    owners: list[tuple[str, str, int]] = []
    texts: list[str] = []
    for task, split, table in _evaluation_tables(sets):
        for row, fields in enumerate(map(_texts, table.to_pylist())):
            owners += [(task, split, row)] * len(fields)
            texts += fields
    groups = list(row_groups(path.resolve() for path in first_copies(corpus)))
    parts = [_Part(texts, groups[start : start + GROUPS_AT_ONCE]) for start in range(0, len(groups), GROUPS_AT_ONCE)]
    flags = track(workers.run(_met, parts, count), "contamination", len(parts))
    long_enough, met_anywhere = reduce(np.logical_or, flags)
    checked, met = (
        Counter(owner[:2] for owner in {owners[text] for text in np.flatnonzero(found)})
        for found in (long_enough, met_anywhere)
    )
    metrics: dict[str, Any] = {}
    for task, split, table in _evaluation_tables(sets):
        counts = {"examples": table.num_rows, "checked": checked[task, split], "contaminated": met[task, split]}
        share = {"contaminated_share": counts["contaminated"] / max(counts["checked"], 1)}
        metrics.setdefault(task, {})[split] = counts | share
    return metrics


def _met(part: _Part) -> NDArray[np.bool_]:
    """(2, texts) which of the evaluation texts have an n-gram at all, and which share one with the part's blocks."""
    ngrams = Ngrams(part.texts)
    for group in part.groups:
        ngrams.meet([" ".join(document) for document in group.read().to_pylist()])
    return np.stack([ngrams.long_enough, ngrams.met])


def _evaluation_tables(sets: dict[str, ExampleSet]) -> Iterator[tuple[str, str, pa.Table]]:
    for task, examples in sets.items():
        yield from ((task, split, table) for split, table in examples.splits.items() if split != "train")


def _texts(row: dict[str, Any]) -> list[str]:
    """The texts of an example; a tagged sentence's words are one text, its choices are a text each."""
    if "words" in row:
        return [" ".join(row["words"])]
    texts = [row[name] for name in ("text_a", "text_b", "title", "context", "question") if row.get(name)]
    return texts + row.get("choices", [])


if __name__ == "__main__":
    sys.exit(main("contamination", run))
