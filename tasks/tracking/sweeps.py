"""A sweep in MLflow: one run, below which the runs of the pipeline stand that belong to it.

`python -m tasks.tracking.sweeps "KEY NAME" TABLE STOPPED STATUS` keeps the table with it, tags the runs that it has
stopped (JSON: the id of the flow run -> why) and ends it as FINISHED, FAILED or KILLED.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from mlflow.tracking import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from tasks.experiment import SWEEP
from tasks.status import exit_status
from tasks.tracking.store import lock, open_experiment, reachable

STOPPED = "sweep.stopped"
"""Tag of a run that its sweep has stopped early: why."""
_KEY = "pipeline.sweep"


def sweep_tags(client: MlflowClient, experiment: str) -> dict[str, str]:
    """The tags by which a run of the pipeline stands below its sweep; none where it belongs to none.

    The first one makes the sweep's run. Call it while holding the store's lock.
    """
    if not (sweep := os.environ.get(SWEEP)):
        return {}
    return {MLFLOW_PARENT_RUN_ID: _run(client, experiment, sweep)}


def _run(client: MlflowClient, experiment: str, sweep: str) -> str:
    key, _, name = sweep.partition(" ")
    if found := client.search_runs([experiment], f"tags.`{_KEY}` = '{key}'", max_results=1):
        return found[0].info.run_id
    return client.create_run(
        experiment, tags={_KEY: key, "prefect.flow_run_id": key}, run_name=f"sweep {name}"
    ).info.run_id


def conclude(sweep: str, table: Path, stopped: Mapping[str, str], status: str) -> None:
    """Keep `table` with the sweep's run, which ends with `status`, and say with each flow run of `stopped` why it was
    stopped. `UnavailableError` where the store cannot be used."""
    with reachable():
        client, experiment = open_experiment()
        with lock():
            run = _run(client, experiment, sweep)
        client.log_artifact(run, str(table))
        for flow_run, reason in stopped.items():
            for found in client.search_runs([experiment], f"tags.`prefect.flow_run_id` = '{flow_run}'"):
                client.set_tag(found.info.run_id, STOPPED, reason)
        client.set_terminated(run, status)


if __name__ == "__main__":
    sys.exit(exit_status(lambda: conclude(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4])))
