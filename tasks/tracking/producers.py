"""Which runs made what a stage reads: also where a stage was cached and did not run in this invocation."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlflow.entities import LoggedModelInput, LoggedModelStatus, RunTag
from mlflow.tracking import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from tasks.tracking import lineage

FROM = "from."
"""Begins the tags that name runs, `from.STAGE` (`from.STAGE/TASK`: tags have no @): of a stage's run, and of a parent
for what was cached."""


@dataclass(frozen=True)
class Made:
    """A run that made something."""

    stage: str
    run_id: str
    parent_id: str | None


def made_by(client: MlflowClient, experiment: str, path: str, digest: str) -> str | None:
    """The newest run that left `path` with this DVC hash."""
    made = _made(client, experiment, path, digest)
    return made.run_id if made else None


def _made(client: MlflowClient, experiment: str, path: str, digest: str) -> Made | None:
    # A whole run has the tag of the encoder that it reports, too, and may be newer than the stage that made that.
    wanted = f"tags.`dvc.out.{path}` = '{digest}' AND tags.stage LIKE '%'"
    newest = client.search_runs([experiment], wanted, max_results=1, order_by=["attributes.start_time DESC"])
    if not newest:
        return None
    run = newest[0]
    return Made(run.data.tags["stage"], run.info.run_id, run.data.tags.get(MLFLOW_PARENT_RUN_ID))


def producers(client: MlflowClient, experiment: str, deps: list[str]) -> list[Made]:
    """The runs that made `deps`, and what lies below them, as dvc.lock has it."""
    recorded = lineage.recorded_hashes()
    read = {out: digest for out, digest in recorded.items() if any(out == d or out.startswith(f"{d}/") for d in deps)}
    found = (_made(client, experiment, path, digest) for path, digest in read.items())
    return list({made.stage: made for made in found if made is not None}.values())


def link(client: MlflowClient, run_id: str, parent_id: str, deps: list[str], hashes: Mapping[str, str]) -> None:
    """Have the run of a stage that reads `deps` name those that made them, and its parent those of other parents.

    The models that it reads, by `hashes` (path -> DVC hash), are the inputs of its run.
    """
    experiment = client.get_run(run_id).info.experiment_id
    made = producers(client, experiment, deps)
    client.log_batch(run_id, tags=_tags(made))
    client.log_batch(parent_id, tags=_tags([each for each in made if each.parent_id != parent_id]))
    for path, digest in hashes.items():
        wanted = f"tags.`dvc.out.{path}` = '{digest}'"
        found = client.search_logged_models([experiment], wanted) if path.startswith("models/") else []
        whole = [model for model in found if model.status == LoggedModelStatus.READY]
        if whole:
            client.log_inputs(run_id, models=[LoggedModelInput(whole[0].model_id)])


def _tags(made: list[Made]) -> list[RunTag]:
    return [RunTag(f"{FROM}{each.stage.replace('@', '/', 1)}", each.run_id) for each in made]
