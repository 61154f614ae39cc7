"""Named values for sections of params.yaml: the key `recipe` at its top fills in whatever the sections leave out."""

from collections.abc import Mapping
from typing import Any

from bertcore.config import suggest

SECTIONS = ("mask", "pretrain", "finetune")
"""The sections that a recipe gives values for; those of `finetune` are for every entry of `finetune.tasks`."""

RECIPES: dict[str, dict[str, dict[str, Any]]] = {
    # Devlin et al. 2018 and google-research/bert: every peculiarity of the original that a result may depend on.
    "bert-2018": {
        "mask": {
            "sequence_length": 128,
            "packing": "pairs",
            "masking": "token",
            "duplicates": 10,
            "masked_lm_prob": 0.15,
            "max_predictions_per_seq": 20,
            "rounding": "bert",
            "mask_share": 0.8,
            "random_share": 0.1,
            "random_ids": "whole_vocabulary",
            "short_seq_prob": 0.1,
            "second_phase": {"sequence_length": 512, "max_predictions_per_seq": 80},
        },
        "pretrain": {
            "model": {
                "hidden_act": "gelu_new",
                "initializer": "truncated_normal",
                "initializer_range": 0.02,
                "layer_norm_eps": 1e-12,
                "hidden_dropout_prob": 0.1,
                "attention_probs_dropout_prob": 0.1,
            },
            "objective": "mlm_nsp",
            "batch_size": 256,
            "max_steps": 1_000_000,
            "learning_rate": 1e-4,
            "warmup_steps": 10_000,
            "schedule": "bert",
            "optimizer": "bert_adam",
            "beta1": 0.9,
            "beta2": 0.999,
            "epsilon": 1e-6,
            "weight_decay": 0.01,
            "decay_biases_and_norms": False,
            "max_grad_norm": 1.0,
            "second_phase": {"share": 0.1},
        },
        # The defaults of run_classifier.py; the paper chose among rates of 2e-5 to 5e-5 and 2 to 4 epochs.
        "finetune": {
            "batch_size": 32,
            "epochs": 3,
            "learning_rate": 5e-5,
            "warmup_ratio": 0.1,
            "schedule": "bert",
            "optimizer": "bert_adam",
            "weight_decay": 0.01,
            "max_grad_norm": 1.0,
            "dropout": 0.1,
            "attention_dropout": 0.1,
        },
    },
    # What learns most in the first hours of a small machine. Rotary positions end the plateau on which BERT's own stay
    # for their first 10 million tokens; Muon, more masks at first and one kind of sequence add to it.
    "modern": {
        "mask": {
            "packing": "full_sentences",
            "duplicates": 0,
            "masked_lm_prob": 0.15,
            "masked_lm_prob_start": 0.3,
            "max_predictions_per_seq": None,
        },
        "pretrain": {
            "model": {"architecture": "modernbert", "classifier_pooling": "mean"},
            "objective": "mlm",
            "optimizer": "muon",
            "learning_rate": 1e-2,
            "embedding_learning_rate": 6e-3,
            "head_learning_rate": 6e-3,
            "vector_learning_rate": 6e-3,
            "beta2": 0.98,
        },
        "finetune": {},
    },
}


def with_recipe(values: Mapping[str, Any]) -> dict[str, Any]:
    """The content of params.yaml, with the values of the recipe that it names wherever its sections give none.

    A model that starts from published weights has their shape, and nothing of the recipe's `model`. What is no mapping
    where one belongs stays as it is, for those who check it. `ValueError` for an unknown recipe.
    """
    result, name = dict(values), values.get("recipe")
    if name is None:
        return result
    if name not in RECIPES:
        raise ValueError(f"recipe: found {name!r}; {suggest(str(name), RECIPES)}, or null for the plain defaults")
    recipe = dict(RECIPES[name])
    given = values.get("pretrain")
    if isinstance(given, Mapping) and given.get("init_from") is not None:
        recipe["pretrain"] = {key: value for key, value in recipe["pretrain"].items() if key != "model"}
    for section in ("mask", "pretrain"):
        result[section] = _over(values.get(section), recipe[section])
    finetune = values.get("finetune")
    if isinstance(finetune, Mapping) and isinstance(tasks := finetune.get("tasks"), Mapping):
        filled = {task: _over(entry, recipe["finetune"]) for task, entry in tasks.items()}
        result["finetune"] = {**finetune, "tasks": filled}
    return result


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
