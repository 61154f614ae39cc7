"""A comparison in MLflow: a parent run, and below it a run for each variant, side by side in the compare view."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow.entities import Metric
from mlflow.tracking import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from tasks.comparing.variant import Variant
from tasks.tracking.runs import log_params
from tasks.tracking.store import open_experiment, reachable


def log(variants: Sequence[Variant], values: Mapping[str, Mapping[str, Any]], page: Path) -> str:
    """The id of the parent run; `values` are the params of each variant by its name, `page` a file to keep with it.

    `UnavailableError` where the store cannot be used.
    """
    with reachable():
        client, experiment = open_experiment()
        parent = client.create_run(
            experiment, run_name=f"compare {', '.join(each.name for each in variants)}"
        ).info.run_id
        for variant in variants:
            run = client.create_run(experiment, tags={MLFLOW_PARENT_RUN_ID: parent}, run_name=variant.name).info.run_id
            _log(client, run, variant, values[variant.name])
        client.log_artifact(parent, str(page))
        client.set_terminated(parent)
        return str(parent)


def _log(client: MlflowClient, run: str, variant: Variant, values: Mapping[str, Any]) -> None:
    now = int(1000 * time.time())
    log_params(client, run, values)
    client.log_batch(run, metrics=[Metric(name, value, now, 0) for name, value in variant.metrics().items()])
    client.set_terminated(run)
