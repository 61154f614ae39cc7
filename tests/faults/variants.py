"""The recipes as trainings so small that many of them can be made, killed and compared."""

from typing import Any

from bertcore.recipes.recipe import NAMES
from tests.faults.trainings import PARAMS

_BERTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
_DROPOUTS = {
    "albert": (*_BERTS, "classifier_dropout_prob"),
    "distilbert": ("dropout", "attention_dropout"),
    "modern": ("embedding_dropout", "mlp_dropout", "attention_dropout"),
}
_SECTIONS: dict[str, dict[str, Any]] = {
    "albert": {"model": {"embedding_size": 16}},
    "bert-2018": {"mask": {"duplicates": 2, "second_phase": {"sequence_length": 64, "max_predictions_per_seq": 10}}},
    "deberta": {"model": {"position_buckets": 16}},
    "deberta-v3": {"model": {"position_buckets": 16}},
    "distilbert": {
        "model": {"num_hidden_layers": 1},
        "pretrain": {"objective_options": {"teacher": "teachers/first"}},
    },
    "electra": {"model": {"embedding_size": 16}},
    "mlm_clm": {
        "mask": {"packing": "full_sentences", "duplicates": 0},
        "pretrain": {"objective": "mlm_clm"},
    },
    "mlm_repeats_displaced": {
        "mask": {"packing": "full_sentences", "duplicates": 0},
        "pretrain": {"objective": "mlm_repeats_displaced"},
    },
    "modern": {"model": {"local_attention": 16}},
    "roberta": {"model": {"max_position_embeddings": 66}},
    "spanbert": {
        "mask": {
            "packing": "full_sentences",
            "masking": "span",
            "span_lengths": "geometric",
            "max_ngram": 10,
            "replace_unit": "span",
            "duplicates": 0,
        },
        "pretrain": {"objective": "mlm_sbo"},
    },
}
"""What each needs beside its recipe. Three are none, but values of their own: SpanBERT's masks and objective, and the
objectives that predict the next token and find displaced ones, too."""

VARIANTS = tuple(_SECTIONS)


def variant(name: str, *, dropout: float = 0.1, **pretrain: Any) -> dict[str, Any]:
    """The content of params.yaml for a training of the variant `name`, with `pretrain` over its own values."""
    own, rhythm = _SECTIONS[name], PARAMS["pretrain"]
    model = {"preset": "tiny", "hidden_size": 32, "num_hidden_layers": 2, **own.get("model", {})}
    model |= dict.fromkeys(_DROPOUTS.get(name, _BERTS), dropout)
    return {
        "recipe": name if name in NAMES else None,
        "mask": {"sequence_length": 48, **own.get("mask", {})},
        "pretrain": {**rhythm, **own.get("pretrain", {}), "model": model, **pretrain},
        "finetune": {"tasks": {}},
    }
