"""params.yaml as it is read: what cannot be used is one line, at once."""

from pathlib import Path

import pytest

from bertcore.errors import ConfigError
from tasks import params


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["level0: &level0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for level in range(1, 11):
        lines.append(f"level{level}: &level{level} [{', '.join([f'*level{level - 1}'] * 10)}]")
    Path("params.yaml").write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=r"found aliases .* stand for \d+(,\d+)+ values.* at most 100,000; write"):
        params.read()


def test_an_alias_that_holds_itself_is_refused() -> None:
    Path("params.yaml").write_text("corpus: &self {inner: [*self]}\n")
    with pytest.raises(ConfigError, match="stand for endlessly many values"):
        params.read()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# caf\xe9\nrecipe: null\n", "not UTF-8 .* at byte 5.; save it as UTF-8$"),
        ("recipe: null\n".encode("utf-16"), "not UTF-8 .*; save it as UTF-8$"),
        (b"mask: {seed: " + b"9" * 5000 + b"}\n", "not valid YAML: .*; correct the file$"),
        (b"mask: " + b"[" * 3000 + b"]" * 3000, "found hundreds of levels, expected a few; correct the file$"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(content: bytes, message: str) -> None:
    Path("params.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"^params\.yaml: {message}"):
        params.read()


@pytest.mark.parametrize("key", ["max_steps", "learning_rate"])
def test_a_number_that_no_recipe_can_compute_with_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=r"^params\.yaml: pretrain: found a whole number of hundreds of digits"):
        params.complete({"recipe": "modern", "pretrain": {key: 10**400}})


def test_a_few_aliases_are_values_as_others() -> None:
    Path("params.yaml").write_text("one: &rates [0.1, 0.2]\ntwo: *rates\n")
    assert params.read() == {"one": [0.1, 0.2], "two": [0.1, 0.2]}
