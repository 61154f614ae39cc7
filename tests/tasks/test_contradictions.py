"""Params that can contradict each other: what the checks accept, a step and an evaluation can do."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bertcore.config import parse
from bertcore.errors import ConfigError
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import TaskConfig
from bertcore.finetune.run import Finetuning
from bertcore.model.bert import BertConfig
from tasks import contradictions
from tests.bertcore.conftest import float32
from tests.bertcore.finetune.conftest import config, make_examples, one_thread, tokenizer

__all__ = ["config", "float32", "make_examples", "one_thread", "tokenizer"]

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "sequence_length": st.integers(4, 40),
    "max_query_length": st.integers(1, 40),
    "doc_stride": st.integers(1, 50),
    "max_answer_length": st.integers(1, 60),
    "n_best": st.integers(1, 4),
    "null_threshold": st.sampled_from(["tuned", 0.0, -3.0]),
    "long_texts": st.sampled_from(["truncate", "windows"]),
    "labels_on": st.sampled_from(["first", "all"]),
    "crf": st.booleans(),
    "early_choice": st.booleans(),
    "choice_fraction": st.sampled_from([0.01, 0.1, 0.9]),
    "layer_decay": st.sampled_from([1.0, 0.5]),
    "group_by_length": st.booleans(),
    "batch_size": st.sampled_from([1, 3, 64]),
    "epochs": st.sampled_from([1, 2, [1, 2]]),
    "max_train_examples": st.sampled_from([None, 4]),
    "warmup_ratio": st.sampled_from([0.0, 0.5, 1.0]),
    "attention_dropout": st.sampled_from([0.0, 0.5]),
}
TEXTS = ["red cat", "the blue bird is on the table " * 4, "x", "what colour is the river in berlin?", "dog", "city a"]


def example_sets(make_examples: Callable[..., ExampleSet]) -> dict[str, ExampleSet]:
    """A task of each family, with pairs and without, of texts from one token to more than fit."""
    label = [{"label": "ab"[number % 2]} for number in range(len(TEXTS))]
    rows: dict[str, tuple[str, list[str] | None, str, list[dict[str, Any]]]] = {
        "single": (
            "classification",
            ["a", "b"],
            "accuracy",
            [{"text_a": t, **each} for t, each in zip(TEXTS, label, strict=True)],
        ),
        "pair": (
            "classification",
            ["a", "b"],
            "accuracy",
            [{"text_a": t, "text_b": u, **each} for t, u, each in zip(TEXTS, TEXTS[::-1], label, strict=True)],
        ),
        "sets": ("multi_label", ["a", "b"], "micro_f1", [{"text_a": t, "labels": ["a"]} for t in TEXTS]),
        "tags": (
            "tagging",
            ["B-X", "I-X", "O"],
            "f1",
            [{"words": t.split(), "tags": ["B-X"] * len(t.split())} for t in TEXTS],
        ),
        "choices": (
            "multiple_choice",
            None,
            "accuracy",
            [
                {"context": t, "choices": [u, "x"], "label": n % 2}
                for n, (t, u) in enumerate(zip(TEXTS, TEXTS[::-1], strict=True))
            ],
        ),
        "questions": (
            "question_answering",
            None,
            "f1",
            [
                {"context": t, "question": u, "answers": [{"text": t[:1], "answer_start": 0}] if u != "x" else []}
                for t, u in zip(TEXTS, TEXTS[::-1], strict=True)
            ],
        ),
    }
    return {
        name: make_examples(family, labels, [metric], train=each, dev=each)
        for name, (family, labels, metric, each) in rows.items()
    }


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(["single", "pair", "sets", "tags", "questions", "choices"]),
    fields=st.fixed_dictionaries({}, optional=FIELDS),
    positions=st.integers(4, 48),
    segments=st.integers(1, 2),
)
def test_what_is_accepted_can_be_done(
    kind: str,
    fields: dict[str, Any],
    positions: int,
    segments: int,
    tokenizer: Tokenizer,
    config: BertConfig,
    make_examples: Callable[..., ExampleSet],
) -> None:
    examples = example_sets(make_examples)[kind]
    encoder = replace(config, max_position_embeddings=positions, type_vocab_size=segments)
    configs = {
        "pretrain": SimpleNamespace(init_from=None, model=SimpleNamespace(build=lambda entries: encoder)),
        "tokenizer": SimpleNamespace(most_entries=encoder.vocab_size, kind="wordpiece"),
    }
    form = {"tags": "conll", "questions": "squad", "choices": "choices"}.get(kind, "table")
    try:
        task = parse(TaskConfig, {"format": form, "data": "d", **fields}, "params.yaml: finetune.tasks.t")
        contradictions.check_task("t", task, configs)
        contradictions.check_pairs("t", task, examples, configs)
    except ConfigError as error:
        assert str(error).startswith(
            ("params.yaml: finetune.tasks.t.", "params.yaml: pretrain.model.")
        ) and "\n" not in str(error)
        return
    runs = task.settings()
    finetuning = Finetuning(runs[0][0], examples, tokenizer, several_settings=len(runs) > 1)
    result = finetuning.run(encoder, runs[-1][0])
    assert set(result.metrics["dev"]) == set(examples.metrics) and result.steps >= 1
