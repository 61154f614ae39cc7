"""ELECTRA as Hugging Face's classes have it: their names of parameters, and (B, L) arrays with an attention mask.

Written apart from `bertcore.model`, as `padded_bert` is for BERT, whose layers it has.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.export.fusible import ACTIVATIONS, bias_of, gelu
from bertcore.export.padded_bert import Layer, embedded, embeddings_of
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


class PaddedElectraForPreTraining(nn.Module):
    """`ElectraForPreTraining`."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.electra = PaddedElectra(config)
        layers = {"dense": nn.Linear(width, width), "dense_prediction": nn.Linear(width, 1)}
        self.discriminator_predictions = nn.ModuleDict(layers)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:
        (hidden,) = self.electra(input_ids, attention_mask, token_type_ids)
        inner = self.activation(self.discriminator_predictions["dense"](hidden))
        return (self.discriminator_predictions["dense_prediction"](inner).squeeze(-1),)


class PaddedElectraForMaskedLM(nn.Module):
    """`ElectraForMaskedLM`."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        width = config.embedding_size
        self.electra = PaddedElectra(config)
        norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.generator_predictions = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, width), "LayerNorm": norm})
        self.generator_lm_head = nn.ParameterDict({"bias": nn.Parameter(torch.zeros(config.vocab_size))})

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:
        (hidden,) = self.electra(input_ids, attention_mask, token_type_ids)
        transformed = gelu(self.generator_predictions["dense"](hidden))
        table = self.electra.get_parameter("embeddings.word_embeddings.weight")
        normed = self.generator_predictions["LayerNorm"](transformed)
        return (functional.linear(normed, table, self.generator_lm_head["bias"]),)


class PaddedElectraForSequenceClassification(nn.Module):
    """`ElectraForSequenceClassification`."""

    def __init__(self, config: ElectraConfig, num_labels: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.electra = PaddedElectra(config)
        layers = {"dense": nn.Linear(width, width), "out_proj": nn.Linear(width, num_labels)}
        self.classifier = nn.ModuleDict(layers)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:
        (hidden,) = self.electra(input_ids, attention_mask, token_type_ids)
        return (self.classifier["out_proj"](gelu(self.classifier["dense"](hidden[:, 0]))),)


class PaddedElectraForMultipleChoice(nn.Module):
    """`ElectraForMultipleChoice`, each choice in a row."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.electra = PaddedElectra(config)
        self.sequence_summary = nn.ModuleDict({"summary": nn.Linear(width, width)})
        self.classifier = nn.Linear(width, 1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:
        (hidden,) = self.electra(input_ids, attention_mask, token_type_ids)
        return (self.classifier(gelu(self.sequence_summary["summary"](hidden[:, 0]))),)
