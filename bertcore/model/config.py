"""The shape of a BERT encoder: the sizes that have names, and the section `pretrain.model` of params.yaml."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, get_args

from bertcore.config import suggest

Activation = Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"]
Initializer = Literal["truncated_normal", "normal"]


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """One encoder, in the field names of Hugging Face's config.json. `ValueError` for a combination that cannot be."""

    vocab_size: int = 30_522
    """Entries of the vocabulary, special tokens included."""
    hidden_size: int = 768
    """Width of a token's representation."""
    num_hidden_layers: int = 12
    """Encoder layers."""
    num_attention_heads: int = 12
    """Heads per layer; must divide `hidden_size`."""
    intermediate_size: int = 3072
    """Width inside the feed-forward block, usually four times `hidden_size`."""
    hidden_act: Activation = "gelu"
    """`gelu` is the erf form, `gelu_new` (= `gelu_pytorch_tanh`) the tanh form of the original BERT code."""
    hidden_dropout_prob: float = 0.1
    """Share of activations dropped after the embeddings and after each block's output."""
    attention_probs_dropout_prob: float = 0.1
    """Share of attention weights dropped. Above zero it rules out the fused attention kernels."""
    max_position_embeddings: int = 512
    """Longest sequence, in tokens."""
    type_vocab_size: int = 2
    """Segments (sentence A, sentence B)."""
    initializer_range: float = 0.02
    """Standard deviation of the initial weights."""
    initializer: Initializer = "truncated_normal"
    """`truncated_normal` (cut at two standard deviations, as the original) or `normal`. Not a key of config.json."""
    layer_norm_eps: float = 1e-12
    """Added to the variance in layer normalisation."""
    pad_token_id: int = 0
    """Id of [PAD]; never in the input of this implementation, kept for those who read the saved model."""

    def __post_init__(self) -> None:
        for name in _SIZES:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 1; correct the value")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected 0 <= p < 1; 0 turns dropout off")
        for name in ("initializer_range", "layer_norm_eps"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected more than 0; correct the value")
        for name, choices in (("hidden_act", get_args(Activation)), ("initializer", get_args(Initializer))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name}: found {getattr(self, name)!r}; {suggest(str(getattr(self, name)), choices)}")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads: found {self.num_attention_heads}, expected a divisor of hidden_size "
                f"({self.hidden_size}); {_divisors_near(self.hidden_size, self.num_attention_heads)} would do"
            )
        if not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"pad_token_id: found {self.pad_token_id}, expected an id below vocab_size ({self.vocab_size})"
                "; use the id of [PAD] in the vocabulary"
            )

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads


_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)


def _divisors_near(total: int, wanted: int) -> str:
    divisors = [number for number in range(1, total + 1) if total % number == 0]
    below = max(number for number in divisors if number <= max(wanted, 1))
    above = min((number for number in divisors if number >= wanted), default=total)
    return f"{below} or {above}" if below != above else f"{below}"


# Sizes of the published models (Devlin et al. 2018 section 3; Turc et al. 2019 for the small ones).
PRESETS: dict[str, dict[str, int]] = {
    name: {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
    }
    for name, layers, hidden, heads in (
        ("tiny", 2, 128, 2),
        ("mini", 4, 256, 4),
        ("small", 4, 512, 8),
        ("medium", 8, 512, 8),
        ("base", 12, 768, 12),
        ("large", 24, 1024, 16),
    )
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """`pretrain.model` in params.yaml: a preset, and any field of `BertConfig` to override (None = as in the preset).

    A `hidden_size` of one's own brings `intermediate_size` = 4 * hidden_size with it unless that is given too.
    """

    preset: str | None = None
    """A key of `PRESETS`; None = tiny, or the sizes of the model that the training starts from."""
    hidden_size: int | None = None
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    intermediate_size: int | None = None
    hidden_act: Activation | None = None
    hidden_dropout_prob: float | None = None
    attention_probs_dropout_prob: float | None = None
    max_position_embeddings: int | None = None
    type_vocab_size: int | None = None
    initializer_range: float | None = None
    initializer: Initializer | None = None
    layer_norm_eps: float | None = None

    def __post_init__(self) -> None:
        if self.preset is not None and self.preset not in PRESETS:
            raise ValueError(f"preset: found {self.preset!r}; {suggest(self.preset, PRESETS)}")
        self.build(BertConfig.vocab_size)  # an impossible combination is an error of the params, before any work

    def build(self, vocab_size: int, pad_token_id: int = 0) -> BertConfig:
        """The encoder for a vocabulary of `vocab_size` entries."""
        given = self._given()
        if "hidden_size" in given:
            given = {"intermediate_size": 4 * given["hidden_size"]} | given
        sizes: dict[str, Any] = PRESETS[self.preset or "tiny"] | given
        return BertConfig(vocab_size=vocab_size, pad_token_id=pad_token_id, **sizes)

    def adapt(self, published: BertConfig) -> BertConfig:
        """The encoder of another model, with whatever is given here in place of its values."""
        return dataclasses.replace(published, **self._given())

    def _given(self) -> dict[str, Any]:
        return {
            name: value for name, value in dataclasses.asdict(self).items() if name != "preset" and value is not None
        }
