"""The launcher, a real server, a real worker and the real flow on the toy pipeline: one story in one tree.

The first run starts from nothing and leaves nothing behind; the later ones use the server of a running `make ui`.
"""

import json
import signal
import sqlite3
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.flows.conftest import Tree, make_tree

STAGES = ["corpus", "pretrain", "finetune@topic", "finetune@qa", "report"]
TABLE = ["doctor", *STAGES]
PATIENCE = 60.0


@dataclass
class First:
    """What the first run in a fresh tree did."""

    tree: Tree
    done: "subprocess.CompletedProcess[str]"
    left: list[str]
    ran: list[str]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> First:
    tree = make_tree(tmp_path_factory.mktemp("tree"))
    (tree.root / "once-pretrain").touch()
    done = tree.launch()
    return First(tree, done, tree.processes(), tree.runs())


@pytest.fixture(scope="module")
def ui(first: First) -> Iterator[list[str]]:
    """`make ui` in the tree; its two addresses. Checks that Ctrl-C ends all that it started."""
    process = first.tree.start("flows.ui")
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or "Ctrl-C" not in lines[-1]:
        lines.append(process.stdout.readline())
        assert lines[-1], f"make ui ended at once: {lines}"
    yield [line.split()[1] for line in lines[:2]]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0  # of three servers, each of which is given ten seconds
    process.stdout.close()
    assert first.tree.processes() == []


def rows(tree: Tree, query: str) -> list[tuple]:
    database = sqlite3.connect(f"file:{tree.root / '.prefect' / 'prefect.db'}?mode=ro", uri=True)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def last_run(tree: Tree) -> tuple[str, dict[str, str]]:
    """State of the newest flow run, and of the task runs of its stages by name."""
    [(run, state)] = rows(tree, "select id, state_name from flow_run order by created desc limit 1")
    tasks = dict(rows(tree, f"select name, state_name from task_run where flow_run_id = '{run}'"))
    assert tasks.pop("doctor", "Completed") in {"Completed", "Failed"}
    return state, tasks


def test_the_first_run_starts_everything_and_leaves_nothing(first: First) -> None:
    assert first.done.returncode == 0, first.done.stdout + first.done.stderr
    assert last_run(first.tree) == ("Completed", dict.fromkeys(STAGES, "Completed"))
    assert first.left == []
    assert not (first.tree.root / ".prefect" / "server.json").exists()


def test_a_stage_that_fails_once_is_tried_again_as_its_meta_says(first: First) -> None:
    assert sorted(first.ran) == sorted([*STAGES, "pretrain"])
    assert "ValueError: only the first time" in first.done.stdout


def test_the_end_of_the_run_shows_the_stages_and_the_results(first: First) -> None:
    table = first.done.stdout.partition("seconds")[2]
    shown = [line.split()[:2] for line in table.splitlines()[1:7]]
    # The two tasks of `finetune` start at the same moment, in either order.
    assert sorted(shown) == sorted([name, "ran"] for name in TABLE)
    assert [name for name, _ in shown if not name.startswith("finetune@")] == ["doctor", "corpus", "pretrain", "report"]
    assert "topic" in table and "0.75" in table and "make ui" in table
    assert "`" not in table.partition("topic   ")[2]


def test_the_doctor_comes_first_and_its_warnings_do_not_end_the_run(first: First) -> None:
    lines = [line for line in first.done.stdout.splitlines() if "│" in line]
    assert lines[0].split() == ["doctor", "│", "ok", "versions", "as", "in", "the", "lock"]
    text = "\n".join(lines)
    assert "warn  disk        1 MiB is free" in text and "-> free some space" in text


def test_dvc_has_nothing_to_do_after_the_flow(first: First) -> None:
    command = [first.tree.command()[0], "-m", "dvc", "status"]
    status = subprocess.run(command, capture_output=True, check=True, **first.tree.options())
    assert "up to date" in status.stdout


def test_progress_and_results_are_artifacts(first: First) -> None:
    found = dict(rows(first.tree, "select key, type from artifact"))
    assert found["progress-pretrain"] == found["progress-finetune-qa"] == "progress"
    assert found["results"] == "markdown"


def test_without_a_server_none_is_started_where_nothing_is_to_do(first: First) -> None:
    before = len(rows(first.tree, "select id from flow_run"))
    done = first.tree.launch()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing to do: every stage is up to date in dvc.lock" in done.stdout and "0.75" in done.stdout
    assert first.tree.runs() == [] and len(rows(first.tree, "select id from flow_run")) == before


def test_what_the_remote_misses_is_pushed_where_nothing_is_to_do(first: First, tmp_path: Path) -> None:
    first.tree.environment["BERTCORE_DVC_REMOTE"] = str(tmp_path)
    done = first.tree.launch()
    del first.tree.environment["BERTCORE_DVC_REMOTE"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.glob("files/md5/*/*")) and first.tree.runs() == []


def test_a_second_run_finds_every_stage_cached(first: First, ui: list[str]) -> None:
    deployed = (first.tree.root / ".prefect" / "deployed").stat().st_mtime_ns
    done = first.tree.launch()
    assert done.returncode == 0, done.stdout + done.stderr
    assert last_run(first.tree) == ("Completed", dict.fromkeys(STAGES, "Cached"))
    assert first.tree.runs() == []
    assert "was running" in done.stdout, "the server of `make ui` is used"
    assert (first.tree.root / ".prefect" / "deployed").stat().st_mtime_ns == deployed, "what is deployed stays"


@pytest.mark.slow
def test_a_changed_param_reruns_what_is_below_and_a_failure_stops_what_is_below_it(first: First, ui: list[str]) -> None:
    tree = first.tree
    tree.edit("params.yaml", "learning_rate: 0.1", "learning_rate: 0.2")
    (tree.root / "fail-finetune@qa").touch()
    done = tree.launch()
    (tree.root / "fail-finetune@qa").unlink()
    assert done.returncode == 1
    assert last_run(tree) == (
        "Failed",
        {
            "corpus": "Cached",
            "pretrain": "Completed",
            "finetune@topic": "Completed",
            "finetune@qa": "Failed",
            "report": "NotReady",
        },
    )
    last = done.stdout.strip().splitlines()[-1]
    assert last == "Failed: stage finetune@qa: error: params.yaml: finetune@qa: found 1, expected 2; write 2"
    assert "Traceback" not in done.stdout
    assert sorted(tree.runs()) == ["finetune@qa", "finetune@topic", "pretrain"]


@pytest.mark.slow
def test_what_the_doctor_finds_fatal_ends_the_run_at_once_with_the_remedy(first: First, ui: list[str]) -> None:
    tree = first.tree
    (tree.root / "sick").touch()
    done = tree.launch()
    (tree.root / "sick").unlink()
    assert done.returncode == 1
    last = done.stdout.strip().splitlines()[-1]
    assert last == "Failed: doctor: memory: 1 GiB needed; remedy: choose a smaller preset"
    assert last_run(tree) == ("Failed", {})
    [(attempts,)] = rows(tree, "select run_count from task_run where name = 'doctor' and state_name = 'Failed'")
    assert attempts == 1 and tree.runs() == [] and "Traceback" not in done.stdout


@pytest.mark.slow
def test_ctrl_c_cancels_the_run_and_a_second_run_meanwhile_is_refused(first: First, ui: list[str]) -> None:
    tree = first.tree
    tree.edit("params.yaml", "pretrain: {", "pretrain: {seed: 2, ")
    (tree.root / "slow-pretrain").touch()
    process = tree.start("flows.launch")
    output = _read_until(process, "pretrain  ")
    refused = tree.launch()
    process.send_signal(signal.SIGINT)
    output += process.communicate(timeout=PATIENCE)[0]
    (tree.root / "slow-pretrain").unlink()
    assert refused.returncode == 1 and f"process {process.pid}" in refused.stderr
    assert process.returncode == 130, output
    state, tasks = last_run(tree)
    assert (state, tasks["pretrain"]) == ("Cancelled", "Cancelled")
    assert (tree.root / "stopped").read_text() == "pretrain", "the stage was asked, not killed"
    assert tree.runs() == ["pretrain"], "a cancelled run is not tried again"
    assert not any("stage.py" in line or "flows.launch" in line or "worker start" in line for line in tree.processes())


@pytest.mark.slow
def test_the_pages_answer_and_report_nothing_home(ui: list[str]) -> None:
    prefect, mlflow = ui
    with urllib.request.urlopen(f"{prefect}/api/admin/settings") as answer:
        settings = json.load(answer)
    assert settings["server"]["analytics_enabled"] is False
    assert Path(settings["home"]).name == ".prefect"
    with urllib.request.urlopen(mlflow) as answer:
        assert answer.status == 200
    other = urllib.request.Request(mlflow.partition("#")[0], headers={"Host": "10.evil.example:5000"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(other)
    foreign = urllib.request.Request(f"{prefect}/api/health", headers={"Origin": "https://evil.example"})
    with urllib.request.urlopen(foreign) as answer:
        assert "access-control-allow-origin" not in answer.headers


def _read_until(process: "subprocess.Popen[str]", text: str) -> str:
    """Output of a process up to the line with `text`."""
    assert process.stdout is not None
    output = ""
    for line in process.stdout:
        output += line
        if text in line:
            return output
    raise AssertionError(f"{text!r} never came: {output}")
