"""`make ui`: what it sets up before it shows the pages."""

import io
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from flows import prefect_api, server, ui
from flows.environment import ROOT

URL = "http://127.0.0.1:1/api"


@pytest.mark.parametrize("there", [False, True])
def test_the_deployments_work_pool_is_made_where_there_is_none(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    deployments = YAML(typ="safe").load((ROOT / "prefect.yaml").read_text())["deployments"]
    (pool,) = {deployment["work_pool"]["name"] for deployment in deployments}
    made: list[tuple[list[str], str]] = []

    def make(command: list[str], env: dict[str, str], **_: Any) -> None:
        made.append((command[1:], env["PREFECT_API_URL"]))

    def no_pages(*_: Any) -> str:
        raise server.LaunchError("no pages in this test")

    monkeypatch.setattr(server, "find_or_start", lambda environment: server.Server(URL, None, own=True))
    pools = {f"{URL}/work_pools/{pool}": {"name": pool}} if there else {}
    monkeypatch.setattr(prefect_api, "get", pools.get)
    monkeypatch.setattr("subprocess.run", make)
    monkeypatch.setattr(ui, "_start_mlflow", no_pages)
    with pytest.raises(server.LaunchError, match="no pages"), ExitStack() as stack:
        ui._show(stack)
    command = f"-m prefect --no-prompt work-pool create {pool} --type process".split()
    assert made == ([] if there else [(command, URL)])


def test_models_that_cannot_be_served_leave_the_other_pages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bad_model(*_: Any) -> str:
        raise server.LaunchError("the models ended: error: models/pretrained: no weights")

    def shown(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "find_or_start", lambda environment: server.Server(URL, None, own=True))
    monkeypatch.setattr(prefect_api, "get", {f"{URL}/work_pools/local": {}}.get)
    monkeypatch.setattr(ui, "_start_mlflow", lambda *_: "http://runs")
    monkeypatch.setattr(ui, "saved_models", lambda _: ["models/pretrained"])
    monkeypatch.setattr(ui, "_start_models", bad_model)
    monkeypatch.setattr("flows.ui.webbrowser.open", lambda _: True)
    monkeypatch.setattr("flows.ui.time.sleep", shown)
    with pytest.raises(KeyboardInterrupt), ExitStack() as stack:
        ui._show(stack)
    said = capsys.readouterr()
    assert "Prefect  http://127.0.0.1:1" in said.out and "MLflow   http://runs/#/" in said.out
    assert "Models" not in said.out and "the models ended: error: models/pretrained: no weights" in said.err


def test_the_models_that_are_served_are_those_that_were_accepted(tmp_path: Path) -> None:
    for name in ("finetuned/topic", "pretrained", "finetuned/qa", "finetuned/.qa.rejected", "finetuned/.qa-beside"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "config.json").write_text("{}")
    (tmp_path / "models" / "tokenizer").mkdir()
    (tmp_path / "models" / "finetuned" / "empty").mkdir()
    assert ui.saved_models(tmp_path) == ["models/pretrained", "models/finetuned/qa", "models/finetuned/topic"]
    assert ui.saved_models(tmp_path / "elsewhere") == []


def test_the_page_of_runs_is_that_of_the_project_in_the_view_of_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "http://h/api/2.0/mlflow/experiments/get-by-name?experiment_name=our+own"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "our own")
    monkeypatch.setattr(prefect_api, "get_json", {asked: {"experiment": {"experiment_id": "7"}}}.get)
    assert ui.runs_page("http://h") == "http://h/#/experiments/7/runs?workflowType=machine_learning"
    assert ui.runs_page("http://other") == "http://other/#/experiments?workflowType=machine_learning"


def test_prefects_password_is_told_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setenv(prefect_api.PASSWORD, "admin:secret")
    monkeypatch.setattr("urllib.request.urlopen", lambda request, timeout: asked.append(request) or io.BytesIO(b"{}"))
    ui.runs_page("http://mlflow")
    prefect_api.get("http://prefect/api/health")
    assert isinstance(asked[0], str), "no header goes with it"
    assert asked[1].get_header("Authorization").startswith("Basic ")


def test_a_password_is_neither_shown_nor_part_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []

    class Service:
        def stop(self) -> None: ...

    def start(_: str, command: list[str], environment: dict[str, str]) -> Service:
        started.append((command, environment))
        return Service()

    monkeypatch.setattr(server, "start", start)
    monkeypatch.setattr(server, "until", lambda *_: None)
    with ExitStack() as stack:
        assert ui._start_mlflow("https://ann:secret@runs.example/team", {}, stack) == "https://runs.example/team"
        page = ui._start_mlflow("postgresql://ann:secret@db/runs", {"A": "b"}, stack)
    ((command, environment),) = started
    assert page.startswith("http://127.0.0.1:") and not any("secret" in part for part in [page, *command])
    assert environment["MLFLOW_BACKEND_STORE_URI"] == "postgresql://ann:secret@db/runs" and environment["A"] == "b"
