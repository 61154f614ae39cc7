"""Models in a real MLflow server whose artifacts lie in a real S3 server: what a team shares."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest

from bertcore.serving.models import load
from tasks import stage
from tasks.tracking import models, store
from tests.import_closure import ROOT
from tests.infra.parts import needs_module
from tests.samples import free_port
from tests.tasks.tracking.test_models import config, finetuned, loaded, project, registered, served_models, tokenizer

needs_module("moto", "dvc_s3")
from tests.infra.test_s3 import BUCKET, Store, answers  # noqa: E402
from tests.infra.test_s3 import store as s3  # noqa: E402

__all__ = ["config", "project", "s3", "served_models", "tokenizer"]

pytestmark = pytest.mark.slow


@dataclass
class Server:
    """MLflow on a database of its own, through which clients reach the bucket: they hold no key to it."""

    place: Path
    s3: Store
    port: int = field(default_factory=free_port)
    bucket: str = BUCKET

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--host=127.0.0.1", f"--port={self.port}", "--workers=1"]
        command += [f"--backend-store-uri=sqlite:///{self.place / 'team.db'}"]
        command += [f"--artifacts-destination=s3://{self.bucket}/mlflow"]
        own = self.s3.environment | {"MLFLOW_S3_ENDPOINT_URL": self.s3.url, "MLFLOW_DISABLE_TELEMETRY": "true"}
        with (self.place / "log").open("a") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **own}, stdout=log, stderr=log, start_new_session=True
            )
        answers(f"{self.url}/health", self.process, self.place / "log")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)

    def objects(self, ending: str) -> list[str]:
        return [key for key in self.s3.objects() if key.startswith("mlflow/") and key.endswith(ending)]


@pytest.fixture
def server(
    s3: Store, project: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("mlflow"), s3)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    # As infra/README.md says for machines that do not reach the S3 server: this one takes no presigned addresses.
    for way in ("DOWNLOAD", "UPLOAD"):
        monkeypatch.setenv(f"MLFLOW_ENABLE_PROXY_MULTIPART_{way}", "false")
    try:
        server.start()
        yield server
    finally:
        server.stop()


def test_models_are_shared_through_the_server(
    server: Server, project: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stage.main("finetune", finetuned(project["colours"], 0.4), "colours") == 0
    assert server.objects("model.safetensors") == [], "weights go to other machines where somebody asks for it"

    monkeypatch.setenv(models.SWITCH, "1")
    for score in (0.5, 0.7, 0.6):
        assert stage.main("finetune", finetuned(project["colours"], score), "colours") == 0
    assert (registered("colours").version, registered("colours", "previous").version) == ("2", "1")
    assert len(server.objects("model.safetensors")) == 3
    assert not [key for key in server.s3.objects() if key.endswith((".pkl", ".pickle", ".pt", ".bin"))]
    texts = ["the red cat", "a dog"]
    assert loaded("colours").predict(pd.DataFrame({"text": texts})) == load(project["colours"]).works["classify"](texts)
    client, experiment = store.open_experiment()
    logged = client.search_logged_models([experiment])
    assert sorted(metric.value for model in logged for metric in model.metrics if "accuracy" in metric.key) == [
        0.5, 0.6, 0.7
    ]  # fmt: skip
    assert {str(model.status) for model in logged} == {"READY"}
    files = [*server.place.rglob("*"), *Path().rglob("*")]
    assert not [file for file in files if file.is_file() and server.s3.secret.encode() in file.read_bytes()]


def test_a_model_that_the_bucket_did_not_get_is_logged_later(
    server: Server, project: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(models.SWITCH, "1")
    before = server.objects("model.safetensors")
    server.stop()
    server.bucket = "another"
    server.start()
    assert stage.main("finetune", finetuned(project["colours"], 0.5), "colours") == 0, "the stage has done its work"
    assert "MLflow has not the model of finetune" in caplog.text
    assert "`python -m tasks.tracking.models finetune@colours` logs it" in caplog.text
    server.stop()
    server.bucket = BUCKET
    server.start()
    command = [sys.executable, "-m", "tasks.tracking.models", "finetune@colours"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert registered("colours").version == "1" and len(server.objects("model.safetensors")) == len(before) + 1
