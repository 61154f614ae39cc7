"""The environment that the flows give to all that they start."""

import pytest

from flows.environment import ROOT, project_environment


@pytest.mark.parametrize(
    ("named", "given"),
    [
        ("sqlite:///mlflow.db", f"sqlite:///{ROOT}/mlflow.db"),
        ("sqlite:////data/mlflow.db", "sqlite:////data/mlflow.db"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("", ""),
    ],
)
def test_a_store_in_a_file_is_that_of_the_tree_for_runs_in_worktrees_too(
    named: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", named)
    assert project_environment()["MLFLOW_TRACKING_URI"] == given
