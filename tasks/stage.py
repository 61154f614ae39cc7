"""What every stage has in common: its MLflow run, its lineage, and errors that are one line."""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from bertcore.errors import BertcoreError
from tasks import lineage, tracking

BAD_INPUT, INTERRUPTED = 2, 130

Body = Callable[[tracking.StageRun], None]


def main(stage: str, body: Body, task: str | None = None) -> int:
    """Run `body` as the stage `stage` (of `task`, for a matrix stage); the exit status of its process."""
    return exit_status(lambda: _tracked(stage, body, task))


def exit_status(work: Callable[[], None]) -> int:
    """Do `work` with the stages' logging; an error made for the user is one line, and the status of its process 2."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    for chatty in ("alembic", "mlflow", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        work()
    except BertcoreError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _tracked(stage: str, body: Body, task: str | None) -> None:
    deps, outs = lineage.stage_paths(stage, task)
    before = lineage.fingerprint(deps)
    run = tracking.start(f"{stage}@{task}" if task else stage, _tags(deps))
    os.environ[tracking.RUN_ID] = run.run_id
    succeeded = False
    try:
        body(run)
        lineage.check_unchanged(before, deps)
        run.set_tags({f"dvc.out.{path}": lineage.dvc_hash(Path(path)) for path in outs})
        succeeded = True
    finally:
        run.end(succeeded)


def _tags(deps: list[str]) -> dict[str, str]:
    recorded = lineage.recorded_hashes()
    tags = {f"dvc.dep.{path}": recorded[path] for path in deps if path in recorded}
    if commit := lineage.git_commit():
        tags["git.commit"] = commit
    if flow_run := os.environ.get("BERTCORE_PIPELINE_RUN"):
        tags["prefect.flow_run_id"] = flow_run
    return tags
