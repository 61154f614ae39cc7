"""`make pretrain` and a real Prefect server that is a team's: behind a password, without a work pool, or away."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flows import doctor
from tests.faults.prefect_runs import Project
from tests.flows.conftest import Tree, make_tree
from tests.samples import free_port

pytestmark = pytest.mark.slow

PASSWORD = "admin:of-this-team-alone"


@dataclass
class Team:
    """A tree, and a server whose database is not the tree's."""

    tree: Tree
    server: Project

    def launch(self, **variables: str) -> "subprocess.CompletedProcess[str]":
        """`make pretrain` with these variables of Prefect's."""
        tree = Tree(self.tree.root)
        tree.environment |= {"PREFECT_API_URL": f"http://127.0.0.1:{self.server.port}/api"} | variables
        return tree.launch()

    def holders(self) -> list[Path]:
        """Files of the tree and of the server in which the password stands."""
        files = [*self.tree.root.rglob("*"), *self.server.root.rglob("*")]
        return [file for file in files if file.is_file() and PASSWORD.encode() in file.read_bytes()]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    root = tmp_path_factory.mktemp("server")
    server = Project(root, extra={"PREFECT_SERVER_API_AUTH_STRING": PASSWORD})
    try:
        server.start_server()
        yield Team(make_tree(tmp_path_factory.mktemp("team") / "tree"), server)
    finally:
        server.stop()


@pytest.mark.parametrize("given", [{}, {"PREFECT_API_AUTH_STRING": "admin:of-others"}], ids=["none", "wrong"])
def test_without_the_servers_password_it_is_one_line_with_the_remedy(team: Team, given: dict[str, str]) -> None:
    done = team.launch(**given)
    assert done.returncode == 1 and team.tree.runs() == []
    place = f"http://127.0.0.1:{team.server.port}/api"
    remedy = "refuses the password, or that there is none; set PREFECT_API_AUTH_STRING as the server has it"
    assert done.stderr == f"error: the Prefect server at {place}: {remedy}\n"
    assert "Traceback" not in done.stdout and "of-others" not in done.stdout


def test_a_server_that_has_no_work_pool_gets_the_trees_own(team: Team) -> None:
    done = team.launch(PREFECT_API_AUTH_STRING=PASSWORD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(team.tree.runs()) == ["corpus", "finetune@qa", "finetune@topic", "pretrain", "report"]
    assert "0.75" in done.stdout and team.tree.processes() == []


def test_the_password_is_in_no_file_and_no_output(team: Team) -> None:
    team.tree.edit("params.yaml", "words: 3", "words: 4")
    done = team.launch(PREFECT_API_AUTH_STRING=PASSWORD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert team.holders() == [] and PASSWORD not in done.stdout + done.stderr
    assert (team.tree.root / ".prefect" / "logs" / "Prefect-worker.log").stat().st_size > 0


def test_a_trees_own_server_may_have_a_password(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    tree.environment["PREFECT_SERVER_API_AUTH_STRING"] = PASSWORD
    done = tree.launch()
    said = "error: PREFECT_SERVER_API_AUTH_STRING is set, and PREFECT_API_AUTH_STRING is not the same; set both\n"
    assert (done.returncode, done.stderr) == (1, said)
    tree.environment["PREFECT_API_AUTH_STRING"] = PASSWORD
    done = tree.launch()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(tree.runs()) == 5 and tree.processes() == []


@pytest.mark.parametrize(("given", "level"), [("admin:of-others", "FAIL"), (PASSWORD, "ok")], ids=["wrong", "right"])
def test_the_doctor_says_whether_the_server_takes_the_password(
    team: Team, given: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", given)
    found = doctor.check_prefect({"PREFECT_API_URL": f"http://127.0.0.1:{team.server.port}/api"})
    assert found.level == level and ("PREFECT_API_AUTH_STRING" in found.remedy) == (level == "FAIL")


def test_a_server_that_is_away_is_one_line_with_the_remedy(team: Team) -> None:
    url = f"http://127.0.0.1:{free_port()}/api"
    done = team.launch(PREFECT_API_URL=url)
    assert done.returncode == 1 and done.stdout == ""
    said = f"error: PREFECT_API_URL: nothing answers at {url}; start a Prefect server there or unset it\n"
    assert done.stderr == said
