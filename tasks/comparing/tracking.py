"""A comparison in MLflow: a parent run, and below it a run for each variant, side by side in the compare view."""

import hashlib
import json
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

_DIGEST = "comparison"
"""The tag of a comparison's run that says of what it is."""


def log(variants: Sequence[Variant], values: Mapping[str, Mapping[str, Any]], page: Path) -> str:
    """The id of the parent run; `values` are the params of each variant by its name, `page` a file to keep with it.

    The same comparison is logged once. `UnavailableError` where the store cannot be used.
    """
    with reachable():
        client, experiment = open_experiment()
        digest = _digest(variants, values)
        logged = f"tags.`{_DIGEST}` = '{digest}' and attributes.status = 'FINISHED'"
        if found := client.search_runs([experiment], logged, max_results=1):
            return str(found[0].info.run_id)
        name = f"compare {', '.join(each.name for each in variants)}"
        parent = client.create_run(experiment, tags={_DIGEST: digest}, run_name=name).info.run_id
        for variant in variants:
            run = client.create_run(experiment, tags={MLFLOW_PARENT_RUN_ID: parent}, run_name=variant.name).info.run_id
            _log(client, run, variant, values[variant.name])
        client.log_artifact(parent, str(page))
        client.set_terminated(parent)
        return str(parent)


def _digest(variants: Sequence[Variant], values: Mapping[str, Mapping[str, Any]]) -> str:
    whole = [[each.name, each.metrics(), values[each.name]] for each in variants]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _log(client: MlflowClient, run: str, variant: Variant, values: Mapping[str, Any]) -> None:
    now = int(1000 * time.time())
    log_params(client, run, values)
    client.log_batch(run, metrics=[Metric(name, value, now, 0) for name, value in variant.metrics().items()])
    client.set_terminated(run)
