"""A sweep in MLflow: one run, below which the runs of the pipeline stand that belong to it

`python -m tasks.tracking.sweeps "KEY NAME" TABLE` keeps the table with it and ends it.
"""

import os
import sys
from pathlib import Path

from mlflow.tracking import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from tasks.status import exit_status
from tasks.tracking.store import lock, open_experiment, reachable

VARIABLE = "BERTCORE_SWEEP"
"""Environment variable: the sweep's key, which is the id of its flow run, a blank and its name."""
_KEY = "pipeline.sweep"


def sweep_tags(client: MlflowClient, experiment: str) -> dict[str, str]:
    """The tags by which a run of the pipeline stands below its sweep; none where it belongs to none.

    The first one makes the sweep's run. Call it while holding the store's lock.
    """
    if not (sweep := os.environ.get(VARIABLE)):
        return {}
    return {MLFLOW_PARENT_RUN_ID: _run(client, experiment, sweep)}


def _run(client: MlflowClient, experiment: str, sweep: str) -> str:
    key, _, name = sweep.partition(" ")
    if found := client.search_runs([experiment], f"tags.`{_KEY}` = '{key}'", max_results=1):
        return found[0].info.run_id
    return client.create_run(
        experiment, tags={_KEY: key, "prefect.flow_run_id": key}, run_name=f"sweep {name}"
    ).info.run_id


def conclude(sweep: str, table: Path) -> None:
    """Keep `table` with the sweep's run, which ends. `UnavailableError` where the store cannot be used."""
    with reachable():
        client, experiment = open_experiment()
        with lock():
            run = _run(client, experiment, sweep)
        client.log_artifact(run, str(table))
        client.set_terminated(run)


if __name__ == "__main__":
    sys.exit(exit_status(lambda: conclude(sys.argv[1], Path(sys.argv[2]))))
