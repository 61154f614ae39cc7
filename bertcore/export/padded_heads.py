"""Heads that stand alike on every padded encoder: labels of tokens, an answer's start and end, a pooled text's label.

An encoder has the name that Hugging Face's class gives it, and with it the names of its parameters.
"""

from torch import Tensor, nn


class TokenClassification(nn.Module):
    """One linear layer on the states of the encoder."""

    layer = "classifier"
    """Hugging Face's name of it."""
    output = 0
    """Of the encoder, which the layer reads."""

    def __init__(self, name: str, encoder: nn.Module, width: int, labels: int) -> None:
        super().__init__()
        self.add_module(name, encoder)
        self.add_module(self.layer, nn.Linear(width, labels))
        self.encoder_name = name

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        outputs = self.get_submodule(self.encoder_name)(input_ids, attention_mask, token_type_ids)
        return self.parts(self.get_submodule(self.layer)(outputs[self.output]))

    def parts(self, logits: Tensor) -> tuple[Tensor, ...]:
        """The outputs of Hugging Face's class."""
        return (logits,)


class QuestionAnswering(TokenClassification):
    """The same, of two numbers: where an answer starts, and where it ends."""

    layer = "qa_outputs"

    def parts(self, logits: Tensor) -> tuple[Tensor, ...]:
        return logits.unbind(-1)


class PooledClassification(TokenClassification):
    """One linear layer on what the encoder pools."""

    output = 1
