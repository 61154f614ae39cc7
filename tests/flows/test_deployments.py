"""Trees that share one Prefect server: each deploys itself under a name of its own."""

import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from flows import deployment, server
from flows.environment import ROOT


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


def test_two_trees_of_one_name_do_not_take_each_others_deployment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [deployed(tmp_path / place / "bert", monkeypatch) for place in ("a", "b")]
    assert found[0] != found[1]
    for run, name in found:
        assert run == f"pretrain-flow/{name}" and name.startswith("local-bert-")
    assert (ROOT / "prefect.yaml").read_text().count("- name: local\n") == len(deployment.FLOWS)
