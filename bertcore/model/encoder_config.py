"""The config that every architecture's is made from: the shape of an encoder, by Hugging Face's names."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from bertcore.config import suggest, within
from bertcore.errors import ArtifactError
from bertcore.model.positions import PLAIN, Positions

Initializer = Literal["truncated_normal", "normal"]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The shape of an encoder, as far as all architectures share it, in the field names of Hugging Face's config.json.

    `ValueError` for a combination that cannot be.
    """

    model_type: ClassVar[str]
    """Hugging Face's name of the architecture, its key in `ARCHITECTURES`."""
    unsaved: ClassVar[frozenset[str]] = frozenset({"initializer"})
    """Fields that are no keys of config.json."""
    keys: ClassVar[Mapping[str, str]] = {}
    """Field -> its key in config.json, where they differ."""
    required: ClassVar[Mapping[str, Any]] = {}
    """What is taken for granted here: key of config.json -> the value that it must have, also where it is absent."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Where Hugging Face's default is another one than ours."""
    further: ClassVar[Mapping[str, Any]] = {}
    """What else is written, for other readers."""
    remedy: ClassVar[str]
    """What to give in place of an encoder that is not supported."""

    vocab_size: int = 30_522
    """Entries of the vocabulary, special tokens included."""
    hidden_size: int = 768
    """Width of a token's representation."""
    num_hidden_layers: int = 12
    """Encoder layers."""
    num_attention_heads: int = 12
    """Heads per layer; must divide `hidden_size`."""
    intermediate_size: int = 3072
    """Width inside the feed-forward block."""
    max_position_embeddings: int = 512
    """Longest sequence, in tokens."""
    initializer_range: float = 0.02
    """Standard deviation of the initial weights."""
    initializer: Initializer = "truncated_normal"
    """`truncated_normal` (cut at two standard deviations, as the original) or `normal`. Not a key of config.json."""
    pad_token_id: int = 0
    """Id of [PAD]; never in the input of this implementation, kept for those who read the saved model."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"):
            self.at_least_one(name)
        self.at_least_one("max_position_embeddings")
        self.positive("initializer_range")
        self.one_of("initializer", ("truncated_normal", "normal"))
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads: found {self.num_attention_heads}, expected a divisor of hidden_size "
                f"({self.hidden_size}); {_divisors_near(self.hidden_size, self.num_attention_heads)} would do"
            )
        within(
            self,
            "pad_token_id",
            f"an id below vocab_size ({self.vocab_size}); use the id of [PAD] in the vocabulary",
            least=0,
            below=self.vocab_size,
        )

    def at_least_one(self, name: str) -> None:
        """`ValueError` unless the field is a number from 1 on."""
        within(self, name, "at least 1; correct the value", least=1)

    def positive(self, name: str) -> None:
        """`ValueError` unless the field is above 0."""
        within(self, name, "more than 0; correct the value", above=0.0)

    def probability(self, name: str) -> None:
        """`ValueError` unless the field can be a share of values dropped."""
        within(self, name, "0 <= p < 1; 0 turns dropout off", least=0.0, below=1.0)

    def one_of(self, name: str, choices: tuple[str, ...]) -> None:
        """`ValueError` unless the field is one of `choices`."""
        if getattr(self, name) not in choices:
            raise ValueError(f"{name}: found {getattr(self, name)!r}; {suggest(str(getattr(self, name)), choices)}")

    @classmethod
    def read(cls, raw: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """The fields that stand in `raw`, the content of the config.json at `path`, where null counts as absent;
        `ArtifactError` for a kind that is not supported."""
        cls.check_required(raw, {"model_type": cls.model_type, **cls.required}, path)
        names = {field.name: cls.keys.get(field.name, field.name) for field in dataclasses.fields(cls)}
        return {**cls.defaults, **{name: raw[key] for name, key in names.items() if raw.get(key) is not None}}

    @classmethod
    def check_required(cls, raw: Mapping[str, Any], required: Mapping[str, Any], path: Path) -> None:
        """`ArtifactError` for another value than the one that is `required`."""
        for key, expected in required.items():
            if raw.get(key, expected) != expected:
                raise ArtifactError(f"{path}: {key}: found {raw[key]!r}, expected {expected!r}; give {cls.remedy}")

    def write(self) -> dict[str, Any]:
        """The content of config.json."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if name not in self.unsaved}
        named = {self.keys.get(name, name): value for name, value in values.items()}
        return {**named, **self.further, "model_type": self.model_type, **self.required}

    @classmethod
    def usual(cls, hidden_size: int) -> dict[str, Any]:
        """What a `hidden_size` of one's own brings with it, by field."""
        return {"intermediate_size": 4 * hidden_size}

    @property
    def max_sequence_length(self) -> int:
        """Longest sequence, in tokens."""
        return self.max_position_embeddings

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    def positions(self, layer: int) -> Positions:  # noqa: ARG002 (alike in all of them, unless a subclass says more)
        """How attention sees positions in this layer, counted from 0."""
        return PLAIN

    @property
    def scores_distances(self) -> bool:
        """Whether attention has scores of distances, too, for which it keeps the weights of all pairs of tokens."""
        return False

    @property
    def segments(self) -> int:
        """How many ids of segments the encoder tells apart; 0 where it has none, and [SEP] alone parts two texts."""
        return 0

    @property
    def pre_norm(self) -> bool:
        """Whether a layer normalises what it reads, and not the sum that it gives on."""
        return False

    @property
    def dropouts(self) -> tuple[float, float]:
        """Shares dropped of activations, and of attention weights."""
        return 0.0, 0.0

    @property
    def head_dropout(self) -> float:
        """Share dropped of what the last layer of a fine-tuned head reads."""
        return self.dropouts[0]

    @property
    def free(self) -> set[str]:
        """Fields that may differ between a checkpoint and the model that reads it: they change no tensor's meaning."""
        names = {field.name for field in dataclasses.fields(self)}
        return {"initializer_range", "pad_token_id", *self.unsaved, *(name for name in names if "dropout" in name)}

    def with_dropout(self, hidden: float, attention: float) -> Self:
        """The same encoder with other `dropouts`."""
        raise NotImplementedError

    def with_padding(self, pad_token_id: int, where: str) -> Self:  # noqa: ARG002 (of those that cannot)
        """The same encoder for a tokenizer whose [PAD] has that id; `ArtifactError`, which calls it `where`, if what it
        computes hangs on another id."""
        return dataclasses.replace(self, pad_token_id=pad_token_id)

    @property
    def kept_inner(self) -> int:
        """Values that one feed-forward block keeps of a token for the backward pass, beside its own input."""
        return 2 * self.intermediate_size


def _divisors_near(total: int, wanted: int) -> str:
    divisors = [number for number in range(1, total + 1) if total % number == 0]
    below = max(number for number in divisors if number <= max(wanted, 1))
    above = min((number for number in divisors if number >= wanted), default=total)
    return f"{below} or {above}" if below != above else f"{below}"
