"""RoBERTa (Liu et al. 2019) on sequences without padding: BERT's layers, other embeddings and other heads.

Positions are counted behind the id of the padding, as fairseq did; there is one segment, whatever the token types say;
no head reads the pooled <s>.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.errors import ArtifactError
from bertcore.model import bert, heads
from bertcore.model.architecture import Architecture
from bertcore.model.bert import BertConfig, BertEmbeddings, BertModel
from bertcore.model.initialization import initialize
from bertcore.model.names import BERT as NAMES
from bertcore.model.normalization import LayerNorm


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(BertConfig):
    """One RoBERTa encoder."""

    model_type: ClassVar[str] = "roberta"
    # Ours are those of the published models.
    defaults: ClassVar[Mapping[str, Any]] = {
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
    }
    # <s> and </s> stand in the tokenizer; Hugging Face's default ids may be those of other entries.
    further: ClassVar[Mapping[str, Any]] = {"bos_token_id": None, "eos_token_id": None}
    remedy: ClassVar[str] = "a RoBERTa encoder"

    vocab_size: int = 50_265
    """Entries of the vocabulary, special tokens included."""
    max_position_embeddings: int = 514
    """Longest sequence, in tokens, and 1 + `pad_token_id` more: the first positions are never used."""
    type_vocab_size: int = 1
    """Rows of the table of segments, of which the first is added to every token."""
    layer_norm_eps: float = 1e-5
    """Added to the variance in layer normalisation."""
    pad_token_id: int = 1
    """Id of <pad>; positions are counted from the number behind it, and <pad> itself has none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_sequence_length < 1:
            raise ValueError(
                f"max_position_embeddings: found {self.max_position_embeddings}, expected more than "
                f"{1 + self.pad_token_id}, which are never used with pad_token_id {self.pad_token_id}; raise it"
            )

    @property
    def max_sequence_length(self) -> int:
        return self.max_position_embeddings - 1 - self.pad_token_id

    @property
    def segments(self) -> int:
        return 0

    @property
    def free(self) -> set[str]:
        return super().free - {"pad_token_id"}

    def with_padding(self, pad_token_id: int, where: str) -> Self:
        if pad_token_id != self.pad_token_id:
            raise ArtifactError(
                f"{where}: pad_token_id: found {self.pad_token_id}, expected {pad_token_id}, the id of the tokenizer's "
                "padding, from which positions are counted; give a model whose config.json has it"
            )
        return self


class RobertaEmbeddings(BertEmbeddings):
    """(T,) token and position ids -> (T, H); segments are ignored."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.pad_token_id = config.pad_token_id

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> Tensor:
        return super().forward(input_ids, torch.zeros_like(token_type_ids), self.positions(input_ids, position_ids))

    def positions(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        """(T,) rows of the table, as Hugging Face counts them: from `pad_token_id` + 1 in every sequence, past any
        <pad> that a text itself has, whose own is `pad_token_id`."""
        counts = input_ids.ne(self.pad_token_id).long()
        until = counts.cumsum(0)
        first = torch.arange(len(input_ids), device=input_ids.device) - position_ids
        return (until - (until - counts)[first]) * counts + self.pad_token_id


class RobertaModel(BertModel):
    """The encoder, and its pooled <s>."""

    architecture = "RobertaModel"
    embedding_class = RobertaEmbeddings


class _WithRoberta(heads.WithEncoder):
    prefix, encoder_class = "roberta", RobertaModel


class RobertaLMHead(nn.Module):
    """(M, H) hidden states at masked positions -> (M, V) logits; the decoder is the embedding matrix itself."""

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, masked: Tensor, embeddings: Tensor) -> Tensor:
        # GELU whatever `hidden_act` says, as Hugging Face has it.
        return functional.linear(self.layer_norm(functional.gelu(self.dense(masked))), embeddings, self.bias)


class RobertaForMaskedLM(heads.MaskedLM, _WithRoberta):
    """The encoder with the head for masked tokens."""

    architecture, token_head = "RobertaForMaskedLM", "lm_head"

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__(config)
        self.lm_head = RobertaLMHead(config)
        initialize(self.lm_head, config)


class RobertaForSequenceClassification(heads.TwoLayerClassification, _WithRoberta):
    """The encoder and two layers on <s>, the first of them instead of the pooler."""

    architecture, activation = "RobertaForSequenceClassification", "tanh"


class RobertaForMultipleChoice(heads.MultipleChoice, _WithRoberta):
    """One logit for a context with one of its choices, from the pooled <s>, which the other heads do without."""

    architecture = "RobertaForMultipleChoice"


class RobertaForTokenClassification(heads.TokenClassification, _WithRoberta):
    architecture = "RobertaForTokenClassification"


class RobertaForQuestionAnswering(heads.QuestionAnswering, _WithRoberta):
    architecture = "RobertaForQuestionAnswering"


ROBERTA = Architecture(
    config=RobertaConfig,
    presets=bert.PRESETS,  # of which `base` and `large` are the published models
    tokenizers=("byte_bpe",),
    encoder=RobertaModel,
    pretraining=RobertaForMaskedLM,
    heads=(
        RobertaForSequenceClassification,
        RobertaForTokenClassification,
        RobertaForQuestionAnswering,
        RobertaForMultipleChoice,
    ),
    optional=("pooler.",),  # all published models but RobertaModel are saved without it
    # Copies of tied parameters, and buffers that old versions saved.
    redundant=("lm_head.decoder.weight", "lm_head.decoder.bias", "embeddings.position_ids"),
    names=NAMES,
    flops=bert.masked_lm_flops,
)
