"""ModernBERT (Warner et al. 2024) on sequences without padding: its sizes, its encoder, and the encoder with each head.

Normalisation stands before each block, positions turn queries and keys, the feed-forward network is gated, nothing has
a bias, and of the layers each third alone sees the whole sequence, the others a window around each token.
"""

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcore.errors import ArtifactError
from bertcore.model.architecture import (
    Architecture,
    Encoder,
    EncoderConfig,
    EncoderModule,
    read_fields,
    saved_fields,
    scores,
)
from bertcore.model.attention import SelfAttention, selected
from bertcore.model.dropout import dropout
from bertcore.model.initialization import initialize
from bertcore.model.layers import EncoderLayer, LayerStack
from bertcore.model.layout import Layout
from bertcore.model.positions import Positions

Pooling = Literal["cls", "mean"]


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(EncoderConfig):
    """One ModernBERT encoder; a gated block of `intermediate_size` has three matrices instead of two."""

    model_type: ClassVar[str] = "modernbert"
    unsaved: ClassVar[frozenset[str]] = frozenset({"initializer", "scale_residual_outputs"})

    scale_residual_outputs: bool = True
    """Whether the matrices that end a block begin smaller, by the root of twice the number of layers. Not a key of
    config.json."""
    norm_eps: float = 1e-5
    """Added to the variance in layer normalisation."""
    embedding_dropout: float = 0.0
    """Share of activations dropped after the embeddings."""
    mlp_dropout: float = 0.0
    """Share dropped inside of the feed-forward blocks."""
    attention_dropout: float = 0.0
    """Share dropped of attention weights and of attention's output."""
    classifier_dropout: float = 0.0
    """Share dropped before the last layer of a fine-tuned head."""
    classifier_pooling: Pooling = "cls"
    """What stands for a whole text: its [CLS], or the mean of its tokens."""
    global_attn_every_n_layers: int = 3
    """Every how many layers, from the first one on, attention sees the whole sequence."""
    local_attention: int = 128
    """Tokens that the others see: half of them on either side of a token."""
    global_rope_theta: float = 160_000.0
    """Base of the angles by which positions turn, in layers that see the whole sequence."""
    local_rope_theta: float = 10_000.0
    """The same in the others."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("global_attn_every_n_layers", "local_attention"):
            self.at_least_one(name)
        for name in ("embedding_dropout", "mlp_dropout", "attention_dropout", "classifier_dropout"):
            self.probability(name)
        for name in ("norm_eps", "global_rope_theta", "local_rope_theta"):
            self.positive(name)
        self.one_of("classifier_pooling", ("cls", "mean"))
        if self.head_size % 2:
            raise ValueError(
                f"num_attention_heads: found {self.num_attention_heads} of width {self.head_size}, expected an even "
                "width, of which positions turn pairs; change it or hidden_size"
            )

    @classmethod
    def usual_intermediate_size(cls, hidden_size: int) -> int:
        """As many weights as two matrices of four times the width, to a multiple of 64."""
        return max(64, round(hidden_size * 8 / 3 / 64) * 64)

    @property
    def dropouts(self) -> tuple[float, float]:
        return self.mlp_dropout, self.attention_dropout

    def with_dropout(self, hidden: float, attention: float) -> Self:
        return dataclasses.replace(
            self,
            embedding_dropout=hidden,
            mlp_dropout=hidden,
            classifier_dropout=hidden,
            attention_dropout=attention,
        )

    @property
    def pre_norm(self) -> bool:
        return True

    @property
    def kept_inner(self) -> int:
        return 4 * self.intermediate_size  # both halves, the activated one, and the product

    def positions(self, layer: int) -> Positions:
        if layer % self.global_attn_every_n_layers == 0:
            return Positions(theta=self.global_rope_theta)
        return Positions(theta=self.local_rope_theta, reach=self.local_attention // 2)


def _preset(layers: int, hidden: int, heads: int, **further: Any) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": ModernBertConfig.usual_intermediate_size(hidden),
        # sqrt(2 / 5H): 0.02 at 1,024, and more where less is summed (Nguyen and Salazar 2019).
        "initializer_range": round(math.sqrt(2 / (5 * hidden)), 4),
        **further,
    }


# BERT's sizes, with about as many weights; and the published models. But for tiny, which learns more in the same time
# with twice the layers, thinner ones (benchmarks/results/depth.md).
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _preset(4, 128, 2, intermediate_size=192),
    "mini": _preset(4, 256, 4),
    "small": _preset(4, 512, 8),
    "medium": _preset(8, 512, 8),
    "base": _preset(12, 768, 12),
    "large": _preset(24, 1024, 16),
    "modernbert-base": _preset(
        22, 768, 12, intermediate_size=1152, initializer_range=0.02, max_position_embeddings=8192
    ),
    "modernbert-large": _preset(
        28, 1024, 16, intermediate_size=2624, initializer_range=0.02, max_position_embeddings=8192
    ),
}


def _norm(config: ModernBertConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=False)


class ModernBertEmbeddings(nn.Module):
    """(T,) token ids -> (T, H), normalised; segments are ignored, and positions come in attention."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.norm = _norm(config)
        self.dropout_prob = config.embedding_dropout

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> Tensor:
        return dropout(self.norm(self.tok_embeddings(input_ids)), self.dropout_prob, self.training)


class ModernBertLayer(EncoderLayer):
    """Each block reads its input normalised (that of the first layer's attention is so already) and is added to it."""

    fused: ClassVar[Mapping[str, int]] = {"attention.qkv.weight": 3, "intermediate.weight": 2}

    def __init__(self, config: ModernBertConfig, index: int) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.attention_norm = _norm(config) if index else nn.Identity()
        self.attention = SelfAttention(
            width, config.num_attention_heads, config.attention_dropout, bias=False, positions=config.positions(index)
        )
        self.output_norm = _norm(config)
        self.intermediate = nn.Linear(width, 2 * inner, bias=False)
        self.output = nn.Linear(inner, width, bias=False)
        self.dropout_prob, self.attention_dropout_prob = config.mlp_dropout, config.attention_dropout

    def attention_input(self, hidden: Tensor) -> Tensor:
        return self.attention_norm(hidden)

    def forward(self, hidden: Tensor, layout: Layout, rows: Tensor | None = None) -> Tensor:
        attended = self.attention(self.attention_norm(hidden), layout, rows)
        attended = dropout(attended, self.attention_dropout_prob, self.training)
        # In the type of `hidden`, float32 under autocast: sums of mixed types are slow on the CPU.
        hidden = selected(hidden, rows) + attended.to(hidden.dtype)
        activated, gate = self.intermediate(self.output_norm(hidden)).chunk(2, dim=-1)
        inner = dropout(functional.gelu(activated) * gate, self.dropout_prob, self.training)
        return hidden + self.output(inner).to(hidden.dtype)


class ModernBertModel(Encoder):
    """The encoder."""

    architecture = "ModernBertModel"

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__(config)
        self.embeddings = ModernBertEmbeddings(config)
        self.encoder = LayerStack([ModernBertLayer(config, index) for index in range(config.num_hidden_layers)])
        self.final_norm = _norm(config)
        initialize(self, config)
        if config.scale_residual_outputs:
            with torch.no_grad():
                for name, parameter in self.named_parameters():
                    if name.endswith("output.weight"):
                        parameter.mul_(_residual_scale(config))

    @property
    def token_embeddings(self) -> nn.Embedding:
        return self.get_submodule("embeddings.tok_embeddings")  # type: ignore[return-value]

    def final(self, hidden: Tensor) -> Tensor:
        return self.final_norm(hidden)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> tuple[Tensor]:
        """As `hidden_states`."""
        return (self.hidden_states(input_ids, token_type_ids, layout),)


def _residual_scale(config: ModernBertConfig) -> float:
    return (2 * config.num_hidden_layers) ** -0.5


class PredictionHead(nn.Module):
    """(R, H) -> (R, H): what stands between hidden states and the last layer of every head."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.norm = _norm(config)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.norm(functional.gelu(self.dense(hidden)))


class _WithHead(EncoderModule):
    prefix = "model"

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__(config)
        self.model = ModernBertModel(config)
        self.head = PredictionHead(config)
        initialize(self.head, config)


class _Bias(nn.Module):
    """The decoder's own part: its matrix is that of the embeddings."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))


class ModernBertForMaskedLM(_WithHead):
    """The encoder with the head for masked tokens."""

    architecture = "ModernBertForMaskedLM"

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__(config)
        self.decoder = _Bias(config.vocab_size)

    def forward(
        self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout, masked_positions: Tensor
    ) -> tuple[Tensor]:
        """(M,) flat positions -> (M, V) logits there."""
        return (self.token_logits(self.model.hidden_states(input_ids, token_type_ids, layout, masked_positions)),)

    def token_logits(self, states: Tensor) -> Tensor:
        return functional.linear(self.head(states), self.model.token_embeddings.weight, self.decoder.bias)


class _Classifier(_WithHead):
    """The encoder, the head, dropout, and one linear layer."""

    def __init__(self, config: ModernBertConfig, num_labels: int = 2) -> None:
        super().__init__(config)
        self.classifier = nn.Linear(config.hidden_size, num_labels)
        self.dropout_prob = config.classifier_dropout
        initialize(self.classifier, config)

    def states(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        return self.model.hidden_states(input_ids, token_type_ids, layout)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        """-> (B, labels) or (T, labels) logits."""
        states = self.head(self.states(input_ids, token_type_ids, layout))
        return scores(self.classifier, functional.dropout(states, self.dropout_prob, self.training))


class ModernBertForSequenceClassification(_Classifier):
    """One row of logits for each sequence, from its [CLS] or the mean of its tokens."""

    architecture = "ModernBertForSequenceClassification"

    def states(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> Tensor:
        config = self.config
        assert isinstance(config, ModernBertConfig)
        if config.classifier_pooling == "cls":
            return self.model.hidden_states(input_ids, token_type_ids, layout, layout.first_tokens)
        hidden = self.model.hidden_states(input_ids, token_type_ids, layout)
        sequences = layout.padded_index // layout.max_length
        summed = hidden.new_zeros(layout.batch_size, hidden.shape[1]).index_add(0, sequences, hidden)
        return summed / layout.lengths[:, None]


class ModernBertForMultipleChoice(ModernBertForSequenceClassification):
    """One logit for a context with one of its choices."""

    architecture = "ModernBertForMultipleChoice"


class ModernBertForTokenClassification(_Classifier):
    """One row of logits for each token."""

    architecture = "ModernBertForTokenClassification"


class ModernBertForQuestionAnswering(_Classifier):
    """Two logits for each token: the answer begins, the answer ends there."""

    architecture = "ModernBertForQuestionAnswering"


_LAYER_MODULES = {
    "attention_norm": "attn_norm",
    "attention.qkv": "attn.Wqkv",
    "attention.output": "attn.Wo",
    "output_norm": "mlp_norm",
    "intermediate": "mlp.Wi",
    "output": "mlp.Wo",
}
_OURS = re.compile(r"((?:model\.)?)encoder\.layer\.(\d+)\.(.+)\.weight")
_THEIRS = re.compile(r"((?:model\.)?)layers\.(\d+)\.(.+)\.weight")


def _to_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    def theirs(name: str) -> str:
        found = _OURS.fullmatch(name)
        return f"{found[1]}layers.{found[2]}.{_LAYER_MODULES[found[3]]}.weight" if found else name

    return {theirs(name): tensor for name, tensor in state.items()}


def _from_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    modules = {theirs: ours for ours, theirs in _LAYER_MODULES.items()}

    def ours(name: str) -> str:
        found = _THEIRS.fullmatch(name)
        return f"{found[1]}encoder.layer.{found[2]}.{modules.get(found[3], found[3])}.weight" if found else name

    return {ours(name): tensor for name, tensor in state.items()}


# What this implementation takes for granted: key of config.json -> the value it must have, also when absent.
_REQUIRED: dict[str, Any] = {
    "model_type": "modernbert",
    "hidden_activation": "gelu",
    "classifier_activation": "gelu",
    "norm_bias": False,
    "attention_bias": False,
    "mlp_bias": False,
    "classifier_bias": False,
    "decoder_bias": True,
    "tie_word_embeddings": True,
}
# Where Hugging Face's default is another one than ours.
_DEFAULTS = {"vocab_size": 50_368, "intermediate_size": 1152, "num_hidden_layers": 22, "pad_token_id": 50_283}
_DEFAULTS |= {"max_position_embeddings": 8192}
_FULL, _SLIDING = "full_attention", "sliding_attention"


def _read(raw: Mapping[str, Any], path: Path) -> dict[str, Any]:
    saved = {key: value for key, value in raw.items() if key not in ModernBertConfig.unsaved}
    values = _DEFAULTS | read_fields(ModernBertConfig, saved, path, _REQUIRED, "another ModernBERT encoder")
    return values | _rotary(raw, path) | _pattern(raw, path)


def _rotary(raw: Mapping[str, Any], path: Path) -> dict[str, float]:
    """The bases of the angles, where they stand under `rope_parameters`, as transformers 5 writes them."""
    found: dict[str, float] = {}
    parameters = raw.get("rope_parameters") or {}
    for kind, name in ((_FULL, "global_rope_theta"), (_SLIDING, "local_rope_theta")):
        values = parameters.get(kind) or {}
        if values.get("rope_type", "default") != "default":
            raise ArtifactError(
                f"{path}: rope_parameters.{kind}: found rope_type {values['rope_type']!r}, expected 'default'; give "
                "another ModernBERT encoder"
            )
        if "rope_theta" in values:
            found[name] = float(values["rope_theta"])
    return found


def _pattern(raw: Mapping[str, Any], path: Path) -> dict[str, int]:
    """Every how many layers one sees all, where config.json lists the layers, as transformers 5 writes them."""
    kinds = raw.get("layer_types")
    if not kinds:
        return {}
    places = [place for place, kind in enumerate(kinds) if kind == _FULL]
    step = places[1] if len(places) > 1 else max(len(kinds), int(raw.get("global_attn_every_n_layers", 3)))
    if kinds != _layer_types(len(kinds), step):
        raise ArtifactError(
            f"{path}: layer_types: found full attention in the layers {places}, expected the first one and every so "
            "many after it; give another ModernBERT encoder"
        )
    return {"global_attn_every_n_layers": step}


def _layer_types(layers: int, step: int) -> list[str]:
    return [_SLIDING if place % step else _FULL for place in range(layers)]


def _write(config: ModernBertConfig) -> dict[str, Any]:
    # Both forms: the flat keys of transformers 4, and what transformers 5 makes of them.
    lists = {
        "layer_types": _layer_types(config.num_hidden_layers, config.global_attn_every_n_layers),
        "rope_parameters": {
            _FULL: {"rope_type": "default", "rope_theta": config.global_rope_theta},
            _SLIDING: {"rope_type": "default", "rope_theta": config.local_rope_theta},
        },
    }
    # [CLS] and [SEP] stand in the tokenizer; Hugging Face's default ids may lie beyond the vocabulary.
    absent = dict.fromkeys(("bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"))
    return saved_fields(config) | lists | absent | _REQUIRED


def _flops(config: ModernBertConfig, lengths: Tensor, masked: int) -> int:
    width, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    tokens, pairs = int(lengths.sum()), 0
    for index in range(layers):
        reach = config.positions(index).reach
        whole = lengths * lengths
        # Of a window, what it holds: all pairs less the two corners that lie beyond it.
        outside = 0 if reach is None else (lengths - 1 - reach).clamp_min(0)
        pairs += int((whole - outside * (outside + 1)).sum())
    attention = layers * 2 * tokens * 3 * width**2 + 4 * pairs * width
    rest = 2 * ((layers - 1) * tokens + masked) * (width**2 + 3 * width * inner)
    return attention + rest + 2 * masked * width * (width + config.vocab_size)


MODERNBERT = Architecture(
    config=ModernBertConfig,
    prefix="model",
    presets=PRESETS,
    encoder=ModernBertModel,
    pretraining=ModernBertForMaskedLM,
    heads={
        "sequence_classification": ModernBertForSequenceClassification,
        "token_classification": ModernBertForTokenClassification,
        "question_answering": ModernBertForQuestionAnswering,
        "multiple_choice": ModernBertForMultipleChoice,
    },
    kinds={
        "ModernBertModel": "encoder",
        "ModernBertForMaskedLM": "masked_lm",
        "ModernBertForSequenceClassification": "sequence_classification",
        "ModernBertForTokenClassification": "token_classification",
        "ModernBertForQuestionAnswering": "question_answering",
        "ModernBertForMultipleChoice": "multiple_choice",
    },
    redundant=("decoder.weight",),  # of the embeddings
    to_huggingface=_to_huggingface,
    from_huggingface=_from_huggingface,
    read=_read,
    write=_write,
    flops=_flops,
)
