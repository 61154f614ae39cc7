"""The registry: the best version is the champion, and only what can be compared is compared."""

import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from tasks.tracking import registry, store
from tasks.tracking.finished import Score
from tasks.tracking.store import open_experiment
from tests.samples import empty_store

NAME = "bert-pretraining.pretrained"
SAME = {"held-out text": "a", "tokenizer": "b"}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    monkeypatch.chdir(tmp_path)
    shutil.copy(empty_store(), tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return open_experiment()[0]


def loss(value: float, conditions: dict[str, str] = SAME, metric: str = "mlm_loss") -> Score:
    return Score(metric=metric, value=value, larger_is_better=False, conditions=conditions)


def register(client: MlflowClient, score: Score) -> str:
    """The verdict on a new version with `score`."""
    _, experiment = open_experiment()
    run = client.create_run(experiment).info.run_id
    model = client.create_logged_model(experiment, name="pretrained", source_run_id=run)
    version = registry.register(client, NAME, model.model_id, run, score, {"git.commit": "abc"})
    return str(client.get_model_version(NAME, version.version).tags["champion.verdict"])


def aliases(client: MlflowClient) -> dict[str, Any]:
    return dict(client.get_registered_model(NAME).aliases)


def test_the_champion_changes_for_better_ones_only(client: MlflowClient) -> None:
    assert register(client, loss(4.0)) == "the first one" and aliases(client) == {"champion": 1}
    assert register(client, loss(4.5)) == "not better than version 1: mlm_loss 4.5000 against 4.0000"
    assert register(client, loss(4.0)).startswith("not better"), "the same"
    assert register(client, loss(math.nan)).startswith("not better")
    assert aliases(client) == {"champion": 1}
    assert register(client, loss(3.5)) == "better than version 1: mlm_loss 3.5000 against 4.0000"
    assert aliases(client) == {"champion": 5, "previous": 1}
    assert register(client, loss(3.0)).startswith("better than version 5")
    assert aliases(client) == {"champion": 6, "previous": 5}
    named = registry.with_alias(client, NAME, "champion")
    assert named is not None and named.tags["git.commit"] == "abc" and named.tags["score"] == "3.0"


def test_what_cannot_be_compared_says_why(client: MlflowClient) -> None:
    register(client, loss(4.0))
    found = register(client, loss(1.0, {**SAME, "held-out text": "c", "held-out sequences": "d"}))
    assert found == "not compared with version 1: other held-out sequences, other held-out text"
    assert register(client, loss(1.0, metric="loss")) == "not compared with version 1: other metric (mlm_loss)"
    assert aliases(client) == {"champion": 1}


def test_a_deleted_champion_makes_room_for_the_next_one(client: MlflowClient) -> None:
    register(client, loss(4.0))
    client.delete_model_version(NAME, "1")
    assert register(client, loss(5.0)) == "the first one" and aliases(client) == {"champion": 2}


def test_no_number_is_never_a_champion_for_long(client: MlflowClient) -> None:
    register(client, loss(math.nan))
    assert register(client, loss(9.0)).startswith("better") and aliases(client) == {"champion": 2, "previous": 1}


def test_scores_of_which_the_larger_is_better() -> None:
    score = Score(metric="f1", value=0.5, larger_is_better=True, conditions={})
    assert score.beats(0.4) and not score.beats(0.5) and not score.beats(0.6)


@pytest.mark.parametrize(
    ("experiment", "model", "name"),
    [("bert-pretraining", "topic", "bert-pretraining.topic"), ("/Shared/my run", "a:b/c", "Shared-my-run.a-b-c")],
)
def test_names_can_stand_in_addresses(client: MlflowClient, experiment: str, model: str, name: str) -> None:
    assert registry.registered_name(experiment, model) == name
    client.create_registered_model(name)


def test_the_default_store_is_as_it_was(client: MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.as_default():
        assert os.environ["MLFLOW_TRACKING_URI"] == store.tracking_uri()
    assert "MLFLOW_TRACKING_URI" not in os.environ
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///other.db")
    with store.as_default():
        pass
    assert os.environ["MLFLOW_TRACKING_URI"] == "sqlite:///other.db"
