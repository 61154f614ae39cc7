"""A small model of every head, with its tokenizer, saved as the stages save them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from bertcore.export.probe import Expected
from bertcore.model.bert import (
    BertConfig,
    BertForMultipleChoice,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)
from bertcore.model.encoder import EncoderModule
from bertcore.model.huggingface import label_names, save_pretrained
from bertcore.tokens.wordpiece import save_tokenizer
from tests.samples import tokenizer

SIZES = {
    "vocab_size": 120,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
    "hidden_act": "gelu_new",
}
LABELS = ["O", "B-A", "I-A"]


@dataclass(frozen=True, kw_only=True)
class Example:
    """One model in memory, and as it was saved."""

    model: EncoderModule
    expected: Expected
    directory: Path
    tokenizer: Path


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Example]:
    """By architecture."""
    root = tmp_path_factory.mktemp("saved")
    (root / "tokenizer").mkdir()
    save_tokenizer(tokenizer(SIZES["vocab_size"]), root / "tokenizer", lowercase=True)
    torch.manual_seed(5)
    config = BertConfig(initializer_range=0.2, **SIZES)
    classes: dict[str, Any] = label_names(LABELS)
    built: list[tuple[EncoderModule, dict[str, Any]]] = [
        (BertModel(config), {}),
        (BertForPreTraining(config), {}),
        (BertForSequenceClassification(config, 3), classes | {"problem_type": "single_label_classification"}),
        (BertForTokenClassification(config, 3), classes),
        (BertForQuestionAnswering(config), {}),
        (BertForMultipleChoice(config, 1), {}),
    ]
    made = {}
    for model, extra in built:
        with torch.no_grad():
            for parameter in model.parameters():  # no bias is 0, no scale is 1
                parameter += 0.1 * torch.randn(parameter.shape)
        directory = root / model.architecture
        save_pretrained(model, directory, root / "tokenizer", extra)
        made[model.architecture] = Example(
            model=model, expected=Expected.of(model), directory=directory, tokenizer=root / "tokenizer"
        )
    return made
