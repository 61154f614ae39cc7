"""Heads that stand alike on every padded encoder: labels of tokens, an answer's start and end, a pooled text's label.

An encoder has the name that Hugging Face's class gives it, and with it the names of its parameters.
"""

from torch import Tensor, nn


class _OnEncoder(nn.Module):
    """One linear layer on an output of an encoder."""

    layer = "classifier"
    """Hugging Face's name of it."""

    def __init__(self, name: str, encoder: nn.Module, width: int, labels: int) -> None:
        super().__init__()
        self.add_module(name, encoder)
        self.add_module(self.layer, nn.Linear(width, labels))
        self.encoder_name = name

    def logits(self, inputs: tuple[Tensor | None, ...], output: int) -> Tensor:
        """Of the encoder's output of that number: its states, and what is pooled."""
        logits: Tensor = self.get_submodule(self.layer)(self.get_submodule(self.encoder_name)(*inputs)[output])
        return logits


class TokenClassification(_OnEncoder):
    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        return (self.logits((input_ids, attention_mask, token_type_ids), 0),)


class QuestionAnswering(_OnEncoder):
    layer = "qa_outputs"

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        return self.logits((input_ids, attention_mask, token_type_ids), 0).unbind(-1)


class PooledClassification(_OnEncoder):
    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        return (self.logits((input_ids, attention_mask, token_type_ids), 1),)
