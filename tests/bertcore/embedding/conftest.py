"""A tiny encoder of the samples' tokenizer, and a corpus of the samples' documents."""

from pathlib import Path

import pytest
import torch

from bertcore.model.modernbert import ModernBertModel
from bertcore.model.modernbert_config import ModernBertConfig
from bertcore.precision import device
from tests.samples import documents, vocabulary, write_corpus


@pytest.fixture
def model() -> ModernBertModel:
    torch.manual_seed(3)
    config = ModernBertConfig(
        vocab_size=vocabulary().size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
    )
    return ModernBertModel(config.with_dropout(0.1, 0.0)).to(device())


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """30 documents to train on and 10 held out, whose sentences are partly the same."""
    for split, count, seed in (("train", 30, 1), ("heldout", 10, 500)):
        write_corpus(tmp_path, split, documents(count, seed))
    return tmp_path
