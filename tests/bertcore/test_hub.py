import pytest

from bertcore.errors import ConfigError
from bertcore.hub import HubLocation, parse_uri


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
