"""MLflow: one parent for one invocation, children for its stages, params, lineage and curves."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow.entities import Run

from bertcore.errors import ArtifactError, ConfigError, InputError, StoppedError, UnavailableError
from bertcore.finetune.config import TaskConfig
from bertcore.instances.config import MaskConfig
from bertcore.recipes.recipe import read_recipe
from bertcore.training.config import PretrainConfig
from tasks import stage
from tasks.processes import reproducing
from tasks.status import ProcessEnded, exit_status
from tasks.tracking import lineage, runs, store
from tasks.tracking.curves import Unreported
from tasks.tracking.description import commit_page
from tasks.tracking.producers import made_by
from tests.import_closure import ROOT
from tests.samples import empty_store

PIPELINE = """
stages:
  corpus:
    cmd: python -m tasks.corpus
    deps: [input.txt]
    outs:
      - data/corpus
  finetune:
    matrix:
      task: ${finetune.tasks}
    cmd: python -m tasks.finetune ${key}
    deps:
      - data/corpus
    outs:
      - models/${key}:
          cache: false
    metrics:
      - metrics/${key}.json
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(empty_store(), tmp_path)
    monkeypatch.setenv("BERTCORE_PIPELINE_RUN", "run-1")
    monkeypatch.setenv("BERTCORE_PIPELINE_NAME", "brisk-otter")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    Path("dvc.yaml").write_text(PIPELINE)
    Path("params.yaml").write_text("corpus: {seed: 1}\nfinetune: {tasks: {topic: {epochs: 2}}}\n")
    Path("input.txt").write_text("text")
    return tmp_path


def test_an_experiment_that_was_deleted_is_named_with_its_remedy(project: Path) -> None:
    client, experiment = store.open_experiment()
    client.delete_experiment(experiment)
    with pytest.raises(ConfigError, match=f"found it deleted.*experiments restore --experiment-id {experiment}$"):
        store.open_experiment()


def test_stages_of_one_invocation_are_children_of_one_parent(project: Path) -> None:
    def corpus(run: runs.StageRun) -> None:
        Path("data/corpus").mkdir(parents=True)
        Path("data/corpus/file").write_text("content")
        for step in range(3):
            run.report(step, {"train/loss": 3.0 - step})

    def finetune(run: runs.StageRun) -> None:
        Path("models/topic").mkdir(parents=True)
        Path("metrics").mkdir()
        Path("metrics/topic.json").write_text("{}")
        run.log_metrics({"dev": {"accuracy": 0.5}, "words": "no number"})

    assert stage.main("corpus", corpus) == 0
    Path("dvc.lock").write_text("stages: {corpus: {outs: [{path: data/corpus, md5: abc.dir}]}}")
    assert stage.main("finetune", finetune, "topic") == 0

    client, experiment = store.open_experiment()
    logged = {run.info.run_name: run for run in client.search_runs([experiment])}
    assert set(logged) == {"brisk-otter", "corpus", "finetune@topic"}
    parent = logged["brisk-otter"]
    assert all(
        logged[name].data.tags["mlflow.parentRunId"] == parent.info.run_id for name in ("corpus", "finetune@topic")
    )
    assert {run.info.status for run in logged.values()} == {"FINISHED"}
    assert parent.data.params == {"corpus.seed": "1"}, "the values of tasks stand with the tasks' runs"
    assert logged["finetune@topic"].data.params == {"finetune.epochs": "2"}
    assert logged["finetune@topic"].data.tags["task"] == "topic" and "task" not in logged["corpus"].data.tags
    assert logged["finetune@topic"].data.metrics == {"dev/accuracy": 0.5}
    assert logged["finetune@topic"].data.tags["dvc.dep.data/corpus"] == "abc.dir"
    assert logged["corpus"].data.tags["prefect.flow_run_id"] == "run-1"
    assert logged["corpus"].data.tags["dvc.out.data/corpus"] == lineage.dvc_hash(Path("data/corpus"))
    curve = client.get_metric_history(logged["corpus"].info.run_id, "train/loss")
    assert [(point.step, point.value) for point in curve] == [(0, 3.0), (1, 2.0), (2, 1.0)]
    assert (project / "mlflow.db").is_file()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train/loss", "train/loss"),
        ("documents_read//home/me/../a text.txt.zst", "documents_read/home/me/a text.txt.zst"),
        ("dropped/no text in the field 'text'", "dropped/no text in the field _text_"),
        ("dropped/file does not parse: SyntaxError", "dropped/file does not parse: SyntaxError"),
    ],
)
def test_names_made_of_paths_and_reasons_are_names_for_mlflow(project: Path, name: str, expected: str) -> None:
    assert runs.metric_name(name) == expected

    def body(run: runs.StageRun) -> None:
        run.log_metrics({name: 1})
        Path("data/corpus").mkdir(parents=True)

    assert stage.main("corpus", body) == 0


def test_a_failed_stage_is_a_failed_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def body(run: runs.StageRun) -> None:
        raise ArtifactError("models: broken; mend it")

    assert stage.main("corpus", body) == 2
    assert "error: models: broken; mend it\n" in capsys.readouterr().err
    client, experiment = store.open_experiment()
    logged = client.search_runs([experiment])
    assert {run.info.status for run in logged} == {"FAILED"}
    assert {run.data.tags["mlflow.note.content"] for run in logged} == {"models: broken; mend it"}


def test_a_failure_that_nobody_foresaw_is_told_too(project: Path) -> None:
    def body(run: runs.StageRun) -> None:
        raise RuntimeError("unforeseen")

    with pytest.raises(RuntimeError):
        stage.main("corpus", body)
    assert run_of("corpus").data.tags["error"] == "unforeseen"


def test_a_run_that_succeeds_at_last_has_a_parent_without_an_error(project: Path) -> None:
    test_a_failure_that_nobody_foresaw_is_told_too(project)
    assert run_of("brisk-otter").data.tags["mlflow.note.content"] == "unforeseen"
    assert stage.main("corpus", write_corpus) == 0
    assert not run_of("brisk-otter").data.tags.get("mlflow.note.content")


def test_the_experiment_opens_in_the_view_of_trainings(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, made = store.open_experiment()
    assert client.get_experiment(made).tags["mlflow.experimentKind"] == "custom_model_development"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "law")
    older = client.create_experiment("law", str(project / "mlartifacts"))
    assert store.open_experiment()[1] == older != made
    assert client.get_experiment(older).tags["mlflow.experimentKind"] == "custom_model_development"


def test_a_copied_tree_keeps_its_artifacts_in_itself(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def body(run: runs.StageRun) -> None:
        write_corpus(run)
        run.log_artifacts(Path("input.txt"))

    assert stage.main("corpus", body) == 0
    before = run_of("corpus").info.run_id
    copy = project.parent / f"{project.name}-copy"
    shutil.copytree(project, copy)
    shutil.rmtree(project)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("BERTCORE_PIPELINE_RUN", "run-2")
    assert stage.main("corpus", body) == 0
    assert not project.exists()
    client, experiment = store.open_experiment()
    assert client.get_experiment(experiment).artifact_location == (copy / "mlartifacts").as_uri()
    assert Path(client.download_artifacts(before, "input.txt")).read_text() == "text"


def test_runs_show_what_they_read_and_what_ran(project: Path) -> None:
    Path("dvc.yaml").write_text(PIPELINE.replace("[input.txt]", "[input.txt, data/inputs/nothing]"))
    Path("data/inputs/nothing").mkdir(parents=True)
    Path("data/inputs/nothing/.source.json").write_text('{"uri": null}\n')  # as `links` leaves it
    Path("dvc.lock").write_text("stages: {inputs: {outs: [{path: input.txt, md5: abc}]}}")
    assert stage.main("corpus", write_corpus) == 0
    run = run_of("corpus")
    (read,) = run.inputs.dataset_inputs
    assert (read.dataset.name, read.dataset.digest) == ("input.txt", "abc")
    assert run.data.tags["mlflow.source.name"] == "tasks/corpus.py"
    assert run_of("brisk-otter").data.tags["mlflow.source.name"] == "dvc.yaml"


def test_what_was_varied_against_the_commit_is_the_runs_name(project: Path) -> None:
    author = [word for key in ("name", "email") for word in ("-c", f"user.{key}=test")]
    for line in (["init", "--quiet"], ["add", "params.yaml"], [*author, "commit", "--quiet", "--message", "start"]):
        subprocess.run(["git", *line], check=True, capture_output=True)
    commit = lineage.git_commit()
    assert commit is not None
    assert stage.main("corpus", write_corpus) == 0
    assert run_of(f"brisk-otter: as in {commit[:7]}")
    os.environ["BERTCORE_PIPELINE_RUN"] = "run-2"
    Path("params.yaml").write_text("corpus: {seed: 2}\nfinetune: {tasks: {topic: {epochs: 3}}}\n")
    assert stage.main("corpus", write_corpus) == 0
    parent = run_of("brisk-otter: corpus.seed=2, topic.epochs=3")
    told = {"corpus.seed": "2", "finetune.tasks.topic.epochs": "3"}
    assert parent.data.params == told | {"Varied": "corpus.seed=2, finetune.tasks.topic.epochs=3"}
    assert min(parent.data.params) == "Varied", "first on the page that compares runs, which sorts by the name"
    client, experiment = store.open_experiment()
    logged = client.search_runs([experiment], "tags.stage = 'corpus'", order_by=["attributes.start_time"])
    assert [run.data.params["Varied"] for run in logged] == ["nothing", "corpus.seed=2"], "of tasks nothing"


def test_a_cached_stage_is_found_from_the_newer_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stage.main("corpus", write_corpus) == 0
    made = run_of("corpus")
    Path("dvc.lock").write_text(
        "stages: {corpus: {outs: [{path: data/corpus, md5: " + made.data.tags["dvc.out.data/corpus"] + "}]}}"
    )
    monkeypatch.setenv("BERTCORE_PIPELINE_RUN", "run-2")
    monkeypatch.setenv("BERTCORE_PIPELINE_NAME", "later")

    def finetune(_: runs.StageRun) -> None:
        Path("models/topic").mkdir(parents=True)
        Path("metrics").mkdir()
        Path("metrics/topic.json").write_text("{}")

    assert stage.main("finetune", finetune, "topic") == 0
    assert run_of("finetune@topic").data.tags["from.corpus"] == made.info.run_id
    parent = run_of("later")
    assert parent.data.tags["from.corpus"] == made.info.run_id
    link = f"#/experiments/{made.info.experiment_id}/runs/{made.info.run_id}?workflowType=machine_learning"
    assert f"Cached, from earlier runs: [corpus]({link})" in parent.data.tags["mlflow.note.content"]
    assert "from.corpus" not in run_of("brisk-otter").data.tags


def test_a_parent_begins_with_links(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    assert stage.main("corpus", write_corpus) == 0
    note = run_of("brisk-otter").data.tags["mlflow.note.content"]
    assert note == "Prefect: [flow run](http://127.0.0.1:4200/runs/flow-run/run-1)"

    for command in (["init", "--quiet"], ["add", "params.yaml"], ["commit", "--quiet", "--message", "first"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], check=True)
    subprocess.run(["git", "remote", "add", "origin", "https://git.example/team/bert"], check=True)
    monkeypatch.setenv("BERTCORE_PIPELINE_RUN", "run-2")
    Path("dvc.yaml").write_text(PIPELINE + "  report: {cmd: python -m tasks.report, deps: [input.txt]}\n")
    assert stage.main("report", lambda _: None) == 0
    report = run_of("report")
    parent = store.open_experiment()[0].get_run(report.data.tags["mlflow.parentRunId"])
    place = f"#/experiments/{report.info.experiment_id}/runs/{report.info.run_id}/artifacts/report.html"
    sha = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    _, *links = parent.data.tags["mlflow.note.content"].split("\n\n")
    assert links[0] == f"Report: [report.html]({place}?workflowType=machine_learning)"
    assert links[1].startswith(f"Commit: [`{sha[:10]}`](https://git.example/team/bert/commit/{sha})")


@pytest.mark.parametrize(
    ("origin", "page"),
    [
        ("https://github.com/org/name.git", "https://github.com/org/name/commit/abc"),
        ("git@gitlab.com:group/sub/name.git", "https://gitlab.com/group/sub/name/commit/abc"),
        ("https://user:secret@example.org/name", "https://example.org/name/commit/abc"),
        ("ssh://git@example.org/a/b.git", "https://example.org/a/b/commit/abc"),
        ("ssh://git@gitlab.example:2222/group/name.git", "https://gitlab.example/group/name/commit/abc"),
        ("https://user@git.example:8443/a/b.git", "https://git.example:8443/a/b/commit/abc"),
        ("http://127.0.0.1:3000/a/b", "http://127.0.0.1:3000/a/b/commit/abc"),
        ("ssh://alice@example.org/srv/b.git", None),
        ("/srv/git/name.git", None),
        ("", None),
    ],
)
def test_the_page_of_a_commit(origin: str, page: str | None) -> None:
    assert commit_page(origin, "abc") == page


@pytest.mark.parametrize("switch", ["true", "false"])
def test_what_the_machine_does_is_measured_meanwhile(
    project: Path, switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.tracking.system.AFTER", 0.1)
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.1")
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", switch)

    def body(run: runs.StageRun) -> None:
        write_corpus(run)
        waited = time.monotonic()
        while switch == "true" and time.monotonic() < waited + 60:
            if run.client.get_metric_history(run.run_id, "system/cpu_utilization_percentage"):
                break
            time.sleep(0.1)

    assert stage.main("corpus", body) == 0
    assert ("system/cpu_utilization_percentage" in run_of("corpus").data.metrics) == (switch == "true")


def test_what_is_the_same_at_every_step_is_no_curve(project: Path) -> None:
    def body(run: runs.StageRun) -> None:
        Unreported(run).report(10, {"eval/loss": 3.0, "eval/heldout_sequences": 1024})
        write_corpus(run)

    assert stage.main("corpus", body) == 0
    assert run_of("corpus").data.metrics == {"eval/loss": 3.0}


@pytest.mark.parametrize(
    ("path", "found", "content"),
    [
        ("input.txt", "input.txt", "other text"),
        ("params.yaml", "params.yaml: corpus", "corpus: {seed: 2}"),
        ("params.yaml", "params.yaml: recipe", "recipe: modern\ncorpus: {seed: 1}"),
        ("params.yaml", None, "# a note\nfinetune: {tasks: {topic: {epochs: 9}}}\ncorpus:\n  seed: 1.0"),
    ],
)
def test_what_it_depends_on_and_changes_while_the_stage_runs_fails_it(
    project: Path, capsys: pytest.CaptureFixture[str], path: str, found: str | None, content: str
) -> None:
    Path("dvc.yaml").write_text(PIPELINE.replace("[input.txt]", "[input.txt]\n    params: [recipe, corpus]"))

    def body(run: runs.StageRun) -> None:
        Path(path).write_text(content)
        write_corpus(run)

    assert stage.main("corpus", body) == (0 if found is None else 2)
    assert (f"error: {found}: changed while the stage was running" in capsys.readouterr().err) == (found is not None)


def test_another_store_can_be_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.tracking_uri() == f"sqlite:///{project / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    assert store.tracking_uri() == "http://127.0.0.1:1"


def test_stage_paths_are_those_of_dvc_yaml(project: Path) -> None:
    assert lineage.stage_paths("finetune", "topic") == (["data/corpus"], ["models/topic", "metrics/topic.json"])


def test_git_commit_names_the_state_of_this_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert lineage.git_commit() is None
    if (ROOT / ".git").exists():
        monkeypatch.chdir(ROOT)
        commit = lineage.git_commit()
        assert commit is not None and len(commit.removesuffix("-dirty")) == 40


def stopped_by_a_signal() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)


def stopped_with_a_checkpoint() -> None:
    raise StoppedError("at step 3")


def stopped_in_its_processes() -> None:
    raise ProcessEnded(75)


@pytest.mark.parametrize(
    ("stop", "status"), [(stopped_by_a_signal, 130), (stopped_with_a_checkpoint, 75), (stopped_in_its_processes, 75)]
)
def test_a_stopped_stage_is_a_killed_run_and_goes_on_in_it(
    project: Path, stop: Callable[[], None], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, seen = Path(".checkpoints/key/mlflow-run"), []

    def body(run: runs.StageRun) -> None:
        seen.append((run.run_id, run.client.get_run(run.run_id).info.status))
        run.report(len(seen), {"train/loss": 1.0})
        if len(seen) == 1:
            stop()
        Path("data/corpus").mkdir(parents=True)

    assert stage.main("corpus", body, run_file=lambda: memory) == status
    client, experiment = store.open_experiment()
    assert client.get_run(seen[0][0]).info.status == "KILLED" and memory.read_text() == seen[0][0]
    monkeypatch.setenv("BERTCORE_PIPELINE_RUN", "run-2")
    assert stage.main("corpus", body, run_file=lambda: memory) == 0
    assert seen[1] == (seen[0][0], "RUNNING") == (seen[0][0], seen[0][1])
    ended = client.get_run(seen[0][0])
    assert (ended.info.status, ended.data.tags["prefect.flow_run_id"]) == ("FINISHED", "run-2")
    parent = client.get_run(ended.data.tags["mlflow.parentRunId"])
    assert parent.data.tags["pipeline.invocation"] == "run-2"
    assert [point.step for point in client.get_metric_history(ended.info.run_id, "train/loss")] == [1, 2]


KILLED_STAGE = """
import os, signal
from tasks import stage

stage.main("corpus", lambda run: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_the_next_stage_ends_the_run_of_one_that_was_killed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = subprocess.run([sys.executable, "-c", KILLED_STAGE], env=environment)
    assert killed.returncode == -signal.SIGKILL
    first, beside = run_of("corpus"), runs.start("finetune@topic", {})
    assert first.info.status == "RUNNING"
    monkeypatch.setenv("BERTCORE_PIPELINE_RUN", "run-2")
    assert stage.main("corpus", write_corpus) == 0
    statuses = [
        beside.client.get_run(run).info.status for run in (first.info.run_id, beside.run_id, beside.parent.run_id)
    ]
    assert statuses == ["KILLED", "RUNNING", "RUNNING"]
    beside.end("FINISHED")
    assert beside.client.get_run(beside.parent.run_id).info.status == "KILLED"


@pytest.mark.parametrize("content", ["0" * 32, "no run's name", ""])
def test_a_run_that_the_store_does_not_have_is_begun_anew(project: Path, content: str) -> None:
    memory = project / "mlflow-run"
    memory.write_text(content)
    run = runs.start("corpus", {}, memory)
    assert memory.read_text() == run.run_id != content
    run.client.delete_run(run.run_id)
    assert runs.start("corpus", {}, memory).run_id != run.run_id


def run_of(name: str) -> Run:
    client, experiment = store.open_experiment()
    (found,) = client.search_runs([experiment], f"attributes.run_name = '{name}'")
    return found


def write_corpus(_: runs.StageRun) -> None:
    Path("data/corpus").mkdir(parents=True, exist_ok=True)


def test_a_run_shows_defaults_and_what_a_recipe_gives(project: Path) -> None:
    Path("params.yaml").write_text("recipe: modern\nmask: {masking: span}\npretrain: {max_steps: 20000, seed: 7}\n")
    assert stage.main("corpus", write_corpus, configs={"mask": MaskConfig, "pretrain": PretrainConfig}) == 0
    shown = run_of("corpus").data.params
    assert shown["mask.masking"] == "span" and shown["mask.rounding"] == MaskConfig().rounding
    expected = read_recipe("modern")["pretrain"]
    assert shown["pretrain.seed"] == "7"
    assert shown["pretrain.learning_rate"] == str(expected["learning_rate"]) != str(PretrainConfig().learning_rate)
    assert shown["pretrain.optimizer"] == expected["optimizer"] and shown["pretrain.second_phase"] == "None"


def test_the_values_of_all_tasks_have_the_same_names(project: Path) -> None:
    Path("params.yaml").write_text(
        "finetune: {tasks: {topic: {format: table, data: files, learning_rate: [1.0e-4, 2.0e-4], options: {a: b}}}}\n"
    )

    def finetune(_: runs.StageRun) -> None:
        Path("models/topic").mkdir(parents=True)
        Path("metrics").mkdir()
        Path("metrics/topic.json").write_text("{}")

    assert stage.main("finetune", finetune, "topic", configs={"finetune": TaskConfig}) == 0
    shown = run_of("finetune@topic").data.params
    assert (shown["finetune.learning_rate"], shown["finetune.epochs"]) == ("[0.0001, 0.0002]", "3")
    assert shown["finetune.format"] == "table" and not [name for name in shown if "topic" in name]


def test_what_was_read_is_tagged_also_where_it_is_a_part_of_an_out(project: Path) -> None:
    Path("dvc.yaml").write_text(PIPELINE.replace("[input.txt]", "[input.txt, data/inputs/corpus, models/none]"))
    Path("dvc.lock").write_text("stages: {inputs: {outs: [{path: data/inputs, md5: abc.dir}]}}")
    Path("data/inputs/corpus").mkdir(parents=True)
    Path("data/inputs/corpus/text.txt").symlink_to(project / "input.txt")
    assert stage.main("corpus", write_corpus) == 0
    tags = run_of("corpus").data.tags
    expected = {"dvc.dep.data/inputs/corpus": lineage.dvc_hash(Path("data/inputs/corpus"))}
    assert {name: value for name, value in tags.items() if name.startswith("dvc.dep.")} == expected


def test_the_parent_takes_tags_too(project: Path) -> None:
    def body(run: runs.StageRun) -> None:
        run.parent.set_tags({"dvc.out.models/pretrained": "abc.dir"})
        write_corpus(run)

    assert stage.main("corpus", body) == 0
    parent = run_of("brisk-otter")
    assert parent.data.tags["dvc.out.models/pretrained"] == "abc.dir"
    client, experiment = store.open_experiment()
    assert made_by(client, experiment, "models/pretrained", "abc.dir") is None, "the parent has made nothing"
    own = run_of("corpus").data.tags["dvc.out.data/corpus"]
    client.set_tag(parent.info.run_id, "dvc.out.data/corpus", own)
    client.update_run(parent.info.run_id, "FINISHED")
    assert made_by(client, experiment, "data/corpus", own) == run_of("corpus").info.run_id


def test_a_run_of_the_users_own_below_the_pipelines_is_no_stage(project: Path) -> None:
    def body(run: runs.StageRun) -> None:
        client, experiment = store.open_experiment()
        client.create_run(experiment, tags={"mlflow.parentRunId": run.parent.run_id}, run_name="mine")
        write_corpus(run)

    assert stage.main("corpus", body) == 0
    assert (run_of("corpus").info.status, run_of("mine").info.status) == ("FINISHED", "RUNNING")
    assert run_of("brisk-otter").info.status == "FINISHED"


@pytest.mark.parametrize(("error", "status"), [(UnavailableError("no network"), 1), (InputError("no file"), 2)])
def test_only_what_may_pass_is_worth_another_attempt(
    error: Exception, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        raise error

    assert exit_status(work) == status
    assert capsys.readouterr().err == f"error: {error}\n"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/bin/python3 /env/bin/dvc repro", "dvc repro"),
        ("/env/bin/dvc --wait-for-lock repro --single-item mask", "dvc repro"),
        ("python -m dvc repro report", "dvc repro"),
        ("/env/bin/python /env/bin/dvc exp run -S pretrain.learning_rate=1e-3", "dvc exp run"),
        ("python -m dvc -v experiments run -n repro", "dvc exp run"),
        ("/env/bin/python dvc exp exec-run --infofile run", "dvc exp run"),
        ("/env/bin/python /env/bin/dvc exp show", None),
        ("/env/bin/python /env/bin/dvc params diff", None),
        ("make -C /home/dvc/project repro", None),
        ("", None),
    ],
)
def test_the_commands_that_run_stages(command: str, name: str | None) -> None:
    assert reproducing(command.split()) == name


def test_all_stages_of_an_experiment_have_the_same_ancestor(tmp_path: Path) -> None:
    probe = "import json, psutil; print(json.dumps([[p.pid, p.cmdline()] for p in psutil.Process().parents()]))"
    (tmp_path / "probe.py").write_text(probe)
    command = f"{sys.executable} probe.py"
    (tmp_path / "dvc.yaml").write_text(
        f"stages:\n  one: {{cmd: {command} > one, outs: [one], params: [seed]}}\n"
        f"  two: {{cmd: {command} > two, outs: [two], deps: [one]}}\n"
    )
    (tmp_path / "params.yaml").write_text("seed: 1\n")
    author = [word for key in ("name", "email") for word in ("-c", f"user.{key}=test")]
    for line in (
        ["git", "init", "--quiet"],
        [sys.executable, "-m", "dvc", "init", "--quiet"],
        ["git", "add", "."],
        ["git", *author, "commit", "--quiet", "--message", "start"],
        [sys.executable, "-m", "dvc", "exp", "run", "--quiet", "-S", "seed=2"],
    ):
        environment = {**os.environ, "DVC_NO_ANALYTICS": "1"}
        subprocess.run(line, cwd=tmp_path, env=environment, check=True, capture_output=True)
    ancestors = [json.loads((tmp_path / name).read_text()) for name in ("one", "two")]
    found = [[(pid, name) for pid, line in each if (name := reproducing(line))] for each in ancestors]
    assert found[0] == found[1] and [name for _, name in found[0]] == ["dvc exp run"]


def test_a_name_that_mlflow_does_not_take_is_for_the_check_of_params_to_tell(project: Path) -> None:
    """As `{preset=tiny}` is one, whose colon and blank were forgotten: the store is in order."""
    run = runs.start("corpus", {})
    run.log_params({"pretrain": {"model": {"preset=tiny, a/b": None}, "m" * 300: 1}})
    run.end("FAILED")
    assert set(run_of("corpus").data.params) == {"pretrain.model.preset_tiny_ a_b", f"pretrain.{'m' * 241}"}
