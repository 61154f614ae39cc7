"""`make doctor` on the toy pipeline: its lines and status, and what it says of DVC and Prefect."""

import contextlib
import http.server
import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from flows.doctor import DoctorError, check_dvc, check_flow, check_prefect, raise_for
from tasks.doctor.findings import Finding
from tests.flows.conftest import Tree


def run_doctor(tree: Tree) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "flows.doctor"]
    return subprocess.run(command, capture_output=True, timeout=100, check=False, **tree.options())


def test_all_is_said_a_warning_has_its_remedy_and_the_status_is_0(tree: Tree) -> None:
    done = run_doctor(tree)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "ok    versions    as in the lock",
        "warn  disk        1 MiB is free",
        "                  -> free some space",
    ]
    assert lines[3] == f"ok    dvc         cache {tree.root / '.dvc' / 'cache'}, which will be made"
    assert lines[4].startswith("ok    prefect     PREFECT_API_URL is not set; `make pretrain` and `make finetune` use")
    assert not (tree.root / ".dvc" / "cache").exists(), "nothing is made"


def test_what_fails_is_the_status(tree: Tree) -> None:
    (tree.root / "sick").touch()
    done = run_doctor(tree)
    assert done.returncode == 1
    assert "FAIL  memory      1 GiB needed\n                  -> choose a smaller preset\n" in done.stdout


def test_checks_that_cannot_be_made_are_a_failure_with_the_last_words(tree: Tree) -> None:
    (tree.root / "mad").touch()
    done = run_doctor(tree)
    assert done.returncode == 1
    assert "FAIL  checks      cannot be made: ModuleNotFoundError: No module named 'torch'" in done.stdout
    assert "-m tasks.doctor` to see all of it" in done.stdout and "\nok    dvc" in done.stdout


def test_a_cache_that_is_a_file_is_reported(tree: Tree) -> None:
    cache = tree.root / ".dvc" / "cache"
    cache.touch()
    done = run_doctor(tree)
    assert done.returncode == 1
    assert f"FAIL  dvc         the cache {cache} cannot be written to ({cache}: " in done.stdout
    assert "dvc cache dir --local DIRECTORY" in done.stdout


def test_a_tree_without_dvc_is_reported(tree: Tree) -> None:
    shutil.rmtree(tree.root / ".dvc")
    done = run_doctor(tree)
    assert done.returncode == 1
    assert f"FAIL  dvc         {tree.root} is no DVC repository" in done.stdout and "dvc init" in done.stdout


def test_a_tree_without_git_is_reported(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(tree.root / ".git")
    environment = {**tree.environment, "GIT_CEILING_DIRECTORIES": str(tree.root.parent)}
    finding = check_dvc(environment, tree.root)
    assert finding.level == "FAIL" and f"{tree.root}: not a git repository" in finding.text
    assert finding.remedy == f"cd {tree.root} && git init && git add . && git commit -m begin"
    monkeypatch.setenv("PATH", str(tree.root))
    finding = check_dvc({**environment, "PATH": str(tree.root)}, tree.root)
    assert (finding.level, finding.remedy) == ("FAIL", "install git") and "git is not installed" in finding.text


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("BERTCORE_STAGES_AT_ONCE", "0", "BERTCORE_STAGES_AT_ONCE: found '0', expected a whole number of at least 1"),
        ("BERTCORE_DVC_REMOTE", "foo://x", "BERTCORE_DVC_REMOTE: found 'foo://x', expected a directory, s3://"),
    ],
)
def test_a_variable_that_the_flow_cannot_use_is_reported(
    variable: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "")
    assert check_flow().level == "ok"
    monkeypatch.setenv(variable, value)
    finding = check_flow()
    assert finding.level == "FAIL" and finding.text.startswith(said) and finding.remedy


def test_a_prefect_server_that_does_not_answer_is_reported() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/api"
        finding = check_prefect({"PREFECT_API_URL": url})
    assert (finding.level, finding.text) == ("FAIL", f"nothing answers at {url}")
    assert "unset PREFECT_API_URL" in finding.remedy


def test_a_prefect_server_that_answers_is_ok() -> None:
    with serving(json.dumps(True).encode()) as url:
        finding = check_prefect({"PREFECT_API_URL": f"{url}/api"})
    assert (finding.level, finding.text) == ("ok", f"server at {url}/api")


def test_a_prefect_server_that_is_late_once_is_ok() -> None:
    with serving(json.dumps(True).encode(), late=1) as url:
        assert check_prefect({"PREFECT_API_URL": f"{url}/api"}).level == "ok"


def test_an_error_names_every_failure_and_no_warning() -> None:
    found = [
        Finding(level="warn", name="disk", text="little", remedy="free some"),
        Finding(level="FAIL", name="memory", text="too little", remedy="buy some"),
        Finding(level="FAIL", name="shards", text="damaged", remedy="dvc checkout"),
    ]
    raise_for(found[:1])
    with pytest.raises(DoctorError) as raised:
        raise_for(found)
    assert str(raised.value).splitlines() == [
        "doctor: memory: too little; remedy: buy some",
        "doctor: shards: damaged; remedy: dvc checkout",
    ]


def test_a_terminal_gets_colours() -> None:
    finding = Finding(level="ok", name="disk", text="enough")
    assert finding.lines(colour=True) == ["\x1b[32mok  \x1b[0m  disk        enough"]
    assert finding.lines() == ["ok    disk        enough"]


@contextlib.contextmanager
def serving(answer: bytes, late: int = 0) -> Iterator[str]:
    """A server's address; the first `late` answers are errors."""
    refusals = iter(range(late))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # noqa: N802  (the name that http.server calls)
            refused = next(refusals, None) is not None
            self.send_response(200 if self.path == "/api/health" and not refused else 500)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
