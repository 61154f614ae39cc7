"""Trees that share one Prefect server, each of which deploys itself under a name of its own; and what was left open."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from prefect.client.schemas.filters import FlowRunFilter
from prefect.states import Completed, Running, Scheduled, State
from ruamel.yaml import YAML

from flows import deployment, server, trees
from flows.environment import ROOT
from flows.locks import PIPELINE, hold


def deployed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """What `make pretrain` in `tree` runs on a server of others, and the name in the file that it deploys."""
    calls: list[tuple[str, ...]] = []
    (tree / ".prefect").mkdir(parents=True)
    shutil.copy(ROOT / "prefect.yaml", tree)
    monkeypatch.setattr(deployment, "ROOT", tree)
    monkeypatch.setattr(server, "STATE", tree / ".prefect")
    monkeypatch.setattr(deployment, "_prefect", lambda environment, *arguments: calls.append(arguments))
    name = deployment.deploy(None, {}, "pretrain-flow", own=False)  # type: ignore[arg-type]  # the server is not asked
    ((*command, file),) = calls
    assert command == ["deploy", "--all", "--prefect-file"]
    deployments = YAML(typ="safe").load(Path(file).read_text())["deployments"]
    (own,) = {each["name"] for each in deployments}
    assert {each["work_pool"]["name"] for each in deployments} == {own}, "its workers have this tree"
    return name, own


class Leftovers:
    """A client of a server with runs that nobody has ended."""

    def __init__(self, *runs: tuple[str, State]) -> None:
        self.runs = [SimpleNamespace(id=name, state=state) for name, state in runs]
        self.closed: list[str] = []

    def read_flow_runs(self, flow_run_filter: FlowRunFilter) -> list[SimpleNamespace]:
        assert flow_run_filter.state is not None and flow_run_filter.state.type is not None
        left_out = flow_run_filter.state.type.not_any_ or []
        return [run for run in self.runs if run.state.type not in left_out]

    def set_flow_run_state(self, name: str, state: State, force: bool) -> None:
        assert state.is_crashed() and force
        self.closed.append(name)


def test_runs_that_were_left_open_are_closed_but_for_those_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "ROOT", tmp_path)
    monkeypatch.setattr(trees, "TREES", tmp_path / ".worktrees")
    for name in ("at-work", "left"):
        (tmp_path / ".worktrees" / f"of-{name}").mkdir(parents=True)
        (tmp_path / ".worktrees" / f"of-{name}" / f"begun-{name}").write_text("HEAD")
    client = Leftovers(("at-work", Running()), ("left", Running()), ("waiting", Scheduled()), ("done", Completed()))
    with hold(tmp_path / ".worktrees" / "of-at-work.lock", "somebody"):
        deployment.clear_leftovers(client)  # type: ignore[arg-type]
    assert client.closed == ["left", "waiting"]
    with hold(tmp_path / PIPELINE, "a run of the pipeline"):
        deployment.clear_leftovers(client)  # type: ignore[arg-type]
    assert client.closed == ["left", "waiting"]


def test_two_trees_of_one_name_do_not_take_each_others_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [deployed(tmp_path / place / "bert", monkeypatch) for place in ("a", "b")]
    assert found[0] != found[1]
    for run, name in found:
        assert run == f"pretrain-flow/{name}" and name.startswith("local-bert-")
    assert (ROOT / "prefect.yaml").read_text().count("- name: local\n") == len(deployment.FLOWS)


@pytest.mark.parametrize("name", ["R&D", "50%", "bert #2", "bert: x", "größe"])
def test_the_name_of_a_directory_may_hold_what_that_of_a_deployment_may_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, own = deployed(tmp_path / name, monkeypatch)
    assert shown == f"pretrain-flow/{own}" and re.fullmatch(r"local-[\w-]+", own, re.ASCII)
