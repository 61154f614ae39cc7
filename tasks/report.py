"""Stage `report`: all metrics -> tables, plots and the summary."""

import logging
import sys

from bertcore.files import replace_directory, write_json
from tasks import params
from tasks.paths import CORPUS, EXAMPLES, METRICS, PRETRAINED, REPORTS
from tasks.reporting.measurements import Measurements
from tasks.reporting.pages import build_report
from tasks.reporting.rendering import plain_text
from tasks.reporting.summary import headlines
from tasks.stage import main
from tasks.tracking import lineage
from tasks.tracking.runs import StageRun

logger = logging.getLogger(__name__)


def run(stage_run: StageRun) -> None:
    measurements = Measurements.read(METRICS, list(params.task_entries(params.read())))
    with replace_directory(REPORTS) as beside:
        summary, found = build_report(measurements, beside)
    write_json(METRICS / "summary.json", summary)
    for sign in found:
        logger.warning("%s: %s; %s", sign.name, plain_text(sign.found), plain_text(sign.remedy))
    stage_run.log_metrics(summary)
    stage_run.log_parent_metrics(headlines(summary))
    recorded = lineage.recorded_hashes()
    if encoder := recorded.get(str(PRETRAINED)):
        stage_run.set_parent_tags({f"dvc.out.{PRETRAINED}": encoder})
    read = (str(CORPUS), *(str(EXAMPLES / task) for task in measurements.tasks))
    stage_run.log_parent_datasets({path: recorded[path] for path in read if path in recorded})
    stage_run.log_artifacts(REPORTS)


if __name__ == "__main__":
    sys.exit(main("report", run))
