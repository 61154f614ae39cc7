import os
import subprocess
import sys

import httpx2
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import LocalEntryNotFoundError

from bertcore.errors import BertcoreError, ConfigError, InputError, UnavailableError
from bertcore.hub import HubLocation, one_line_errors, parse_uri
from tests.import_closure import ROOT


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("hf://org/name", HubLocation(repository="org/name")),
        ("hf://nyu-mll/glue/cola", HubLocation(repository="nyu-mll/glue", config="cola")),
        (
            "hf://o/n/20231101.en@refs/convert?split=test&column=body",
            HubLocation(repository="o/n", config="20231101.en", revision="refs/convert", split="test", column="body"),
        ),
        ("hf://o/n@v1.0", HubLocation(repository="o/n", revision="v1.0")),
        ("hf://o/n?split=train[:10%]", HubLocation(repository="o/n", split="train[:10%]")),
    ],
)
def test_uris(uri: str, location: HubLocation) -> None:
    assert parse_uri(uri) == location


@pytest.mark.parametrize("uri", ["hf://name", "hf://", "hf://o/n/c/d", "hf:/o/n", "hf://o n/x", "hf://../n"])
def test_malformed_uris(uri: str) -> None:
    with pytest.raises(ConfigError, match="expected hf://ORG/NAME"):
        parse_uri(uri)


def test_unknown_option() -> None:
    with pytest.raises(ConfigError, match="unknown option 'colum'; did you mean 'column'"):
        parse_uri("hf://o/n?colum=x")


def status(code: int) -> httpx2.HTTPStatusError:
    request = httpx2.Request("GET", "http://hub/api")
    return httpx2.HTTPStatusError(f"answer\n{code}", request=request, response=httpx2.Response(code, request=request))


def raised(error: Exception, *causes: Exception) -> BertcoreError:
    """What becomes of `error` that `datasets` raised instead of those that it caught, the first one last."""
    with pytest.raises(BertcoreError) as caught, one_line_errors(HubLocation(repository="o/n")):
        for outer, inner in zip((error, *causes), causes, strict=False):
            outer.__context__ = inner  # as within `except`, also with `from None`
        raise error
    assert "\n" not in str(caught.value) and "hf://o/n: cannot be read" in str(caught.value)
    return caught.value


@pytest.mark.parametrize("code", [408, 429, 500, 503, 520])
def test_a_hub_that_may_answer_later(code: int) -> None:
    error = raised(FileNotFoundError("no data file"), LocalEntryNotFoundError("not in the cache"), status(code))
    assert type(error) is UnavailableError and f"now (answer {code}); check the connection" in str(error)


@pytest.mark.parametrize(
    "error",
    [httpx2.ReadTimeout(""), httpx2.ConnectError("refused"), httpx2.RemoteProtocolError("x"), ConnectionError("x")],
)
def test_a_network_that_may_come_back(error: Exception) -> None:
    assert type(raised(RuntimeError("wrapped"), error)) is UnavailableError
    assert type(raised(error)) is UnavailableError


@pytest.mark.parametrize(
    "errors",
    [
        [status(401)],
        [FileNotFoundError("no data file"), status(404)],
        [status(404), httpx2.ConnectError("an earlier one")],
        [httpx2.UnsupportedProtocol("htp://hub")],
        [ValueError("Bad split: dev")],
    ],
)
def test_what_a_second_attempt_would_not_mend(errors: list[Exception]) -> None:
    assert type(raised(*errors)) is InputError


def test_a_hub_that_is_switched_off_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert type(raised(ConnectionError("offline"))) is InputError


def test_the_clients_own_error_of_an_unreachable_hub_is_one_line() -> None:
    """In a process of its own: the client reads its address when it is imported."""
    ask = "from bertcore.hub import HubLocation, load; load(HubLocation(repository='o/n'), split='train')"
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT)}
    environment |= {"HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0"}
    done = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("bertcore.errors.UnavailableError: hf://o/n: cannot be read now")
