"""A tokenizer with a few words, an encoder with a few weights, and makers of small example sets."""

import dataclasses
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from tokenizers import Tokenizer

from bertcore.examples.schema import ExampleSet, schema_of
from bertcore.finetune.config import RunConfig
from bertcore.model.albert import AlbertConfig
from bertcore.model.bert import BertConfig
from bertcore.model.deberta import DebertaConfig
from bertcore.model.distilbert import DistilBertConfig
from bertcore.model.electra import ElectraConfig
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.modernbert_config import ModernBertConfig
from bertcore.model.roberta import RobertaConfig
from bertcore.tokens.wordpiece import SPECIAL_TOKENS, make_tokenizer, save_tokenizer

WORDS = [
    *("red", "green", "blue", "cat", "dog", "bird", "table", "river", "city", "berlin", "paris"),
    *("the", "a", "is", "on", "what", "colour", "where", "who", "answer"),
]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Arrays this small gain nothing from a second thread, and lose much where another program has the second core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """Uncased, 20 words and all letters, so that any ASCII word is some pieces."""
    letters = [*string.ascii_lowercase, *string.digits, *(f"##{character}" for character in string.ascii_lowercase)]
    entries = dict.fromkeys([*SPECIAL_TOKENS, *letters, *WORDS, *".,?!-'"])
    return make_tokenizer({entry: index for index, entry in enumerate(entries)}, lowercase=True)


@pytest.fixture
def saved_tokenizer(tokenizer: Tokenizer, tmp_path: Path) -> Path:
    """The directory of its files."""
    directory = tmp_path / "tokenizer"
    directory.mkdir()
    save_tokenizer(tokenizer, directory, lowercase=True)
    return directory


@pytest.fixture(scope="session")
def config(tokenizer: Tokenizer) -> BertConfig:
    return BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


@pytest.fixture(scope="session")
def configs(config: BertConfig) -> dict[str, EncoderConfig]:
    """One small encoder of each architecture; the windows of ModernBERT are shorter than the texts."""
    shared = {field.name: getattr(config, field.name) for field in dataclasses.fields(EncoderConfig)}
    narrow = {
        **shared,
        "embedding_size": 24,
        "initializer_range": 0.1,
    }  # through a projection little would come at 0.02
    return {
        "albert": AlbertConfig(**narrow, classifier_dropout_prob=0.0),
        "bert": config,
        "deberta-v2": DebertaConfig(
            **shared, position_buckets=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        ),
        "distilbert": DistilBertConfig(**shared, dropout=0.0, attention_dropout=0.0),
        "electra": ElectraConfig(**narrow, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
        "modernbert": ModernBertConfig(**shared, local_attention=8),
        "roberta": RobertaConfig(**shared, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
    }


@pytest.fixture(scope="session")
def make_task() -> Callable[..., RunConfig]:
    def make(**fields: Any) -> RunConfig:
        defaults = {"sequence_length": 32, "max_query_length": 8, "doc_stride": 8, "learning_rate": 3e-3}
        return RunConfig(format="toy", data="toy", **({**defaults, "dropout": 0.0} | fields))

    return make


@pytest.fixture(scope="session")
def make_examples() -> Callable[..., ExampleSet]:
    """From rows without `id`; missing columns are null, missing titles empty."""

    def make(family: str, labels: list[str] | None, metrics: list[str], **splits: list[dict[str, Any]]) -> ExampleSet:
        schema = schema_of(family, labels)
        tables = {
            split: pa.Table.from_pylist(
                [{"id": str(number), "title": "", **row} for number, row in enumerate(rows)], schema
            )
            for split, rows in splits.items()
        }
        return ExampleSet(family=family, labels=labels, metrics=metrics, splits=tables)

    return make
