"""An architecture from outside of the package: layers without a feed-forward network, all in one file."""

import dataclasses
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.export.padded import PADDED
from bertcore.model.architecture import Architecture
from bertcore.model.attention import SelfAttention, selected
from bertcore.model.config import ARCHITECTURES
from bertcore.model.encoder import Encoder, EncoderModule, scores
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.initialization import initialize
from bertcore.model.layers import EncoderLayer, LayerStack
from bertcore.model.layout import Layout
from bertcore.model.names import Names


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToyConfig(EncoderConfig):
    """A toy."""

    model_type: ClassVar[str] = "toy"

    def with_dropout(self, hidden: float, attention: float) -> Self:
        return self


class ToyLayer(EncoderLayer):
    fused = {"attention.qkv.weight": 3}  # noqa: RUF012 - a constant

    def __init__(self, config: ToyConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.hidden_size, config.num_attention_heads, 0.0)

    def forward(self, hidden: Tensor, layout: Layout, rows: Tensor | None = None) -> Tensor:
        return selected(hidden, rows) + self.attention(hidden, layout, rows)


class ToyEmbeddings(nn.Embedding):
    def forward(self, input_ids: Tensor, *others: Tensor) -> Tensor:
        return super().forward(input_ids)


class ToyModel(Encoder):
    architecture = "ToyModel"

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self.embeddings = ToyEmbeddings(config.vocab_size, config.hidden_size)
        self.encoder = LayerStack([ToyLayer(config) for _ in range(config.num_hidden_layers)])
        initialize(self, config)

    @property
    def token_embeddings(self) -> nn.Embedding:
        return self.get_submodule("embeddings")  # type: ignore[return-value]


class ToyForMaskedLM(EncoderModule):
    architecture, prefix = "ToyForMaskedLM", "toy"
    kind = "masked_lm"

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(config)
        self.toy = ToyModel(config)

    def forward(self, ids: Tensor, types: Tensor, layout: Layout, masked: Tensor) -> tuple[Tensor]:
        hidden = self.toy.hidden_states(ids, types, layout, masked)
        return (functional.linear(hidden, self.toy.token_embeddings.weight),)


class ToyForSequenceClassification(EncoderModule):
    architecture, prefix = "ToyForSequenceClassification", "toy"
    kind = "sequence_classification"

    def __init__(self, config: ToyConfig, labels: int) -> None:
        super().__init__(config)
        self.toy = ToyModel(config)
        self.classifier = nn.Linear(config.hidden_size, labels)

    def forward(self, ids: Tensor, types: Tensor, layout: Layout) -> Tensor:
        return scores(self.classifier, self.toy.hidden_states(ids, types, layout, layout.first_tokens))


class PaddedToy(nn.Module):
    """The same once more for the gate, on (B, L) arrays; without `labels` for masked tokens."""

    def __init__(self, config: ToyConfig, labels: int) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        self.toy = nn.Module()
        self.toy.embeddings = nn.Embedding(config.vocab_size, width)
        self.toy.encoder = nn.Module()
        self.toy.encoder.layer = nn.ModuleList(
            nn.ModuleDict(
                {"attention": nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "output": nn.Linear(width, width)})}
            )
            for _ in range(config.num_hidden_layers)
        )
        self.classifier = nn.Linear(width, labels) if labels else None

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> tuple[Tensor]:
        hidden = self.toy.embeddings(ids)
        for layer in self.toy.encoder.layer:
            query, key, value = layer["attention"]["qkv"](hidden).unflatten(-1, (3, self.heads, -1)).unbind(2)
            alike = torch.einsum("bqad,bkad->baqk", query, key) / query.shape[-1] ** 0.5
            weights = alike.masked_fill(mask[:, None, None] == 0, -torch.inf).softmax(-1)
            hidden = hidden + layer["attention"]["output"](torch.einsum("baqk,bkad->bqad", weights, value).flatten(2))
        if self.classifier is not None:
            return (self.classifier(hidden[:, 0]),)
        return (functional.linear(hidden, self.toy.embeddings.weight),)


TOY = Architecture(
    config=ToyConfig,
    presets={
        "tiny": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64}
    },
    encoder=ToyModel,
    pretraining=ToyForMaskedLM,
    heads=(ToyForSequenceClassification,),
    names=Names(modules={}),
    flops=lambda config, lengths, masked: int(lengths.sum()) * config.hidden_size**2,
)

ARCHITECTURES["toy"] = TOY
PADDED |= dict.fromkeys(TOY.kinds, PaddedToy)
