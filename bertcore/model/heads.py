"""The heads that stand alike on several encoders: masked tokens, pairs, labels of texts and of tokens, answers.

Each is mixed with the class that names the encoder: `class XForMaskedLM(heads.MaskedLM, _WithX)`.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.model.encoder import Encoder, EncoderModule, Kind, PooledEncoder, scores
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.initialization import initialize
from bertcore.model.layers import ACTIVATIONS
from bertcore.model.layout import Layout


class WithEncoder(EncoderModule):
    """The encoder, with initial weights, as the attribute `prefix`: what every class with a head begins with."""

    encoder_class: ClassVar[type[Encoder]]
    reads_pooled: ClassVar[bool] = False
    """Whether the head reads what a `PooledEncoder` pools. Where not, the model has no pooler, as Hugging Face's has
    none: it would learn nothing."""
    dropout_prob: float
    """The share of a head's input that is dropped while training."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__(config)
        encoder = self.encoder_class(config)
        if isinstance(encoder, PooledEncoder) and not self.reads_pooled:
            del encoder.pooler
        self.add_module(self.prefix, encoder)
        self.dropout_prob = config.head_dropout

    def dropped(self, states: Tensor) -> Tensor:
        """`states`, a share of them dropped while training."""
        return functional.dropout(states, self.dropout_prob, self.training)

    def pooled(self, first: Tensor) -> Tensor:
        """(B, H) states of the [CLS] tokens -> (B, H) representations of the whole sequences."""
        encoder = self.base_model
        assert isinstance(encoder, PooledEncoder), f"{encoder.architecture} pools nothing"
        return encoder.pool(first)


class MaskedLM(WithEncoder):
    """One row of logits of the vocabulary for each masked token."""

    kind: ClassVar[Kind] = "masked_lm"

    def forward(
        self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout, masked_positions: Tensor
    ) -> tuple[Tensor]:
        """(M,) flat positions -> (M, V) logits there."""
        states = self.base_model.hidden_states(input_ids, token_type_ids, layout, masked_positions)
        return (self.token_logits(states),)


class PairPreTraining(WithEncoder):
    """One row of logits of the vocabulary for each masked token, and one of two logits for each pair of segments."""

    reads_pooled = True

    def pair_logits(self, pooled: Tensor) -> Tensor:
        """(B, H) representations of the whole sequences -> (B, 2) logits."""
        raise NotImplementedError

    def forward(
        self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout, masked_positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(M,) flat positions -> (M, V) logits there, and (B, 2) `pair_logits`."""
        rows = torch.cat([layout.first_tokens, masked_positions])
        hidden = self.base_model.hidden_states(input_ids, token_type_ids, layout, rows)
        first, masked = hidden.split([layout.batch_size, len(masked_positions)])
        return self.token_logits(masked), self.pair_logits(self.pooled(first))


class Classifier(WithEncoder):
    """The encoder, and one linear layer that a subclass calls."""

    def __init__(self, config: EncoderConfig, num_labels: int) -> None:
        super().__init__(config)
        self.classifier = nn.Linear(config.hidden_size, num_labels)
        initialize(self.classifier, config)


class SequenceClassification(Classifier):
    """The encoder, what it or a subclass makes of each [CLS], dropout, and one linear layer."""

    kind: ClassVar[Kind] = "sequence_classification"
    reads_pooled = True

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (B, labels) logits."""
        first = self.base_model.hidden_states(input_ids, token_type_ids, layout, layout.first_tokens)
        return scores(self.classifier, self.dropped(self.pooled(first)))


class MultipleChoice(SequenceClassification):
    """One logit for a context with one of its choices."""

    kind: ClassVar[Kind] = "multiple_choice"


class ClassificationHead(nn.Module):
    """(B, H) states of the [CLS] tokens -> (B, labels) logits: a layer, `activation`, and the last layer, dropout
    before both."""

    def __init__(self, config: EncoderConfig, num_labels: int, activation: str) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.out_proj = nn.Linear(config.hidden_size, num_labels)
        self.activation, self.dropout_prob = ACTIVATIONS[activation], config.head_dropout

    def forward(self, first: Tensor) -> Tensor:
        states = self.activation(self.dense(functional.dropout(first, self.dropout_prob, self.training)))
        return scores(self.out_proj, functional.dropout(states, self.dropout_prob, self.training))


class TwoLayerClassification(WithEncoder):
    """The encoder, and a `ClassificationHead` on each [CLS]."""

    kind: ClassVar[Kind] = "sequence_classification"
    activation: ClassVar[str]
    """A key of `ACTIVATIONS`."""

    def __init__(self, config: EncoderConfig, num_labels: int) -> None:
        super().__init__(config)
        self.classifier = ClassificationHead(config, num_labels, self.activation)
        initialize(self.classifier, config)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (B, labels) logits."""
        first = self.base_model.hidden_states(input_ids, token_type_ids, layout, layout.first_tokens)
        logits: Tensor = self.classifier(first)
        return logits


class TokenClassification(Classifier):
    """The encoder, dropout, and one linear layer on every token."""

    kind: ClassVar[Kind] = "token_classification"

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (T, labels) logits."""
        return scores(self.classifier, self.dropped(self.base_model.hidden_states(input_ids, token_type_ids, layout)))


class QuestionAnswering(WithEncoder):
    """The encoder and one linear layer that scores every token as the answer's start and end."""

    kind: ClassVar[Kind] = "question_answering"

    def __init__(self, config: EncoderConfig, num_labels: int = 2) -> None:
        super().__init__(config)
        self.qa_outputs = nn.Linear(config.hidden_size, num_labels)
        initialize(self.qa_outputs, config)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (T, 2) logits of start and end."""
        return scores(self.qa_outputs, self.base_model.hidden_states(input_ids, token_type_ids, layout))
