"""The peers' loss with a head that reads masked tokens alone is that of their classes."""

import pytest
import torch
import transformers

from benchmarks.steps import HEADS, masked_token_loss

SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "pad_token_id": 0,
}
CONFIGS = {
    "BertForMaskedLM": transformers.BertConfig,
    "BertForPreTraining": transformers.BertConfig,
    "RobertaForMaskedLM": transformers.RobertaConfig,
    "DebertaV2ForMaskedLM": transformers.DebertaV2Config,
    "ModernBertForMaskedLM": transformers.ModernBertConfig,
}


@pytest.mark.parametrize("kind", HEADS)
def test_the_loss_of_masked_tokens_is_that_of_the_class(kind: str) -> None:
    torch.manual_seed(0)
    model = getattr(transformers, kind)(CONFIGS[kind](**SIZES)).eval()
    ids = torch.randint(5, 40, (3, 12))
    mask = torch.ones_like(ids)
    ids[1, 8:], mask[1, 8:] = 0, 0
    labels = torch.full_like(ids, -100)
    labels[0, 3], labels[1, 2], labels[2, 7] = 7, 9, 11
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    if kind == "BertForPreTraining":
        batch |= {"token_type_ids": torch.zeros_like(ids), "next_sentence_label": torch.tensor([0, 1, 0])}
    gradients = []
    for loss in (model(**batch).loss, masked_token_loss(model, batch)):
        model.zero_grad()
        loss.backward()
        gradients.append({name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None})
    whole, of_masked = gradients
    torch.testing.assert_close(masked_token_loss(model, batch), model(**batch).loss)
    torch.testing.assert_close(of_masked, whole, rtol=1e-4, atol=1e-6)
