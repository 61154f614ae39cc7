"""Other values for single keys of params.yaml: written with its comments, refused in one line."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from bertcore.errors import ConfigError
from bertcore.recipes.recipe import NAMES
from tasks import variation
from tests.import_closure import ROOT


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_keys_change_and_nothing_else(tree: Path) -> None:
    before = Path("params.yaml").read_text()
    text = variation.varied_text(
        before, {"pretrain.model.preset": "mini", "finetune.tasks.qa.learning_rate": [1e-4, 3e-4]}
    )
    values, changed = (YAML(typ="safe").load(each) for each in (before, text))
    values["pretrain"]["model"]["preset"] = "mini"
    values["finetune"]["tasks"]["qa"]["learning_rate"] = [1e-4, 3e-4]
    assert changed == values
    assert Path("params.yaml").read_text() == before
    assert "# tokens, [CLS] and [SEP] included" in text


@pytest.mark.parametrize("recipe", sorted({*NAMES} - {"distilbert"}))  # that needs a teacher
def test_a_recipe_is_a_key_as_any_other(recipe: str, tree: Path) -> None:
    text = variation.varied_text(Path("params.yaml").read_text(), {"recipe": recipe})
    assert YAML(typ="safe").load(text)["recipe"] == recipe


def test_an_asterisk_is_every_task(tree: Path) -> None:
    text = variation.varied_text(
        Path("params.yaml").read_text(), {"finetune.tasks.*.seed": [1, 2], "finetune.tasks.qa.seed": 3}
    )
    tasks = YAML(typ="safe").load(text)["finetune"]["tasks"]
    assert {name: task["seed"] for name, task in tasks.items()} == {name: [1, 2] for name in tasks} | {"qa": 3}
    assert "&" not in text, "every task has values of its own"
    values = {"finetune": {"tasks": {}}, "embed": None}
    for key in ("finetune.tasks.*.seed", "embed.*.seed"):
        variation.vary(values, {key: 1})
    assert values == {"finetune": {"tasks": {}}, "embed": None}


def test_small_numbers_stay_numbers(tree: Path) -> None:
    text = variation.varied_text(Path("params.yaml").read_text(), {"pretrain.learning_rate": 1e-5})
    assert YAML(typ="safe", pure=True).load(text)["pretrain"]["learning_rate"] == 1e-5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"pretrain": {"learning_rate": 0.001}},
            "params.yaml: pretrain: found a mapping ({learning_rate: …}), which would take the place of the whole "
            "section, expected its keys by dotted names; write pretrain.learning_rate: 0.001",
        ),
        (
            {"pretrain.learning_rat": 1},
            "params.yaml: pretrain: unknown key 'learning_rat'; did you mean 'learning_rate'",
        ),
        ({"pretran.seed": 1}, "params.yaml: unknown section 'pretran'; did you mean 'pretrain'"),
        ({"pretrain.max_steps": "many"}, "params.yaml: pretrain.max_steps: found 'many'"),
        (
            {"pretrain.seed.first": 1},
            "params.yaml: pretrain.seed.first: found 1 (int) at pretrain.seed, expected a sect",
        ),
        ({"finetune.task.*.epochs": 1}, "finetune.task.*.epochs: found no key 'task'; did you mean 'tasks'?"),
        ({"pretrain.seed.*.no": 1}, "pretrain.seed.*.no: found 1 (int) at pretrain.seed, expected a section"),
        ({"pretrain.seed.first.*.no": 1}, "found no key 'first'; above it stands no section"),
        ({"finetune.tasks.topc.epochs": 1}, "params.yaml: finetune.tasks.topc"),
        ({"recipe": "moderm"}, "recipe: found 'moderm'"),
    ],
)
def test_what_the_pipeline_cannot_take_is_one_line(tree: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        variation.varied_text(Path("params.yaml").read_text(), changes)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_as_a_command(tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("params.yaml").read_text()
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"params": text, "changes": {"pretrain.seed": 7}})))
    assert variation.main() == 0
    assert YAML(typ="safe").load(capsys.readouterr().out)["pretrain"]["seed"] == 7
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"params": text, "changes": {"seed": 7}})))
    assert variation.main() == 2
    assert capsys.readouterr().err.startswith("error: params.yaml: unknown section 'seed'")
