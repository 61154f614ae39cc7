"""Heads on padded encoders: what all of them have in common, and those that stand alike on every encoder.

An encoder has the name that Hugging Face's class gives it, and with it the names of its parameters.
"""

from torch import Tensor, nn


class PaddedHead(nn.Module):
    """An encoder, and what a subclass makes of what it gives."""

    def __init__(self, name: str, encoder: nn.Module) -> None:
        super().__init__()
        self.add_module(name, encoder)
        self.encoder_name = name

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        encoder = self.get_submodule(self.encoder_name)
        return self.outputs(*encoder(input_ids, attention_mask, token_type_ids))

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        """(B, L, H) states, and (B, H) of an encoder that pools -> the outputs of Hugging Face's class."""
        raise NotImplementedError


class TokenClassification(PaddedHead):
    """One linear layer on the states of the encoder."""

    def __init__(self, name: str, encoder: nn.Module, width: int, labels: int) -> None:
        super().__init__(name, encoder)
        self.classifier = nn.Linear(width, labels)

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        return (self.classifier(hidden),)


class PooledClassification(TokenClassification):
    """One linear layer on what the encoder pools."""

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        return (self.classifier(*pooled),)


class QuestionAnswering(PaddedHead):
    """One linear layer on the states: where an answer starts, and where it ends."""

    def __init__(self, name: str, encoder: nn.Module, width: int) -> None:
        super().__init__(name, encoder)
        self.qa_outputs = nn.Linear(width, 2)

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        return self.qa_outputs(hidden).unbind(-1)
