"""infra/compose.yaml: valid, closed to the outside, without a secret; the images hold the locks and are not root."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.import_closure import ROOT
from tests.infra.compose import FILE, services
from tests.infra.parts import needs_module

SECRETS = {"POSTGRES_PASSWORD": "p-secret", "S3_ACCESS_KEY": "s3-key", "S3_SECRET_KEY": "s3-secret"}
GIVEN = SECRETS | {"BERTCORE_TREE": "/home/team/tree", "BERTCORE_USER": "1001:1001"}


@pytest.mark.parametrize("name", ["compose.yaml", "compose.gpu.yaml"])
def test_it_is_a_compose_file(name: str) -> None:
    needs_module("check_jsonschema")
    file = str(FILE.with_name(name))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", GIVEN)
def test_without_a_secret_or_the_tree_nothing_starts(name: str) -> None:
    with pytest.raises(KeyError, match=name):
        services({each: value for each, value in GIVEN.items() if each != name})
    assert not any(value in FILE.read_text() for value in SECRETS.values())


def test_only_the_loopback_address_listens_unless_asked() -> None:
    ports = [port for service in services(GIVEN).values() for port in service.get("ports", [])]
    assert len(ports) == 3 and all(port.startswith("127.0.0.1:") for port in ports)
    opened = services(GIVEN | {"BERTCORE_BIND": "0.0.0.0"})
    assert opened["prefect-server"]["ports"] == ["0.0.0.0:4200:4200"]


def test_browsers_find_what_was_opened() -> None:
    names = {"PREFECT_URL": "https://prefect.team", "MLFLOW_HOSTS": "ml.team", "MLFLOW_ORIGINS": "https://ml.team"}
    found = services(GIVEN | names)
    assert found["prefect-server"]["environment"]["PREFECT_SERVER_UI_API_URL"] == "https://prefect.team/api"
    moved = services(GIVEN | {"PREFECT_PORT": "4300"})["prefect-server"]
    assert moved["environment"]["PREFECT_SERVER_UI_API_URL"] == "http://127.0.0.1:4300/api"
    options = found["mlflow"]["command"]
    assert options[-2:] == [
        "--allowed-hosts=mlflow:5000,localhost:*,127.0.0.1:*,ml.team",
        "--cors-allowed-origins=https://ml.team",
    ]


def test_no_secret_stands_in_a_command() -> None:
    commands = json.dumps([[each.get("command"), each.get("entrypoint")] for each in services(GIVEN).values()])
    assert not any(secret in commands for secret in SECRETS.values())


def test_what_keeps_data_has_a_volume_and_what_others_wait_for_says_when_it_is_ready() -> None:
    found = services(GIVEN)
    assert all(found[name]["volumes"] for name in ("postgres", "redis", "s3", "worker"))
    waited = {
        name
        for service in found.values()
        for name, condition in service.get("depends_on", {}).items()
        if condition == {"condition": "service_healthy"}
    }
    assert waited | {"worker"} == {name for name, service in found.items() if "healthcheck" in service}


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_images_have_the_versions_of_the_locks_and_another_user_than_root(name: str) -> None:
    lines = (ROOT / "infra" / "docker" / name).read_text().replace("\\\n", " ").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users and users[-1] not in ("root", "0")
    locks, (first, place) = [line.split()[1:] for line in lines if line.startswith("COPY ")]
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored == ["*", "!requirements*.lock", f"!{first}"]
    assert all((ROOT / file).is_file() for file in (first, *locks[:-1]))
    installed = [word for line in lines if line.startswith("RUN pip") for word in line.split()]
    assert {f"/locks/{lock}" for lock in locks[:-1]} <= set(installed)
    assert f'ENTRYPOINT ["python", "{place}"]' in lines
    (python,) = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert python == "python:3.11-slim-bookworm"


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_a_linter_finds_nothing_in_them(name: str) -> None:
    """But for Debian's packages, which its stable release pins, and torch, whose version is read from the lock."""
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.is_file():
        pytest.skip("no hadolint: pip install -r requirements-infra.lock")
    command = [str(linter), "--ignore", "DL3008", "--ignore", "DL3013", str(ROOT / "infra" / "docker" / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_variables_of_the_environment_are_all_that_differs() -> None:
    first, second = services(GIVEN), services(GIVEN | {"POSTGRES_HOST": "db.example", "POSTGRES_PORT": "6543"})
    assert "@postgres:5432/prefect" in json.dumps(first) and "@db.example:6543/mlflow" in json.dumps(second)
