"""The scores of a model that tells replaced tokens from original ones, against transformers in double precision."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer

from bertcore.errors import ConfigError
from bertcore.minimal_pairs import scoring
from bertcore.minimal_pairs.scoring import load_language_model, sentence_scorer
from bertcore.model.bert import BertConfig
from bertcore.model.config import build_discriminator
from bertcore.model.deberta import DebertaConfig, DebertaForPreTraining
from bertcore.model.electra import ElectraForMaskedLM
from bertcore.model.huggingface import save_pretrained
from bertcore.model.layout import Layout
from bertcore.precision import device
from tests.bertcore.minimal_pairs.test_scoring import SENTENCES


def published(kind: str, config: BertConfig, directory: Path) -> Any:
    """One that transformers wrote, with weights so large that predictions are far from even."""
    torch.manual_seed(5)
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    sizes = {name: getattr(config, name) for name in (*names, "max_position_embeddings")}
    theirs = transformers.ElectraConfig(**sizes, embedding_size=12, initializer_range=0.3)
    model = getattr(transformers, f"Electra{kind}")(theirs).eval()
    model.save_pretrained(directory)
    return model.double()


@pytest.mark.parametrize("at_once", [4096, 20])
def test_a_score_is_the_sum_of_the_log_probabilities_of_the_original(
    at_once: int, config: BertConfig, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(scoring.TOKENS_AT_ONCE, "cpu", at_once)
    reference = published("ForPreTraining", config, tmp_path)
    model = load_language_model(tmp_path).double()
    found, expected = sentence_scorer(model, tokenizer)(SENTENCES), []
    for sentence in SENTENCES:
        ids = tokenizer.encode(sentence).ids
        with torch.no_grad():
            (logits,) = reference(torch.tensor([ids])).logits
        expected.append(float(torch.log(1 - torch.sigmoid(logits))[1:-1].sum()))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert len(np.unique(found)) == len(SENTENCES)


def test_a_deberta_that_detects_is_scored_by_its_discriminator(
    config: BertConfig, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    torch.manual_seed(5)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.3}
    save_pretrained(build_discriminator(DebertaConfig(vocab_size=config.vocab_size, **sizes)), tmp_path)
    model = load_language_model(tmp_path)
    assert isinstance(model, DebertaForPreTraining)
    (found,) = sentence_scorer(model.double(), tokenizer)(SENTENCES[:1])
    ids = torch.tensor(tokenizer.encode(SENTENCES[0]).ids, device=device())
    with torch.no_grad():
        logits = model(ids, torch.zeros_like(ids), Layout.from_lengths(torch.tensor([len(ids)])).to(device()))
    assert found == pytest.approx(float(torch.log(1 - torch.sigmoid(logits))[1:-1].sum()), rel=1e-9)


def test_a_variant_that_masks_is_refused(config: BertConfig, tokenizer: Tokenizer, tmp_path: Path) -> None:
    published("ForPreTraining", config, tmp_path)
    with pytest.raises(ConfigError, match="variant: found 'within_word_l2r', but the model tells"):
        sentence_scorer(load_language_model(tmp_path), tokenizer, "within_word_l2r")


def test_its_generator_is_scored_as_a_masked_language_model(
    config: BertConfig, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    reference = published("ForMaskedLM", config, tmp_path)
    model = load_language_model(tmp_path).double()
    assert isinstance(model, ElectraForMaskedLM)
    ids, mask = tokenizer.encode(SENTENCES[0]).ids, tokenizer.token_to_id("[MASK]")
    copies = torch.tensor(ids).repeat(len(ids) - 2, 1)
    places = torch.arange(1, len(ids) - 1)
    copies[places - 1, places] = mask
    with torch.no_grad():
        logits = torch.log_softmax(reference(copies).logits, -1)
    expected = sum(float(logits[place - 1, place, ids[place]]) for place in places)
    np.testing.assert_allclose(sentence_scorer(model, tokenizer, "original")(SENTENCES[:1]), [expected], rtol=1e-6)
