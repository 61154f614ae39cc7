"""Stage `contamination`: corpus and examples -> the share of evaluation examples whose long n-grams stand in the
corpus. On all cores."""

import logging
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bertcore.corpus.contamination import find_in_corpus
from bertcore.examples import schema
from bertcore.examples.schema import ExampleSet
from bertcore.files import write_json
from tasks.paths import CORPUS, EXAMPLES, METRICS
from tasks.stage import main
from tasks.tracking.runs import StageRun

logger = logging.getLogger(__name__)


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
    long_enough, met_anywhere = find_in_corpus(texts, corpus, count)
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
