"""params.yaml as the stages see it: completed by its recipe, and refused in one line where it names none that is."""

from pathlib import Path

import pytest

from bertcore.errors import ConfigError
from bertcore.finetune.config import TaskConfig
from bertcore.instances.config import MaskConfig
from bertcore.training.config import PretrainConfig
from tasks import params


@pytest.fixture(autouse=True)
def in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_section_and_task_has_the_values_of_the_recipe() -> None:
    params.PARAMS.write_text(
        "recipe: bert-2018\npretrain: {seed: 7}\nfinetune: {tasks: {one: {format: f, data: d, options: {a: b}}}}\n"
    )
    assert params.section("mask", MaskConfig).duplicates == 10
    config = params.section("pretrain", PretrainConfig)
    assert (config.seed, config.optimizer) == (7, "bert_adam")
    assert params.task("one", TaskConfig).learning_rate == 5e-5
    assert params.read()["recipe"] == "bert-2018"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recipe: bert-2019", r"^params\.yaml: recipe: found 'bert-2019'; did you mean 'bert-2018'\?"),
        ("pretrain: {recipe: modern}", r"pretrain\.recipe: .*write `recipe: modern` at the top of the file$"),
        ("[]", "found no mapping"),
        ("a: [", "not valid YAML"),
    ],
)
def test_what_cannot_be_is_one_line(text: str, message: str) -> None:
    params.PARAMS.write_text(text)
    with pytest.raises(ConfigError, match=message) as error:
        params.read()
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"params\.yaml: No such file"):
        params.read()
