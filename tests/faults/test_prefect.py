"""Prefect around a real training: cancelled, its worker, its server and its process killed, and two runs in one tree.

One story in one tree: each test goes on with the training that the one before it left. Its end is that of a training
that nobody disturbed.
"""

from collections.abc import Iterator

import pytest

from tests.faults import prefect_runs
from tests.faults.prefect_runs import Project
from tests.faults.trainings import Training, assert_equal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Training:
    return prefect_runs.undisturbed(tmp_path_factory.mktemp("whole") / "tree")


@pytest.fixture(scope="module")
def project(whole: Training, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with prefect_runs.serving(tmp_path_factory.mktemp("prefect") / "tree") as project:
        yield project


@pytest.fixture(scope="module")
def runs() -> dict[str, str]:
    """Flow runs that one test begins and the next one harms."""
    return {}


def test_a_cancelled_run_leaves_a_checkpoint_and_the_next_in_line_begins(
    project: Project, runs: dict[str, str]
) -> None:
    _, runs["second"] = prefect_runs.cancelled(project)


def test_with_its_worker_killed_a_training_stops(project: Project, runs: dict[str, str]) -> None:
    prefect_runs.worker_killed(project, runs["second"])


def test_with_its_process_killed_a_stage_is_tried_again(project: Project, runs: dict[str, str]) -> None:
    _, runs["third"] = prefect_runs.process_killed(project)


def test_with_its_server_killed_a_training_goes_on_and_nothing_of_it_all_shows_in_the_result(
    project: Project, runs: dict[str, str], whole: Training
) -> None:
    prefect_runs.server_killed(project, runs["third"])
    ((run_id, status),) = project.mlflow_runs()
    assert status == "FINISHED"
    assert_equal(Training(project.root, run_id=run_id), whole)


def test_a_run_beside_a_plain_dvc_repro_is_refused(project: Project) -> None:
    prefect_runs.change(project)
    prefect_runs.beside_dvc_repro(project)
