"""RoBERTa as Hugging Face's classes have it: their names of parameters, and (B, L) arrays with an attention mask.

Written apart from `bertcore.model.roberta`, which it checks; the layers are those of `bertcore.export.padded_bert`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.export.fusible import gelu
from bertcore.export.padded_bert import PaddedModel
from bertcore.model.roberta import RobertaConfig


class PaddedRoberta(PaddedModel):
    """`RobertaModel`. Called with `input_ids` and `attention_mask`, (B, L) int64, and a third array that is ignored."""

    def __init__(self, config: RobertaConfig, has_pooler: bool = False) -> None:
        super().__init__(config, has_pooler)
        self.pad_token_id = config.pad_token_id

    def embedded(self, input_ids: Tensor, token_type_ids: Tensor | None) -> Tensor:
        counts = (input_ids != self.pad_token_id).long()
        places = counts.cumsum(1) * counts + self.pad_token_id
        words = self.embeddings["word_embeddings"](input_ids) + self.embeddings["position_embeddings"](places)
        return words + self.get_parameter("embeddings.token_type_embeddings.weight")[0]


class _WithEncoder(nn.Module):
    def __init__(self, config: RobertaConfig) -> None:
        super().__init__()
        self.roberta = PaddedRoberta(config)

    def hidden(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.roberta(input_ids, attention_mask)[0]


class PaddedRobertaForMaskedLM(_WithEncoder):
    """`RobertaForMaskedLM`."""

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.lm_head = nn.ModuleDict({"dense": nn.Linear(width, width), "layer_norm": norm})
        self.lm_head.register_parameter("bias", nn.Parameter(torch.zeros(config.vocab_size)))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        activated = gelu(self.lm_head["dense"](self.hidden(input_ids, attention_mask)))
        table = self.roberta.get_parameter("embeddings.word_embeddings.weight")
        return (functional.linear(self.lm_head["layer_norm"](activated), table, self.get_parameter("lm_head.bias")),)


class PaddedRobertaForSequenceClassification(_WithEncoder):
    """`RobertaForSequenceClassification`."""

    def __init__(self, config: RobertaConfig, num_labels: int) -> None:
        super().__init__(config)
        width = config.hidden_size
        self.classifier = nn.ModuleDict({"dense": nn.Linear(width, width), "out_proj": nn.Linear(width, num_labels)})

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        first = self.hidden(input_ids, attention_mask)[:, 0]
        return (self.classifier["out_proj"](torch.tanh(self.classifier["dense"](first))),)
