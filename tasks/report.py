"""Stage `report`: all metrics -> tables, plots and the summary."""

import logging
import sys

from bertcore.files import replace_directory, write_json
from tasks import params
from tasks.paths import (
    CORPUS,
    EMBEDDING,
    EXAMPLES,
    FINETUNED,
    INSTANCES,
    METRICS,
    PRETRAINED,
    REPORTS,
    SHARDS,
    TOKENIZER,
)
from tasks.reporting.measurements import Measurements
from tasks.reporting.pages import build_report
from tasks.reporting.rendering import plain_text
from tasks.reporting.setup import Setup
from tasks.reporting.summary import headlines
from tasks.stage import main
from tasks.tracking import lineage
from tasks.tracking.runs import StageRun

logger = logging.getLogger(__name__)


def run(stage_run: StageRun) -> None:
    values = params.read()
    measurements = Measurements.read(METRICS, list(params.task_entries(values)))
    recorded = lineage.recorded_hashes()
    of_tasks = [place / task for task in measurements.tasks for place in (EXAMPLES, FINETUNED)]
    of_embedding = [EMBEDDING] if values.get("embed") else []
    made = [str(path) for path in (CORPUS, TOKENIZER, SHARDS, INSTANCES, PRETRAINED, *of_embedding, *of_tasks)]
    setup = Setup(values, {path: recorded[path] for path in made if path in recorded})
    with replace_directory(REPORTS) as beside:
        summary, found = build_report(measurements, setup, beside)
    write_json(METRICS / "summary.json", summary)
    for sign in found:
        logger.warning("%s: %s; %s", sign.name, plain_text(sign.found), plain_text(sign.remedy))
    stage_run.log_metrics(summary)
    stage_run.parent.log_metrics(headlines(summary))
    if encoder := recorded.get(str(PRETRAINED)):
        stage_run.parent.set_tags({f"dvc.out.{PRETRAINED}": encoder})
    read = (str(CORPUS), *(str(EXAMPLES / task) for task in measurements.tasks))
    stage_run.parent.log_datasets({path: recorded[path] for path in read if path in recorded})
    stage_run.log_artifacts(REPORTS)


if __name__ == "__main__":
    sys.exit(main("report", run))
