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
    # What was measured to be better. Mini, 30,522 entries, Wikipedia, 300 steps of 32 sequences, held-out masked-LM
    # loss: Muon 6.99 at 2e-3 and 6.97 at 4e-3, AdamW 7.37 at 2e-3, for 15 % more time per step on two CPU cores;
    # without the next-sentence objective 6.99. Dropout slows a step by a sixth, and one epoch needs none.
    "modern": {
        "mask": {},
        "pretrain": {
            "model": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
            "optimizer": "muon",
            "learning_rate": 2e-3,
        },
        "finetune": {},
    },
}


def with_recipe(values: Mapping[str, Any]) -> dict[str, Any]:
    """The content of params.yaml, with the values of the recipe that it names wherever its sections give none.

    What is no mapping where one belongs stays as it is, for those who check it. `ValueError` for an unknown recipe.
    """
    result, name = dict(values), values.get("recipe")
    if name is None:
        return result
    if name not in RECIPES:
        raise ValueError(f"recipe: found {name!r}; {suggest(str(name), RECIPES)}, or null for the plain defaults")
    recipe = RECIPES[name]
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
