"""RoBERTa as Hugging Face's classes have it: their names of parameters, and (B, L) arrays with an attention mask.

Written apart from `bertcore.model.roberta`, which it checks; the layers are those of `bertcore.export.padded_bert`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.export.fusible import gelu
from bertcore.export.padded_bert import PaddedModel
from bertcore.export.padded_heads import PaddedHead
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


class PaddedRobertaForMaskedLM(PaddedHead):
    """`RobertaForMaskedLM`."""

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__("roberta", PaddedRoberta(config))
        width = config.hidden_size
        norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.lm_head = nn.ModuleDict({"dense": nn.Linear(width, width), "layer_norm": norm})
        self.lm_head.register_parameter("bias", nn.Parameter(torch.zeros(config.vocab_size)))

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        activated = gelu(self.lm_head["dense"](hidden))
        table = self.get_parameter("roberta.embeddings.word_embeddings.weight")
        return (functional.linear(self.lm_head["layer_norm"](activated), table, self.get_parameter("lm_head.bias")),)


class PaddedRobertaForSequenceClassification(PaddedHead):
    """`RobertaForSequenceClassification`."""

    def __init__(self, config: RobertaConfig, num_labels: int) -> None:
        super().__init__("roberta", PaddedRoberta(config))
        width = config.hidden_size
        self.classifier = nn.ModuleDict({"dense": nn.Linear(width, width), "out_proj": nn.Linear(width, num_labels)})

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        first = hidden[:, 0]
        return (self.classifier["out_proj"](torch.tanh(self.classifier["dense"](first))),)
