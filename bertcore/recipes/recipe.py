"""Recipes, each a YAML file beside this module: the key `recipe` at the top of params.yaml names the one that fills in
whatever its sections leave out.

A file is laid out as params.yaml. Its `finetune` holds what every task has, its `presets` what replaces values of
`pretrain` for some presets of the model.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bertcore.config import suggest

NAMES = tuple(sorted(file.stem for file in Path(__file__).parent.glob("*.yaml")))
"""Of all recipes."""
SECTIONS = ("tokenizer", "mask", "pretrain")
"""That a recipe has values for, beside those of every task."""
_LONGEST_WARMUP_SHARE = 0.1
"""Of a training's steps; the recipes' own are 6 % at most."""
_PEAKS = ("embedding_learning_rate", "head_learning_rate", "vector_learning_rate")
LEFT_OUT = "left out"
"""In the place of a value of a recipe that does not fit the rest of the file."""


@cache
def read_recipe(name: str) -> dict[str, dict[str, Any]]:
    """The content of the file of that name, one of `NAMES`."""
    values: dict[str, dict[str, Any]] = YAML(typ="safe", pure=True).load(Path(__file__).with_name(f"{name}.yaml"))
    return values


def with_recipe(values: Mapping[str, Any]) -> dict[str, Any]:
    """The content of params.yaml, with the values of the recipe that it names wherever its sections give none.

    A model that starts from published weights has their shape: of the recipe's `model` only the architecture counts. A
    warm-up belongs to the recipe's number of steps: one of more than a tenth of a given `max_steps` is not taken over.
    What is no mapping where one belongs stays as it is, for those who check it. `ValueError` for an unknown recipe, and
    for weights to go on from without a rate for them.
    """
    result, name = dict(values), values.get("recipe")
    if name is None:
        return result
    if name not in NAMES:
        raise ValueError(f"recipe: found {name!r}; {suggest(str(name), NAMES)}, or null for the plain defaults")
    recipe = dict(read_recipe(name))
    _check_rate(name, values.get("pretrain"))
    recipe["pretrain"] = _fitting(_published(name, values.get("pretrain")), values.get("pretrain"))
    for section in SECTIONS:
        result[section] = _over(values.get(section), recipe[section])
    finetune = values.get("finetune")
    if isinstance(finetune, Mapping) and isinstance(tasks := finetune.get("tasks"), Mapping):
        filled = {task: _over(entry, recipe["finetune"]) for task, entry in tasks.items()}
        result["finetune"] = {**finetune, "tasks": filled}
    return result


def departures(values: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Where something else holds than the recipe that params.yaml names says: key -> what holds, what the recipe says.

    Of the sections, not of the tasks; a model of another architecture is one departure. What is not taken over, as it
    does not fit the rest of the file, is `LEFT_OUT`.
    """
    name = values.get("recipe")
    if name not in NAMES:
        return {}
    recipe = {**read_recipe(name), "pretrain": _published(name, values.get("pretrain"))}
    holds = with_recipe(values)
    return {key: pair for section in SECTIONS for key, pair in _departures(holds[section], recipe[section], section)}


def _departures(values: Any, recipe: Mapping[str, Any], where: str) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if not isinstance(values, Mapping):
        return
    for key, own in recipe.items():
        given = values.get(key, LEFT_OUT)
        if isinstance(own, Mapping) and isinstance(given, Mapping):
            yield from _departures(given, own, f"{where}.{key}")
        elif given != own:
            yield f"{where}.{key}", (given, own)


def _published(name: str, given: Any) -> dict[str, Any]:
    """A recipe's values for `pretrain` as they are published for what the section gives: those of its preset; of a
    model with weights of its own, or of another architecture, the recipe's architecture alone."""
    values = given if isinstance(given, Mapping) else {}
    recipe, model = read_recipe(name)["pretrain"], values.get("model")
    alone = {"model": {"architecture": recipe["model"]["architecture"]}}
    if _differs(model, recipe["model"], "architecture"):
        return {**recipe, **alone}
    preset = str(model.get("preset")) if isinstance(model, Mapping) else ""
    found: dict[str, Any] = _over(read_recipe(name).get("presets", {}).get(preset), recipe)
    return found if values.get("init_from") is None else {**found, **alone}


def _check_rate(name: str, given: Any) -> None:
    """`ValueError` where trained weights would get a recipe's rate of Muon for random ones, which destroys them."""
    values, recipe = given if isinstance(given, Mapping) else {}, read_recipe(name)["pretrain"]
    by_muon = recipe.get("optimizer") == "muon" == values.get("optimizer", "muon")
    if values.get("init_from") is not None and by_muon and values.get("learning_rate") is None:
        raise ValueError(
            f"pretrain.learning_rate: found none beside init_from, expected one: that of recipe {name}, "
            f"{recipe['learning_rate']:g} by muon, is for random weights; set it, with optimizer: adamw to 5e-5 or so, "
            f"or to {recipe['learning_rate']:g} where the weights were trained so"
        )


def _fitting(recipe: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """A recipe's values for `pretrain`, without those that do not fit what is given: `objective_options` of another
    objective, a warm-up too long for `max_steps`, all rates and `hidden_weight_decay` of another optimizer. The rates
    of embeddings, head and vectors keep their ratio to a given `learning_rate`."""
    values = given if isinstance(given, Mapping) else {}
    steps, rate = values.get("max_steps"), values.get("learning_rate")
    found = dict(recipe)
    if _differs(values, found, "objective"):
        found.pop("objective_options", None)
    if isinstance(steps, int) and found.get("warmup_steps", 0) > _LONGEST_WARMUP_SHARE * steps:
        found.pop("warmup_steps", None)
    if values.get("optimizer", found.get("optimizer")) != found.get("optimizer"):
        return {
            key: value for key, value in found.items() if key not in ("learning_rate", *_PEAKS, "hidden_weight_decay")
        }
    if isinstance(rate, int | float) and "learning_rate" in found:
        share = rate / found["learning_rate"]
        found |= {key: float(f"{share * found[key]:.6g}") for key in _PEAKS if key in found}
    return found


def _differs(given: Any, recipe: Any, key: str) -> bool:
    """Whether something else is `given` than what the recipe has values for."""
    both = isinstance(given, Mapping) and isinstance(recipe, Mapping)
    return both and given.get(key) is not None and given[key] != recipe.get(key)


def _over(values: Any, recipe: Mapping[str, Any]) -> Any:
    """`values` over those of `recipe`, nested mappings key by key; a section that is empty or missing gives none."""
    if values is None:
        return dict(recipe)
    if not isinstance(values, Mapping):
        return values
    nested = {
        name: _over(value, recipe[name]) if value is not None and isinstance(recipe.get(name), Mapping) else value
        for name, value in values.items()
    }
    return {**recipe, **nested}
