"""A sweep in MLflow: one run, with the pipeline's runs below it and the table."""

import shutil
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from tasks.tracking import runs, sweeps
from tests.samples import empty_store


def test_runs_of_the_pipeline_stand_below_their_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("pretrain: {learning_rate: 0.1}\n")
    (tmp_path / "sweep.csv").write_text("Run,loss\n")
    store = f"sqlite:///{tmp_path / 'shared' / 'mlflow.db'}"
    (tmp_path / "shared").mkdir()
    shutil.copy(empty_store(), tmp_path / "shared")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    for run, sweep in (("a", "key-1 brisk-otter"), ("b", "key-1 brisk-otter"), ("c", "")):
        monkeypatch.setenv("BERTCORE_PIPELINE_RUN", run)
        monkeypatch.setenv("BERTCORE_PIPELINE_NAME", run)
        monkeypatch.setenv(sweeps.SWEEP, sweep)
        stage = runs.start("corpus", {"prefect.flow_run_id": run})
        stage.end("FINISHED")
    sweeps.conclude("key-1 brisk-otter", tmp_path / "sweep.csv", {"b": "stopped at step 100"}, "FINISHED")

    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("bert-pretraining")
    assert experiment is not None
    assert experiment.artifact_location == (tmp_path / "shared" / "mlartifacts").as_uri(), "beside the database"
    found = {
        run.info.run_name: run for run in client.search_runs([experiment.experiment_id]) if "stage" not in run.data.tags
    }
    assert set(found) == {"sweep brisk-otter", "a", "b", "c"}
    sweep_id = found["sweep brisk-otter"].info.run_id
    parents = {name: run.data.tags.get("mlflow.parentRunId") for name, run in found.items()}
    assert parents == {"sweep brisk-otter": None, "a": sweep_id, "b": sweep_id, "c": None}
    assert found["sweep brisk-otter"].info.status == "FINISHED"
    assert [file.path for file in client.list_artifacts(sweep_id)] == ["sweep.csv"]
    assert {name: run.data.tags.get(sweeps.STOPPED) for name, run in found.items()} == {
        "sweep brisk-otter": None, "a": None, "b": "stopped at step 100", "c": None
    }  # fmt: skip
