"""The heads that stand alike on every encoder: masked tokens, labels of tokens, an answer's start and end.

Each is mixed with the class that builds the encoder: `class XForTokenClassification(TokenClassification, _WithX)`.
"""

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
