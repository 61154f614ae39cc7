"""The shape of a ModernBERT encoder: its fields, its sizes, and how Hugging Face's config.json says them."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from bertcore.errors import ArtifactError
from bertcore.model.architecture import sizes
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.positions import Positions

Pooling = Literal["cls", "mean"]


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(EncoderConfig):
    """One ModernBERT encoder; a gated block of `intermediate_size` has three matrices instead of two."""

    model_type: ClassVar[str] = "modernbert"
    unsaved: ClassVar[frozenset[str]] = frozenset({"initializer", "scale_residual_outputs"})
    required: ClassVar[Mapping[str, Any]] = {
        "hidden_activation": "gelu",
        "classifier_activation": "gelu",
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "classifier_bias": False,
        "decoder_bias": True,
        "tie_word_embeddings": True,
    }
    defaults: ClassVar[Mapping[str, Any]] = {
        "vocab_size": 50_368,
        "intermediate_size": 1152,
        "num_hidden_layers": 22,
        "pad_token_id": 50_283,
        "max_position_embeddings": 8192,
    }
    # [CLS] and [SEP] stand in the tokenizer; Hugging Face's default ids may lie beyond the vocabulary.
    further: ClassVar[Mapping[str, Any]] = dict.fromkeys(
        ("bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id")
    )
    remedy: ClassVar[str] = "another ModernBERT encoder"

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
    def read(cls, raw: Mapping[str, Any], path: Path) -> dict[str, Any]:
        saved = {key: value for key, value in raw.items() if key not in cls.unsaved}
        return super().read(saved, path) | _rotary(raw, path) | _pattern(raw, path)

    def write(self) -> dict[str, Any]:
        # Both forms: the flat keys of transformers 4, and what transformers 5 makes of them.
        return super().write() | {
            "layer_types": _layer_types(self.num_hidden_layers, self.global_attn_every_n_layers),
            "rope_parameters": {
                _FULL: {"rope_type": "default", "rope_theta": self.global_rope_theta},
                _SLIDING: {"rope_type": "default", "rope_theta": self.local_rope_theta},
            },
        }

    @classmethod
    def usual(cls, hidden_size: int) -> dict[str, Any]:
        return {
            # As many weights as two matrices of four times the width, to a multiple of 64.
            "intermediate_size": max(64, round(hidden_size * 8 / 3 / 64) * 64),
            # sqrt(2 / 5H): 0.02 at 1,024, and more where less is summed (Nguyen and Salazar 2019).
            "initializer_range": round(math.sqrt(2 / (5 * hidden_size)), 4),
        }

    @property
    def dropouts(self) -> tuple[float, float]:
        return self.mlp_dropout, self.attention_dropout

    @property
    def head_dropout(self) -> float:
        return self.classifier_dropout

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
    return sizes(layers, hidden, heads, **{**ModernBertConfig.usual(hidden), **further})


# BERT's sizes, with about as many weights; and the published models. But for tiny, which learns more in the same time
# with twice the layers, thinner ones (benchmarks/results/depth.md). It also learns faster where the layers
# between see eight tokens on either side only (recipes-default.md there). Mini does so, too, and answers questions and
# tells pairs apart the worse for it after an hour (tasks.md there); larger ones were not measured.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _preset(4, 128, 2, intermediate_size=192, local_attention=16),
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


_FULL, _SLIDING = "full_attention", "sliding_attention"


def _rotary(raw: Mapping[str, Any], path: Path) -> dict[str, float]:
    """The bases of the angles, where they stand under `rope_parameters`, as transformers 5 writes them."""
    found: dict[str, float] = {}
    parameters = _given(raw, "rope_parameters", dict, path) or {}
    for kind, name in ((_FULL, "global_rope_theta"), (_SLIDING, "local_rope_theta")):
        values = _given(parameters, kind, dict, path) or {}
        if values.get("rope_type", "default") != "default":
            raise ArtifactError(
                f"{path}: rope_parameters.{kind}: found rope_type {values['rope_type']!r}, expected 'default'; give "
                "another ModernBERT encoder"
            )
        if "rope_theta" in values:
            found[name] = float(values["rope_theta"])
    return found


def _given(raw: Mapping[str, Any], key: str, kind: type, path: Path) -> Any:
    """What stands there; `ArtifactError` for another type than `kind`."""
    if (found := raw.get(key)) is not None and not isinstance(found, kind):
        raise ArtifactError(
            f"{path}: {key}: found {found!r}, expected a {kind.__name__}; give another ModernBERT encoder"
        )
    return found


def _pattern(raw: Mapping[str, Any], path: Path) -> dict[str, int]:
    """Every how many layers one sees all, where config.json lists the layers, as transformers 5 writes them."""
    kinds = _given(raw, "layer_types", list, path)
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
