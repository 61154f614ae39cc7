import httpx
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import LocalEntryNotFoundError

from bertcore.errors import BertcoreError, ConfigError, InputError, UnavailableError
from bertcore.hub import HubLocation, one_line_errors, parse_uri


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


def status(code: int) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://hub/api")
    return httpx.HTTPStatusError(f"answer\n{code}", request=request, response=httpx.Response(code, request=request))


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
    [httpx.ReadTimeout(""), httpx.ConnectError("refused"), httpx.RemoteProtocolError("x"), ConnectionError("x")],
)
def test_a_network_that_may_come_back(error: Exception) -> None:
    assert type(raised(RuntimeError("wrapped"), error)) is UnavailableError
    assert type(raised(error)) is UnavailableError


@pytest.mark.parametrize(
    "errors",
    [
        [status(401)],
        [FileNotFoundError("no data file"), status(404)],
        [status(404), httpx.ConnectError("an earlier one")],
        [httpx.UnsupportedProtocol("htp://hub")],
        [ValueError("Bad split: dev")],
    ],
)
def test_what_a_second_attempt_would_not_mend(errors: list[Exception]) -> None:
    assert type(raised(*errors)) is InputError


def test_a_hub_that_is_switched_off_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert type(raised(ConnectionError("offline"))) is InputError
