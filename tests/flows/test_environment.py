"""The environment that the flows give to all that they start."""

import subprocess
import sys

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


@pytest.mark.parametrize("name", ["BERTCORE_ACCELERATE_CONFIG", "BERTCORE_CACHE", "HF_HOME"])
def test_what_variables_name_is_the_trees_wherever_a_run_works(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for given, expected in (("a/b", f"{ROOT}/a/b"), ("/a/b", "/a/b"), ("~/b", "/home/me/b")):
        monkeypatch.setenv("HOME", "/home/me")
        monkeypatch.setenv(name, given)
        assert project_environment()[name] == expected


def test_a_locale_of_other_characters_does_not_end_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variable Python writes ISO-8859-1 where the locale says so, which has no line for a frame."""
    monkeypatch.delenv("PYTHONUTF8", raising=False)  # as of `make`
    monkeypatch.setenv("PYTHONIOENCODING", "")
    monkeypatch.setenv("LC_ALL", "en_US.ISO-8859-1")  # in a locale without a name Python has this mode by itself
    command = [sys.executable, "-c", "import sys; print(sys.stdout.encoding, sys.flags.utf8_mode)"]
    shown = subprocess.run(command, env=project_environment(), capture_output=True, text=True, check=True).stdout
    assert shown == "utf-8 1\n"
