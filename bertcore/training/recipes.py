"""Named sets of values for section `pretrain`: `pretrain.recipe` fills in whatever the section itself leaves out."""

from collections.abc import Mapping
from typing import Any

RECIPES: dict[str, dict[str, Any]] = {
    # Devlin et al. 2018 and google-research/bert: every peculiarity of the original that a result may depend on.
    # Its data: mask.duplicates 10, mask.second_phase {sequence_length: 512, max_predictions_per_seq: 80}.
    "bert-2018": {
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
    # What was measured to be better. Mini, 30,522 entries, Wikipedia, 300 steps of 32 sequences, held-out masked-LM
    # loss: Muon 6.99 at 2e-3 and 6.97 at 4e-3, AdamW 7.37 at 2e-3, for 15 % more time per step on two CPU cores;
    # without the next-sentence objective 6.99. Dropout slows a step by a sixth, and one epoch needs none.
    "modern": {
        "model": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        "optimizer": "muon",
        "learning_rate": 2e-3,
    },
}


def with_recipe(values: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """`values` over those of `recipe`, nested mappings key by key."""
    result = dict(recipe)
    for name, value in values.items():
        inner = result.get(name)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        result[name] = with_recipe(value, inner) if both else value  # type: ignore[arg-type]
    return result
