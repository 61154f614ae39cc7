"""Stage `examples@TASK`: a task's files, hub data set or the docstrings -> examples in one layout, every drop
counted."""

import json
import logging
import sys
from typing import Any

from bertcore import hub
from bertcore.examples import formats, schema
from bertcore.examples.hub import read_hub
from bertcore.examples.schema import ExampleSet
from bertcore.files import write_json
from tasks import params
from tasks.paths import CORPUS, DERIVED, EXAMPLES, INPUTS, METRICS
from tasks.stage import main
from tasks.tracking.runs import StageRun

logger = logging.getLogger(__name__)


def run(stage_run: StageRun, name: str) -> None:
    entry = params.task_entry(name)
    options = json.loads((INPUTS / "options" / f"{name}.json").read_text(encoding="utf-8"))
    revision = hub.commit_of(hub.parse_uri(entry["data"])) if entry["data"].startswith("hf://") else None
    examples = _read(name, entry["format"], entry["data"], options)
    schema.write(examples, EXAMPLES / name)
    shared = schema.in_train(examples)
    for split, number in shared.items():
        if number:
            rows = examples.splits[split].num_rows
            logger.warning("%s: %d of %d examples of %s stand in train, too", name, number, rows, split)
    if examples.dropped and entry["data"] != DERIVED:
        counts = ", ".join(f"{reason} {number:,}" for reason, number in examples.dropped.items())
        logger.warning("%s: rows that were left out or mended, by reason: %s", name, counts)
    metrics = {
        "format": entry["format"],
        "revision": revision,
        "family": examples.family,
        "splits": {split: table.num_rows for split, table in examples.splits.items()},
        "labels": None if examples.labels is None else len(examples.labels),
        "dropped": examples.dropped,
        "in_train": shared,
    }
    write_json(METRICS / "examples" / f"{name}.json", metrics)
    stage_run.log_metrics({"splits": metrics["splits"], "dropped": sum(examples.dropped.values())})


def _read(name: str, form: str, data: str, options: dict[str, Any]) -> ExampleSet:
    if data.startswith("hf://"):
        return read_hub(data, form, options)
    return formats.read(form, CORPUS if data == DERIVED else INPUTS / name, options)


if __name__ == "__main__":
    name = sys.argv[1]
    sys.exit(main("examples", lambda stage_run: run(stage_run, name), name))
