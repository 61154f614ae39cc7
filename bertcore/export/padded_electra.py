"""ELECTRA as Hugging Face's classes have it: their names of parameters, and (B, L) arrays with an attention mask.

Written apart from `bertcore.model`, as `padded_bert` is for BERT, whose layers it has.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.export.fusible import ACTIVATIONS, bias_of, gelu
from bertcore.export.padded_bert import Layer, embedded, embeddings_of
from bertcore.export.padded_heads import PaddedHead
from bertcore.model.electra import ElectraConfig


class PaddedElectra(nn.Module):
    """`ElectraModel`."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        width = config.embedding_size
        self.embeddings = embeddings_of(config, width)
        self.embeddings_project = nn.Linear(width, config.hidden_size) if width != config.hidden_size else None
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))})

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:
        hidden = self.embeddings["LayerNorm"](embedded(self.embeddings, input_ids, token_type_ids))
        bias = bias_of(attention_mask[:, None, None, :], hidden)
        if self.embeddings_project is not None:
            hidden = self.embeddings_project(hidden)
        for layer in self.encoder["layer"].children():
            hidden = layer(hidden, bias)
        return (hidden,)


class PaddedElectraForPreTraining(PaddedHead):
    """`ElectraForPreTraining`."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__("electra", PaddedElectra(config))
        width = config.hidden_size
        layers = {"dense": nn.Linear(width, width), "dense_prediction": nn.Linear(width, 1)}
        self.discriminator_predictions = nn.ModuleDict(layers)
        self.activation = ACTIVATIONS[config.hidden_act]

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        inner = self.activation(self.discriminator_predictions["dense"](hidden))
        return (self.discriminator_predictions["dense_prediction"](inner).squeeze(-1),)


class PaddedElectraForMaskedLM(PaddedHead):
    """`ElectraForMaskedLM`."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__("electra", PaddedElectra(config))
        width = config.embedding_size
        norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.generator_predictions = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, width), "LayerNorm": norm})
        self.generator_lm_head = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(config.vocab_size))})

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        transformed = gelu(self.generator_predictions["dense"](hidden))
        table = self.get_parameter("electra.embeddings.word_embeddings.weight")
        normed = self.generator_predictions["LayerNorm"](transformed)
        return (functional.linear(normed, table, self.generator_lm_head["bias"]),)


class PaddedElectraForSequenceClassification(PaddedHead):
    """`ElectraForSequenceClassification`."""

    def __init__(self, config: ElectraConfig, num_labels: int) -> None:
        super().__init__("electra", PaddedElectra(config))
        width = config.hidden_size
        layers = {"dense": nn.Linear(width, width), "out_proj": nn.Linear(width, num_labels)}
        self.classifier = nn.ModuleDict(layers)

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        return (self.classifier["out_proj"](gelu(self.classifier["dense"](hidden[:, 0]))),)


class PaddedElectraForMultipleChoice(PaddedHead):
    """`ElectraForMultipleChoice`, each choice in a row."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__("electra", PaddedElectra(config))
        width = config.hidden_size
        self.sequence_summary = nn.ModuleDict({"summary": nn.Linear(width, width)})
        self.classifier = nn.Linear(width, 1)

    def outputs(self, hidden: Tensor, *pooled: Tensor) -> tuple[Tensor, ...]:
        return (self.classifier(gelu(self.sequence_summary["summary"](hidden[:, 0]))),)
