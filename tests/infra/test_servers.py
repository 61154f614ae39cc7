"""The servers of infra/compose.yaml, with its variables, as plain processes: a deployment run through them all, and two
of them killed in the middle."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.conftest import ROOT, STAGE, Tree, make_tree
from tests.flows.test_launch import STAGES
from tests.infra import compose
from tests.infra.parts import needs_module, needs_program
from tests.samples import free_port

needs_module("moto", "dvc_s3", "prefect_redis", "psycopg2", "boto3")
POSTGRES, REDIS = needs_program("postgres"), needs_program("redis-server")
import boto3  # noqa: E402
import psycopg2  # noqa: E402

pytestmark = pytest.mark.slow

TRACKED = """
if name == "pretrain":
    from tasks.tracking import runs
    run = runs.start("pretrain", {})
    run.log_metrics({"train": {"loss": 1.5}})
    run.log_artifacts(Path("params.yaml"))
    run.end("FINISHED")
"""
"""What the toy's pre-training does with MLflow, as every real stage does."""
BUCKET = "team"


class Servers:
    """PostgreSQL, Redis and S3 of this machine, and the services of the compose file that work on them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.ports = {name: free_port() for name in ("postgres", "redis", "s3", "prefect", "mlflow", "worker")}
        self.variables = {
            "POSTGRES_PASSWORD": "a-password",
            "POSTGRES_HOST": "127.0.0.1",
            "POSTGRES_PORT": str(self.ports["postgres"]),
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(self.ports["redis"]),
            "S3_ACCESS_KEY": "a-key",
            "S3_SECRET_KEY": "a-secret",
            "S3_BUCKET": BUCKET,
            "BERTCORE_TREE": str(place),
            "BERTCORE_USER": f"{os.getuid()}:{os.getgid()}",
            "S3_ENDPOINT": f"http://127.0.0.1:{self.ports['s3']}",
        }
        self.services = compose.services(self.variables)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.prefect = f"http://127.0.0.1:{self.ports['prefect']}/api"
        self.mlflow = f"http://127.0.0.1:{self.ports['mlflow']}"

    def start(self, tree: Tree) -> None:
        self._start_postgres()
        self._serve("redis", [REDIS, "--port", str(self.ports["redis"]), "--dir", str(self.place)])
        self._serve("s3", [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.ports["s3"])])
        self.until(lambda: self._answers(f"{self.variables['S3_ENDPOINT']}/moto-api/"), "s3")
        boto3.client("s3", **self._s3()).create_bucket(Bucket=BUCKET)
        self.start_prefect()
        self.service("prefect-services", {})
        self.service("mlflow", {"--host=0.0.0.0": "--host=127.0.0.1", "--port=5000": f"--port={self.ports['mlflow']}"})
        self.until(lambda: self._answers(f"{self.mlflow}/health"), "mlflow")
        places = {"PREFECT_API_URL": self.prefect, "MLFLOW_TRACKING_URI": self.mlflow}
        own = {"PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_WORKER_WEBSERVER_PORT": str(self.ports["worker"])}
        self.service("worker", {}, tree, places | own)

    def start_prefect(self) -> None:
        self.service("prefect-server", {"0.0.0.0": "127.0.0.1", "4200": str(self.ports["prefect"])})
        self.until(lambda: self._answers(f"{self.prefect}/health"), "prefect-server")

    def service(
        self, name: str, own: dict[str, str], tree: Tree | None = None, places: dict[str, str] | None = None
    ) -> None:
        definition = self.services[name]
        environment = self.environment | definition["environment"] | (places or {})
        environment["HOME"] = str(self.place)
        self._serve(name, compose.command(definition, own), environment, tree.root if tree else self.place)

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "BERTCORE", "MLFLOW"))
        }
        return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def is_healthy(self, name: str, port: int) -> bool:
        """What the compose file's check of the service says, which knows the `port` that it has in its container."""
        _, program, *words = self.services[name]["healthcheck"]["test"]
        assert program == "python" and f":{port}/" in words[-1]
        here = words[-1].replace(f":{port}/", f":{self.ports[name.removesuffix('-server')]}/")
        return subprocess.run([sys.executable, *words[:-1], here], capture_output=True).returncode == 0

    def _start_postgres(self) -> None:
        data, programs = self.place / "postgres", Path(POSTGRES).resolve().parent
        user = {"user": "postgres"} if os.getuid() == 0 else {}
        data.mkdir(mode=0o700)
        if user:
            shutil.chown(data, "postgres")
        (self.place / "password").write_text(self.variables["POSTGRES_PASSWORD"])
        init = ["-D", str(data), "-U", "bertcore", "--auth=scram-sha-256", f"--pwfile={self.place / 'password'}"]
        subprocess.run([str(programs / "initdb"), *init], check=True, capture_output=True, cwd="/", **user)  # type: ignore[call-overload]
        self.start_postgres()
        assert self._sql("postgres", "CREATE DATABASE prefect")
        assert self._sql("prefect", (ROOT / "infra" / "postgres.sql").read_text())

    def start_postgres(self) -> None:
        data, user = self.place / "postgres", {"user": "postgres"} if os.getuid() == 0 else {}
        options = ["-D", str(data), "-p", str(self.ports["postgres"]), "-h", "127.0.0.1", "-k", ""]
        self._serve("postgres", [POSTGRES, *options], cwd=Path("/"), **user)
        self.until(lambda: self._sql("postgres", "SELECT 1"), "postgres")

    def _sql(self, database: str, statement: str) -> bool:
        """Whether the server took the statement; False where it does not answer yet."""
        try:
            connection = self._connect(database)
        except psycopg2.OperationalError:
            return False
        connection.autocommit = True
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(statement)
        return True

    def _connect(self, database: str) -> Any:
        place = {"host": "127.0.0.1", "port": self.ports["postgres"], "dbname": database}
        return psycopg2.connect(user="bertcore", password=self.variables["POSTGRES_PASSWORD"], **place)

    def rows(self, database: str, table: str) -> list[Any]:
        with contextlib.closing(self._connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table} ORDER BY 1")
            return cursor.fetchall()

    def bring_back(self, database: str) -> str:
        """A backup of the database, as infra/README.md makes it, in one of another name, which is returned."""
        again, dump = f"{database}_again", f"{self.place / database}.dump"
        self._program("pg_dump", "--format=custom", f"--file={dump}", database)
        for _ in range(2):  # the second time over what the first one left, and a table of a newer version
            self._program("dropdb", "--if-exists", "--force", again)
            self._program("createdb", again)
            self._program("pg_restore", "--exit-on-error", "--single-transaction", f"--dbname={again}", dump)
            assert self._sql(again, "CREATE TABLE IF NOT EXISTS newer (number integer)")
        assert self._sql(again, "DROP TABLE newer")
        return again

    def contents(self, database: str) -> str:
        """All rows of a database, as SQL."""
        return self._program("pg_dump", database)

    def _program(self, name: str, *arguments: str) -> str:
        """What a program of PostgreSQL prints."""
        own = ["--host=127.0.0.1", f"--port={self.ports['postgres']}", "--username=bertcore"]
        command = [str(Path(POSTGRES).resolve().parent / name), *own, *arguments]
        environment = self.environment | {"PGPASSWORD": self.variables["POSTGRES_PASSWORD"]}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    def _serve(
        self,
        name: str,
        command: list[str],
        environment: dict[str, str] | None = None,
        cwd: Path | None = None,
        **more: Any,
    ) -> None:
        with (self.place / f"{name}.log").open("ab") as log:
            options = {"env": environment or self.environment, "cwd": cwd or self.place, "stdout": log, "stderr": log}
            self.processes[name] = subprocess.Popen(command, start_new_session=True, **options, **more)

    def log(self, name: str) -> str:
        return (self.place / f"{name}.log").read_text(errors="replace")

    def _answers(self, url: str) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return True
        return False

    def until(self, ready: Callable[[], bool], what: str, seconds: float = 180.0) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            process = self.processes.get(what)
            log = self.log(what)[-3000:] if process else ""
            assert process is None or process.poll() is None, f"{what} ended: {log}"
            assert time.monotonic() < deadline, f"{what}: {log}"
            time.sleep(0.3)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.prefect + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def kill(self, name: str) -> None:
        os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes.pop(name).wait()

    def stop(self) -> None:
        for name, process in reversed(self.processes.items()):
            for number in (signal.SIGTERM, signal.SIGKILL) if name == "worker" else (signal.SIGKILL,):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)

    def _s3(self) -> dict[str, str]:
        keys = {"aws_access_key_id": "a-key", "aws_secret_access_key": "a-secret", "region_name": "us-east-1"}
        return {"endpoint_url": self.variables["S3_ENDPOINT"], **keys}

    def objects(self) -> list[str]:
        listing = boto3.client("s3", **self._s3()).list_objects_v2(Bucket=BUCKET)
        return [each["Key"] for each in listing.get("Contents", [])]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that PostgreSQL's own user can reach, unlike pytest's."""
    directory = Path(tempfile.mkdtemp(prefix="bertcore-servers-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = make_tree(tmp_path / "tree")
    for name in ("params.py", "tracking"):
        source, target = ROOT / "tasks" / name, tree.root / "tasks" / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    text = STAGE.replace("for step in", TRACKED + "for step in", 1)
    assert text != STAGE
    (tree.root / "stage.py").write_text(text)
    return tree


def test_a_run_survives_the_loss_of_the_prefect_server_and_of_the_database(tree: Tree, place: Path) -> None:
    servers = Servers(place)
    try:
        servers.start(tree)
        servers.until(lambda: bool(servers.ask("POST", "/work_pools/filter", {})), "worker")
        environment = servers.environment | {"PREFECT_API_URL": servers.prefect, "HOME": str(place)}
        deploy = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
        subprocess.run(deploy, cwd=tree.root, env=environment, check=True, capture_output=True)
        deployment = servers.ask("GET", "/deployments/name/pretrain-flow/local")
        for name, port in (("prefect-server", 4200), ("mlflow", 5000), ("worker", 8080)):
            assert servers.is_healthy(name, port), servers.log(name)
        (tree.root / "slow-pretrain").touch()
        body = {"state": {"type": "SCHEDULED"}}
        run = servers.ask("POST", f"/deployments/{deployment['id']}/create_flow_run", body)["id"]
        servers.until(lambda: "pretrain  " in servers.log("worker"), "worker")
        servers.kill("prefect-server")
        assert not servers.is_healthy("prefect-server", 4200)
        time.sleep(5)
        servers.start_prefect()
        servers.kill("postgres")
        time.sleep(5)
        servers.start_postgres()
        final = ("Completed", "Failed", "Crashed", "Cancelled")
        servers.until(lambda: servers.ask("GET", f"/flow_runs/{run}")["state"]["name"] in final, "worker", 300)
        state = servers.ask("GET", f"/flow_runs/{run}")["state"]
        assert state["name"] == "Completed", f"{state} {servers.log('worker')[-5000:]}"
        assert sorted(tree.runs()) == sorted(STAGES), "nothing ran twice"

        for database, table in (("prefect", "flow_run"), ("mlflow", "runs")):
            kept_rows = servers.rows(database, table)
            assert kept_rows and servers.rows(servers.bring_back(database), table) == kept_rows

        stored = servers.objects()
        assert sum(key.startswith("dvc/files/md5/") for key in stored) >= len(STAGES)
        assert [key for key in stored if key.startswith("mlflow/") and key.endswith("/params.yaml")]
        with urllib.request.urlopen(f"{servers.mlflow}/version", timeout=30) as answer:
            assert answer.status == 200
        said = {f"log of {name}": servers.log(name) for name in servers.processes}
        said |= {database: servers.contents(database) for database in ("prefect", "mlflow")}
        said |= {str(file): file.read_text(errors="replace") for file in tree.root.rglob("*") if file.is_file()}
        for secret in ("a-secret", "a-password"):
            assert [name for name, text in said.items() if secret in text] == []
    finally:
        servers.stop()
