"""MLflow's registry of models: a version for each model that was logged, and which of them is the best one.

`models:/NAME@champion` is the version with the best score, `@previous` the one that was it before.
"""

import re
from collections.abc import Mapping

from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS, RESOURCE_DOES_NOT_EXIST, ErrorCode
from mlflow.tracking import MlflowClient

from tasks.tracking.finished import Score
from tasks.tracking.store import as_default, lock

CHAMPION, PREVIOUS = "champion", "previous"
_VALUE, _METRIC, _CONDITION, _VERDICT = "score", "score.metric", "score.on.", "champion.verdict"
_MISSING = ErrorCode.Name(RESOURCE_DOES_NOT_EXIST)


def registered_name(experiment: str, model: str) -> str:
    """`EXPERIMENT.MODEL`, as the registry takes it and as `models:/NAME@ALIAS` can be written."""
    return ".".join(re.sub(r"[^\w.-]+", "-", part).strip("-") for part in (experiment, model))


def register(
    client: MlflowClient, name: str, model_id: str, run_id: str, score: Score, tags: Mapping[str, str]
) -> ModelVersion:
    """The logged model as the next version of `name`, with `champion` where its score is the best.

    A score is compared only with one of the same metric under the same conditions; else the champion stays, and the
    version's tag `champion.verdict` says what differs.
    """
    own = {_VALUE: repr(score.value), _METRIC: score.metric}
    own |= {f"{_CONDITION}{condition}": value for condition, value in score.conditions.items()}
    with lock():  # of two that end together, the second one is compared with the first
        _ensure(client, name)
        with as_default():
            source = f"models:/{model_id}"
            version = client.create_model_version(name, source, run_id=run_id, tags={**tags, **own}, model_id=model_id)
        champion = with_alias(client, name, CHAMPION)
        wins, verdict = judge(score, champion)
        if wins and champion is not None:
            client.set_registered_model_alias(name, PREVIOUS, champion.version)
        if wins:
            client.set_registered_model_alias(name, CHAMPION, version.version)
        client.set_model_version_tag(name, version.version, _VERDICT, verdict)
    return version


def judge(score: Score, champion: ModelVersion | None) -> tuple[bool, str]:
    """Whether a model with `score` takes the place of `champion`, and why."""
    if champion is None:
        return True, "the first one"
    before, metric = champion.tags, champion.tags.get(_METRIC)
    conditions = {key.removeprefix(_CONDITION): value for key, value in before.items() if key.startswith(_CONDITION)}
    names = sorted(conditions.keys() | score.conditions.keys())
    differ = [name for name in names if conditions.get(name) != score.conditions.get(name)]
    if metric != score.metric:
        differ = [f"metric ({metric})", *differ]
    if differ:
        return False, f"not compared with version {champion.version}: other {', other '.join(differ)}"
    value = float(before[_VALUE])
    wins = score.beats(value)
    than = f"than version {champion.version}: {score.metric} {score.value:.4f} against {value:.4f}"
    return wins, f"{'better' if wins else 'not better'} {than}"


def with_alias(client: MlflowClient, name: str, alias: str) -> ModelVersion | None:
    """The version that `alias` names; None where there is none."""
    try:
        return client.get_model_version_by_alias(name, alias)
    except MlflowException as error:
        if error.error_code in (_MISSING, "INVALID_PARAMETER_VALUE"):  # the latter for an alias that was never set
            return None
        raise


def _ensure(client: MlflowClient, name: str) -> None:
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != ErrorCode.Name(RESOURCE_ALREADY_EXISTS):
            raise
