"""The DVC remote in a real S3 server: pushed by a flow run, pulled by a clone elsewhere, and what goes wrong."""

import http.client
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from flows.environment import REMOTE
from tests.flows.conftest import Tree, make_tree
from tests.flows.test_launch import STAGES, last_run
from tests.flows.test_remote import clone, git, remote
from tests.infra.parts import needs_module
from tests.samples import free_port

needs_module("moto", "dvc_s3")
import boto3  # noqa: E402

pytestmark = pytest.mark.slow

BUCKET = "encoders"
SETUP_ACTIONS = 9
"""Calls that the server takes from anybody: they make the bucket, the users, their keys and their policies."""
POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": %s, "Resource": "*"}]}'
RIGHTS = {"ann": '"s3:*"', "reader": '["s3:Get*", "s3:List*"]', "nobody": None}
"""User -> what it may do."""


@dataclass
class Store:
    """An S3 server that checks signatures and rights, and a user of it."""

    url: str
    key: str
    secret: str
    others: dict[str, dict[str, str]] = field(default_factory=dict)
    """User -> environment, of those that may do less."""

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            REMOTE: f"s3://{BUCKET}/tiny",
        }

    def objects(self) -> dict[str, int]:
        """Key -> bytes."""
        pages = self.client("s3").get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", [])}

    def client(self, service: str) -> Any:
        options = {"aws_access_key_id": self.key, "aws_secret_access_key": self.secret, "region_name": "us-east-1"}
        return boto3.client(service, endpoint_url=self.url, **options)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", tmp_path_factory.mktemp("s3") / "log"
    with log.open("w") as stream:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        environment = {"INITIAL_NO_AUTH_ACTION_COUNT": str(SETUP_ACTIONS), "PATH": "/usr/bin:/bin"}
        process = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream)
    try:
        answers(f"{url}/moto-api/", process, log)
        anybody = Store(url, "anybody", "anything")
        iam, keys = anybody.client("iam"), {}
        for user, rights in RIGHTS.items():
            iam.create_user(UserName=user)
            made = iam.create_access_key(UserName=user)["AccessKey"]
            keys[user] = {"AWS_ACCESS_KEY_ID": made["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"]}
            if rights:
                iam.put_user_policy(UserName=user, PolicyName="rights", PolicyDocument=POLICY % rights)
        anybody.client("s3").create_bucket(Bucket=BUCKET)
        yield Store(url, *keys.pop("ann").values(), others=keys)
    finally:
        process.terminate()
        process.wait(20)


def answers(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)


@pytest.fixture(scope="module")
def computed(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A tree whose pipeline was run through its deployment, with the remote."""
    tree = make_tree(tmp_path_factory.mktemp("here") / "tree")
    tree.environment |= store.environment
    with (tree.root / ".gitignore").open("a") as file:
        file.write("/home/\n/runs.log\n")
    done = tree.launch()
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(tree.runs()) == sorted(STAGES)
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "computed")
    return tree


def test_everything_is_in_the_bucket_and_the_secret_nowhere_here(computed: Tree, store: Store) -> None:
    keys = set(store.objects())
    assert sum(key.startswith("tiny/files/md5/") for key in keys) >= len(STAGES)
    assert sum(key.startswith("tiny/runs/") for key in keys) == len(STAGES)
    secret = store.secret.encode()
    files = [file for file in computed.root.rglob("*") if file.is_file() and not file.is_symlink()]
    assert [str(file) for file in files if secret in file.read_bytes()] == []
    assert len(files) > 100 and any(file.name == "prefect.db" for file in files)


def test_a_clone_elsewhere_pulls_everything_and_computes_nothing(
    computed: Tree, store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = clone(computed, tmp_path_factory.mktemp("elsewhere") / "clone")
    other.environment["HOME"] = str(other.root / "home")
    (other.root / "home").mkdir()
    done = other.launch()
    assert done.returncode == 0, done.stdout + done.stderr
    assert other.runs() == [] and last_run(other) == ("Completed", dict.fromkeys(STAGES, "Cached"))
    for name in ("models/topic.txt", "reports/tables.json"):
        assert (other.root / name).read_bytes() == (computed.root / name).read_bytes()


@pytest.mark.parametrize(
    ("wrong", "command", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "a-wrong-secret"}, ["pull", *STAGES], "cannot be pulled from ("),
        ({"AWS_ACCESS_KEY_ID": "AKIAWRONG"}, ["pull", *STAGES], "cannot be pulled from ("),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, ["pull", *STAGES], "cannot be pulled from ("),
        ({REMOTE: "s3://no-such-bucket/tiny"}, ["push"], "cannot be pushed to ("),
    ],
    ids=["secret", "key", "unreachable", "bucket"],
)
def test_what_is_wrong_is_one_line_with_the_remedy(
    computed: Tree,
    monkeypatch: pytest.MonkeyPatch,
    wrong: dict[str, str],
    command: list[str],
    said: str,
    tmp_path: Path,
) -> None:
    tree = computed if command == ["push"] else clone(computed, tmp_path / "clone")
    for name, value in (wrong | {"AWS_MAX_ATTEMPTS": "1"}).items():
        monkeypatch.setitem(tree.environment, name, value)
    done = remote(tree, *command)
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {REMOTE}=s3://") and said in line and "correct the variable or the" in line, line
    assert "a-wrong-secret" not in done.stdout + done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("user", "command", "said"), [("reader", ["push"], "Access Denied"), ("nobody", ["pull", *STAGES], "Forbidden")]
)
def test_without_rights_in_the_bucket_it_is_one_line_with_the_remedy(
    computed: Tree, store: Store, user: str, command: list[str], said: str, tmp_path: Path
) -> None:
    other = clone(computed, tmp_path / "clone")
    other.environment |= store.others[user] | {"AWS_MAX_ATTEMPTS": "1"}
    if user == "reader":
        assert remote(other, "pull", *STAGES).returncode == 0, "it may read"
        (other.root / "more.txt").write_text("to be pushed")
        subprocess.run([sys.executable, "-m", "dvc", "add", "--quiet", "more.txt"], cwd=other.root, check=True)
    done = remote(other, *command)
    assert done.returncode == 1, done.stdout + done.stderr
    line, *more = done.stderr.splitlines()
    assert not more, done.stderr
    assert line.startswith("error: ") and f"{REMOTE}=s3://{BUCKET}" in line and said in line, line
    assert store.others[user]["AWS_SECRET_ACCESS_KEY"] not in done.stdout + done.stderr


def test_with_a_wrong_key_a_flow_run_ends_before_anything_is_computed(computed: Tree, tmp_path: Path) -> None:
    other = clone(computed, tmp_path / "clone")
    (other.root / "home").mkdir()
    other.environment |= {"HOME": str(other.root / "home"), "AWS_SECRET_ACCESS_KEY": "a-wrong-secret"}
    done = other.launch()
    assert done.returncode == 1 and other.runs() == []
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith(f"Failed: {REMOTE}=s3://{BUCKET}/tiny cannot be pulled from ("), done.stdout
    assert "Traceback" not in done.stdout and "a-wrong-secret" not in done.stdout


def test_a_push_that_broke_off_leaves_whole_objects_and_the_next_completes_it(
    computed: Tree, store: Store, tmp_path: Path
) -> None:
    complete = store.objects()
    tree = clone(computed, tmp_path / "clone")
    assert remote(tree, "pull", *STAGES).returncode == 0
    tree.environment[REMOTE] = f"s3://{BUCKET}/again"
    with _breaking(store.url, after=3) as url:
        tree.environment |= {"AWS_ENDPOINT_URL": url, "AWS_MAX_ATTEMPTS": "1"}
        broken = remote(tree, "push")
    assert broken.returncode == 1 and len(broken.stderr.splitlines()) == 1, broken.stderr
    assert "were not written: Connection was closed before we received a valid response" in broken.stderr
    arrived = {key: size for key, size in store.objects().items() if key.startswith("again/")}
    sizes = {key.partition("/")[2]: size for key, size in complete.items()}
    assert 0 < len(arrived) < len(sizes)
    assert all(sizes[key.partition("/")[2]] == size for key, size in arrived.items())
    tree.environment |= {"AWS_ENDPOINT_URL": store.url}
    assert remote(tree, "push").returncode == 0
    assert {key.partition("/")[2]: size for key, size in store.objects().items() if key.startswith("again/")} == sizes


class _breaking:  # noqa: N801  (reads as a with statement)
    """A proxy before an S3 server that closes every connection once it has passed `after` objects on."""

    def __init__(self, url: str, after: int) -> None:
        target = url.removeprefix("http://")
        passed = threading.Semaphore(after)

        class Proxy(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # clients of it wait for "100 Continue" before they send an object

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.command == "PUT" and not passed.acquire(blocking=False):
                    self.close_connection = True
                    return
                connection = http.client.HTTPConnection(target, timeout=60)
                connection.request(self.command, self.path, body, dict(self.headers))
                answer = connection.getresponse()
                content = answer.read()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length or "0")
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)
                self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
