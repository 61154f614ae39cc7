"""The heads that stand alike on several encoders: masked tokens, labels of texts and of tokens, answers in a text.

Each is mixed with the class that builds the encoder: `class XForTokenClassification(TokenClassification, _WithX)`.
"""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from bertcore.model.architecture import EncoderConfig, EncoderModule, scores
from bertcore.model.initialization import initialize
from bertcore.model.layout import Layout


class Dropping(EncoderModule):
    """An encoder whose states are partly dropped before the last layer of a head."""

    dropout_prob: float
    """The share that is dropped while training."""

    def dropped(self, states: Tensor) -> Tensor:
        """`states`, a share of them dropped while training."""
        return functional.dropout(states, self.dropout_prob, self.training)


class MaskedLM(EncoderModule):
    """One row of logits of the vocabulary for each masked token."""

    def forward(
        self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout, masked_positions: Tensor
    ) -> tuple[Tensor]:
        """(M,) flat positions -> (M, V) logits there."""
        states = self.base_model.hidden_states(input_ids, token_type_ids, layout, masked_positions)
        return (self.token_logits(states),)


class SequenceClassification(Dropping):
    """The encoder, what a subclass makes of each [CLS], dropout, and one linear layer."""

    def __init__(self, config: EncoderConfig, num_labels: int) -> None:
        super().__init__(config)
        self.classifier = nn.Linear(config.hidden_size, num_labels)
        initialize(self.classifier, config)

    def pooled(self, first: Tensor) -> Tensor:
        """(B, H) states of the [CLS] tokens -> (B, H) representations of the whole sequences."""
        raise NotImplementedError

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (B, labels) logits."""
        first = self.base_model.hidden_states(input_ids, token_type_ids, layout, layout.first_tokens)
        return scores(self.classifier, self.dropped(self.pooled(first)))


class ClassificationHead(nn.Module):
    """(B, H) states of the [CLS] tokens -> (B, labels) logits: a layer, `activation`, and the last layer, dropout
    before both."""

    def __init__(
        self, hidden_size: int, num_labels: int, activation: Callable[[Tensor], Tensor], dropout_prob: float
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.out_proj = nn.Linear(hidden_size, num_labels)
        self.activation, self.dropout_prob = activation, dropout_prob

    def forward(self, first: Tensor) -> Tensor:
        states = self.activation(self.dense(functional.dropout(first, self.dropout_prob, self.training)))
        return scores(self.out_proj, functional.dropout(states, self.dropout_prob, self.training))


class TokenClassification(Dropping):
    """The encoder, dropout, and one linear layer on every token."""

    def __init__(self, config: EncoderConfig, num_labels: int) -> None:
        super().__init__(config)
        self.classifier = nn.Linear(config.hidden_size, num_labels)
        initialize(self.classifier, config)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (T, labels) logits."""
        return scores(self.classifier, self.dropped(self.base_model.hidden_states(input_ids, token_type_ids, layout)))


class QuestionAnswering(EncoderModule):
    """The encoder and one linear layer that scores every token as the answer's start and end."""

    def __init__(self, config: EncoderConfig, num_labels: int = 2) -> None:
        super().__init__(config)
        self.qa_outputs = nn.Linear(config.hidden_size, num_labels)
        initialize(self.qa_outputs, config)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (T, 2) logits of start and end."""
        return scores(self.qa_outputs, self.base_model.hidden_states(input_ids, token_type_ids, layout))
