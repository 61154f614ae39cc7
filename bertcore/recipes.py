"""Named values for sections of params.yaml: the key `recipe` at its top fills in whatever the sections leave out."""

from collections.abc import Iterator, Mapping
from typing import Any

from bertcore.config import suggest

_BERTS_UPDATES: dict[str, Any] = {
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-6,
    "weight_decay": 0.01,
    "decay_biases_and_norms": False,
    "max_grad_norm": 1.0,
}
"""Of google-research/bert's optimizer, which ALBERT, ELECTRA and DeBERTa took over."""

# He et al. 2021, the base model with 512 tokens, and the n-gram masks of microsoft/DeBERTa's version 2. Left out:
# the vocabularies, which are SentencePiece's, and absolute positions in the head for masked tokens.
_DEBERTA: dict[str, dict[str, Any]] = {
    "tokenizer": {"kind": "wordpiece"},
    "mask": {
        "sequence_length": 512,
        "packing": "full_sentences",
        "masking": "span",
        "max_ngram": 3,
        "duplicates": 0,
        "masked_lm_prob": 0.15,
        "max_predictions_per_seq": None,
        "rounding": "bert",
        "mask_share": 0.8,
        "random_share": 0.1,
        "random_ids": "whole_vocabulary",
    },
    "pretrain": {
        "model": {
            "architecture": "deberta-v2",
            "preset": "base",
            "hidden_act": "gelu",
            "initializer": "normal",
            "initializer_range": 0.02,
            "layer_norm_eps": 1e-7,
            "position_buckets": 256,
            "hidden_dropout_prob": 0.1,
            "attention_probs_dropout_prob": 0.1,
        },
        "objective": "mlm",
        "batch_size": 2048,
        "max_steps": 1_000_000,
        "learning_rate": 2e-4,
        "warmup_steps": 10_000,
        "schedule": "linear",
        "optimizer": "adamw",
        **_BERTS_UPDATES,
    },
    # What the published code gives for MNLI with the base model; its warm-up is 1,000 of 18,400 steps.
    "finetune": {
        "batch_size": 64,
        "epochs": 3,
        "learning_rate": 3e-5,
        "warmup_ratio": 0.05,
        "schedule": "linear",
        "optimizer": "adamw",
        "epsilon": 1e-6,
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "dropout": 0.1,
        "attention_dropout": 0.1,
    },
}

RECIPES: dict[str, dict[str, dict[str, Any]]] = {
    # Lan et al. 2020 and google-research/albert, version 2, the base model.
    "albert": {
        "tokenizer": {"kind": "wordpiece"},
        "mask": {
            "sequence_length": 512,
            "packing": "sentence_order",
            "masking": "span",
            "max_ngram": 3,
            "duplicates": 0,
            "masked_lm_prob": 0.15,
            "max_predictions_per_seq": 20,
            "rounding": "bert",
            "mask_share": 0.8,
            "random_share": 0.1,
            "random_ids": "whole_vocabulary",
            "short_seq_prob": 0.1,
        },
        "pretrain": {
            "model": {
                "architecture": "albert",
                "preset": "base",
                "hidden_act": "gelu_new",
                "initializer": "truncated_normal",
                "initializer_range": 0.02,
                "layer_norm_eps": 1e-12,
                "hidden_dropout_prob": 0.0,
                "attention_probs_dropout_prob": 0.0,
                "classifier_dropout_prob": 0.1,
            },
            "objective": "mlm_sop",
            "batch_size": 4096,
            "max_steps": 125_000,
            "learning_rate": 1.76e-3,
            "warmup_steps": 3_125,
            "schedule": "bert",
            "optimizer": "lamb",
            **_BERTS_UPDATES,
        },
        # The defaults of run_classifier.py; the paper chose rates of 1e-5 to 5e-5 by task.
        "finetune": {
            "batch_size": 32,
            "epochs": 3,
            "learning_rate": 5e-5,
            "warmup_ratio": 0.1,
            "schedule": "bert",
            "optimizer": "bert_adam",
            "weight_decay": 0.01,
            "max_grad_norm": 1.0,
            "dropout": 0.0,
            "attention_dropout": 0.0,
        },
    },
    # Devlin et al. 2018 and google-research/bert: every peculiarity of the original that a result may depend on.
    "bert-2018": {
        "tokenizer": {"kind": "wordpiece"},
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
                "architecture": "bert",
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
            **_BERTS_UPDATES,
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
    "deberta": _DEBERTA,
    # He et al. 2023: the numbers of microsoft/DeBERTa's command for version 3's base model, and its code's defaults.
    "deberta-v3": {
        "tokenizer": _DEBERTA["tokenizer"],
        "mask": {
            "sequence_length": 512,
            "packing": "full_sentences",
            "masking": "token",
            "duplicates": 0,
            "masked_lm_prob": 0.15,
            "max_predictions_per_seq": None,
            "rounding": "bert",
            "mask_share": 1.0,
            "random_share": 0.0,
        },
        "pretrain": {
            **_DEBERTA["pretrain"],
            "objective": "replaced_tokens",
            "objective_options": {
                "generator_layers": 0.5,
                "mlm_weight": 1.0,
                "detection_weight": 10.0,
            },
            "batch_size": 256,
            "learning_rate": 1e-4,
        },
        "finetune": {**_DEBERTA["finetune"], "learning_rate": 1.5e-5},
    },
    # Sanh et al. 2019 and its published code: BERT's knowledge in half of the layers. A teacher has to be named:
    # pretrain.objective_options.teacher. What is left out: frequent tokens are not masked less often.
    # The warm-up is the default's, 6 % of the steps; theirs is 5 %.
    "distilbert": {
        "tokenizer": {"kind": "wordpiece"},
        "mask": {
            "sequence_length": 512,
            "packing": "full_sentences",
            "masking": "token",
            "duplicates": 0,
            "masked_lm_prob": 0.15,
            "max_predictions_per_seq": None,
            "mask_share": 0.8,
            "random_share": 0.1,
            "random_ids": "whole_vocabulary",
        },
        "pretrain": {
            "model": {"architecture": "distilbert"},
            "objective": "distillation",
            "objective_options": {
                "temperature": 2.0,
                "kl_weight": 5.0,
                "mlm_weight": 2.0,
                "cosine_weight": 1.0,
                "positions": "all",
            },
            "batch_size": 4_000,
            "learning_rate": 5e-4,
            "schedule": "linear",
            "optimizer": "adamw",
            "beta1": 0.9,
            "beta2": 0.98,
            "epsilon": 1e-6,
            "weight_decay": 0.0,
            "max_grad_norm": 5.0,
        },
        "finetune": {},
    },
    # Clark et al. 2020 and google-research/electra, the small model. The warm-up is the default's, which for so many
    # steps is theirs, 10,000.
    "electra": {
        "tokenizer": {"kind": "wordpiece"},
        "mask": {
            "sequence_length": 128,
            "packing": "full_sentences",
            "masking": "token",
            "duplicates": 0,
            "masked_lm_prob": 0.15,
            "max_predictions_per_seq": None,
            "rounding": "bert",
            "mask_share": 0.85,
            "random_share": 0.0,
        },
        "pretrain": {
            "model": {
                "architecture": "electra",
                "preset": "small",
                "initializer": "truncated_normal",
                "initializer_range": 0.02,
                "layer_norm_eps": 1e-12,
                "hidden_dropout_prob": 0.1,
                "attention_probs_dropout_prob": 0.1,
            },
            "objective": "replaced_tokens",
            "objective_options": {"generator_width": 0.25, "mlm_weight": 1.0, "detection_weight": 50.0},
            "batch_size": 128,
            "max_steps": 1_000_000,
            "learning_rate": 5e-4,
            "schedule": "bert",
            "optimizer": "bert_adam",
            **_BERTS_UPDATES,
        },
        "finetune": {
            "batch_size": 32,
            "epochs": 3,
            "learning_rate": 1e-4,
            "layer_decay": 0.8,
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
    # for their first 10 million tokens; Muon, more masks at first and one kind of sequence add to it. Muon's steps stay
    # as long as the rate says however small the gradients are: with a decay of 0.01 the layers' matrices grew three to
    # five times in 3,300 steps of tiny, attention above the first layer saw one token each, and fine-tuning could not
    # move it.
    "modern": {
        "tokenizer": {"kind": "wordpiece"},
        "mask": {
            "packing": "full_sentences",
            "duplicates": 0,
            "masked_lm_prob": 0.15,
            "masked_lm_prob_start": 0.3,
            "max_predictions_per_seq": None,
        },
        "pretrain": {
            "model": {"architecture": "modernbert", "classifier_pooling": "mean"},
            "objective": "mlm_repeats",
            "optimizer": "muon",
            "learning_rate": 1e-2,
            "embedding_learning_rate": 6e-3,
            "head_learning_rate": 6e-3,
            "vector_learning_rate": 6e-3,
            "hidden_weight_decay": 0.3,
            "beta2": 0.98,
        },
        "finetune": {},
    },
    # Liu et al. 2019, sections 3.1, 4 and 5 and table 9, and the commands that fairseq gives with the model: the run of
    # 500,000 steps. Fairseq's Adam decays everything.
    "roberta": {
        "tokenizer": {"kind": "byte_bpe", "vocab_size": 50_265},
        "mask": {
            "sequence_length": 512,
            "packing": "full_sentences",
            "masking": "token",
            "duplicates": 0,
            "masked_lm_prob": 0.15,
            "max_predictions_per_seq": None,
            "rounding": "roberta",
            "mask_share": 0.8,
            "random_share": 0.1,
            "random_ids": "no_special",
        },
        "pretrain": {
            "model": {
                "architecture": "roberta",
                "hidden_act": "gelu",
                "initializer": "normal",
                "initializer_range": 0.02,
                "layer_norm_eps": 1e-5,
                "hidden_dropout_prob": 0.1,
                "attention_probs_dropout_prob": 0.1,
            },
            "objective": "mlm",
            "batch_size": 8192,
            "max_steps": 500_000,
            "learning_rate": 6e-4,
            "warmup_steps": 24_000,
            "schedule": "linear",
            "optimizer": "adamw",
            "beta1": 0.9,
            "beta2": 0.98,
            "epsilon": 1e-6,
            "weight_decay": 0.01,
            "decay_biases_and_norms": True,
            "max_grad_norm": None,
        },
        # Table 10; the rate and the size of most GLUE tasks.
        "finetune": {
            "batch_size": 32,
            "epochs": 10,
            "learning_rate": 1e-5,
            "warmup_ratio": 0.06,
            "schedule": "linear",
            "optimizer": "adamw",
            "beta2": 0.98,
            "epsilon": 1e-6,
            "weight_decay": 0.1,
            "decay_biases_and_norms": True,
            "max_grad_norm": None,
            "dropout": 0.1,
            "attention_dropout": 0.1,
        },
    },
}

BY_PRESET: dict[str, dict[str, dict[str, Any]]] = {
    "electra": {
        "base": {
            "objective_options": {"generator_width": 1 / 3},
            "batch_size": 256,
            "max_steps": 766_000,
            "learning_rate": 2e-4,
        },
        "large": {"batch_size": 2048, "max_steps": 400_000, "learning_rate": 2e-4},
    },
    "roberta": {"large": {"learning_rate": 4e-4, "warmup_steps": 30_000}},
}
"""Recipe -> preset of its architecture -> values for `pretrain` in place of the recipe's own, where others are
published."""


_SECTIONS = ("tokenizer", "mask", "pretrain")
"""That a recipe has values for, beside those of every task."""
_LONGEST_WARMUP_SHARE = 0.1
"""Of a training's steps; the recipes' own are 6 % at most."""
_PEAKS = ("embedding_learning_rate", "head_learning_rate", "vector_learning_rate")
LEFT_OUT = "left out"
"""In the place of a value of a recipe that does not fit the rest of the file."""


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
    if not isinstance(name, str) or name not in RECIPES:
        raise ValueError(f"recipe: found {name!r}; {suggest(str(name), RECIPES)}, or null for the plain defaults")
    recipe = dict(RECIPES[name])
    _check_rate(name, values.get("pretrain"))
    recipe["pretrain"] = _fitting(_published(name, values.get("pretrain")), values.get("pretrain"))
    for section in _SECTIONS:
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
    if not isinstance(name, str) or name not in RECIPES:
        return {}
    recipe = {**RECIPES[name], "pretrain": _published(name, values.get("pretrain"))}
    holds = with_recipe(values)
    return {key: pair for section in _SECTIONS for key, pair in _departures(holds[section], recipe[section], section)}


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
    recipe, model = RECIPES[name]["pretrain"], values.get("model")
    alone = {"model": {"architecture": recipe["model"]["architecture"]}}
    if _differs(model, recipe["model"], "architecture"):
        return {**recipe, **alone}
    preset = str(model.get("preset")) if isinstance(model, Mapping) else ""
    found: dict[str, Any] = _over(BY_PRESET.get(name, {}).get(preset), recipe)
    return found if values.get("init_from") is None else {**found, **alone}


def _check_rate(name: str, given: Any) -> None:
    """`ValueError` where trained weights would get a recipe's rate of Muon for random ones, which destroys them."""
    values, recipe = given if isinstance(given, Mapping) else {}, RECIPES[name]["pretrain"]
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
