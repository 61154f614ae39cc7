"""What the tests of the tracking share."""

from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow store to copy: to make its tables takes longer than most tests."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path
