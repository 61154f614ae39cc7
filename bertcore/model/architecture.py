"""What every architecture has: a config, an encoder of layers, models with heads on it, and the row that names them.

A new architecture is a file beside `bert.py`, with its config, layers and heads, and a row in `config.ARCHITECTURES`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self

import torch
from torch import Tensor, nn

from bertcore.config import suggest, within
from bertcore.errors import ArtifactError, ConfigError
from bertcore.model.layers import EncoderLayer, LayerStack
from bertcore.model.layout import Layout, rounded
from bertcore.model.names import Names
from bertcore.model.positions import PLAIN, Positions

Initializer = Literal["truncated_normal", "normal"]
HeadFamily = Literal["sequence_classification", "token_classification", "question_answering", "multiple_choice"]
Kind = (
    Literal["encoder", "pooled_encoder", "pair_pretraining", "order_pretraining", "masked_lm", "replaced_tokens"]
    | HeadFamily
)
"""What a class of Hugging Face gives: hidden states (and a pooled one), logits of both pre-training heads (pairs, or
their order), of the masked tokens or of every token as a replaced one, logits of a fine-tuned head."""


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

    @property
    def kept_inner(self) -> int:
        """Values that one feed-forward block keeps of a token for the backward pass, beside its own input."""
        return 2 * self.intermediate_size


def _divisors_near(total: int, wanted: int) -> str:
    divisors = [number for number in range(1, total + 1) if total % number == 0]
    below = max(number for number in divisors if number <= max(wanted, 1))
    above = min((number for number in divisors if number >= wanted), default=total)
    return f"{below} or {above}" if below != above else f"{below}"


class EncoderModule(nn.Module):
    """An encoder, alone or as one attribute beside a head: what `bertcore.model.huggingface` reads and writes."""

    architecture: ClassVar[str]
    """Hugging Face's name of the class."""
    kind: ClassVar[Kind]
    """What the class gives."""
    prefix: ClassVar[str] = ""
    """The attribute that is the encoder; empty where the module is one itself."""
    token_head: ClassVar[str]
    """The attribute that is the head for masked tokens, called with their states and the table of the vocabulary."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def published(self) -> "EncoderModule":
        """The model as it is saved: itself, unless a parameter is kept in another form while it is trained."""
        return self

    @property
    def base_model(self) -> "Encoder":
        """The encoder."""
        base = getattr(self, self.prefix) if self.prefix else self
        assert isinstance(base, Encoder), f"{type(self).__name__} without an encoder"
        return base

    def num_parameters(self) -> int:
        """Numbers that a training changes, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def token_logits(self, states: Tensor) -> Tensor:
        """(R, H) states of tokens, as the encoder gives them -> (R, V) logits of the vocabulary.

        Of classes with a head for masked tokens: what their own forward does at masked positions.
        """
        logits: Tensor = self.get_submodule(self.token_head)(states, self.base_model.token_embeddings.weight)
        return logits


class Encoder(EncoderModule):
    """Embeddings and a stack of layers, on sequences without padding."""

    kind: ClassVar[Kind] = "encoder"
    embeddings: nn.Module
    """Called with (T,) token, segment and position ids: (T, H)."""
    encoder: LayerStack

    @property
    def layers(self) -> list[EncoderLayer]:
        """From the embeddings up; one that is passed through several times as often."""
        return self.encoder.passes

    @property
    def below_layers(self) -> list[nn.Module]:
        """What stands before the first layer."""
        return [self.embeddings]

    @property
    def token_embeddings(self) -> nn.Embedding:
        """The table of the vocabulary."""
        return self.get_submodule("embeddings.word_embeddings")  # type: ignore[return-value]

    def embedded(self, input_ids: Tensor, token_type_ids: Tensor, position_ids: Tensor) -> Tensor:
        """(T,) ids each -> (T, H): what the first layer is given."""
        states: Tensor = self.embeddings(input_ids, token_type_ids, position_ids)
        return states

    @property
    def segment_embeddings(self) -> nn.Embedding | None:
        """The table of segments, (S, H); None where the encoder tells none apart."""
        table = getattr(self.embeddings, "token_type_embeddings", None)
        return table if isinstance(table, nn.Embedding) and self.config.segments > 1 else None

    def final(self, hidden: Tensor) -> Tensor:
        """What is still done to the states of the last layer; nothing by default."""
        return hidden

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> tuple[Tensor, ...]:
        """As `hidden_states`, and what else its class at Hugging Face gives."""
        return (self.hidden_states(input_ids, token_type_ids, layout),)

    def hidden_states(
        self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout, rows: Tensor | None = None
    ) -> Tensor:
        """(T,) token ids and (T,) segment ids of the B sequences in `layout` -> (T, H); with `rows`, flat positions
        (R,), only their (R, H) states. `ConfigError` if a sequence is longer than the model's positions."""
        positions = self.config.max_sequence_length
        if layout.max_length > positions:
            raise ConfigError(
                f"a sequence of {layout.max_length} tokens is longer than the {positions} positions of the model: "
                f"expected at most {positions}; shorten the sequences or raise max_position_embeddings"
            )
        ids = [input_ids, token_type_ids, layout.position_ids]
        if input_ids.device.type != "cpu" or torch.compiler.is_compiling():
            return self.final(self.encoder(self.embedded(*ids), layout, rows))
        hidden = self.encoder(self.embedded(*map(rounded, ids)), layout, rows)
        return self.final(hidden[: layout.total] if rows is None else hidden)


class PooledEncoder(Encoder):
    """One that makes something of each [CLS], too, with a layer that it calls `pooler`."""

    kind: ClassVar[Kind] = "pooled_encoder"

    def pool(self, first: Tensor) -> Tensor:
        """(B, H) states of the [CLS] tokens -> (B, H) representations of the whole sequences."""
        raise NotImplementedError

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        """As `hidden_states`, and the (B, H) pooled ones."""
        hidden = self.hidden_states(input_ids, token_type_ids, layout)
        return hidden, self.pool(hidden.index_select(0, layout.first_tokens))


def scores(layer: nn.Linear, states: Tensor) -> Tensor:
    """`layer(states)` in float32, whatever type the encoder computes in: the last layer of a fine-tuned head.

    bfloat16 has 8 bits: predicted numbers between 2 and 4 would lie 1/64 apart, and close logits would be equal. The
    layer is so narrow that this costs nothing.
    """
    with torch.autocast(states.device.type, enabled=False):
        return layer(states.to(layer.weight.dtype))


class Head(Protocol):
    """A class of an encoder with a head to be fine-tuned."""

    architecture: str
    kind: Kind

    def __call__(self, config: Any, num_labels: int) -> EncoderModule: ...


@dataclass(frozen=True, kw_only=True)
class Discriminator:
    """The encoder with a head that tells the tokens of a text from those that a generator put there: a smaller masked
    language model of the same architecture, which is trained beside it."""

    build: type[EncoderModule]
    """config -> the model. Called with (T,) token ids, (T,) segment ids and the layout, it gives (T,) logits: that a
    token is not the original one."""
    generator: Callable[[Any, float | None, float | None], Any]
    """config, shares of its width and of its layers (None: the usual ones) -> the generator's config."""
    share: Callable[[Any, Any], None]
    """discriminator, generator -> makes them share embeddings, as the architecture does it; the discriminator computes
    what it did before."""
    shared: tuple[str, ...]
    """The fields of `config` that are the same in both, so that they can share embeddings."""
    flops: Callable[[Any, Tensor], int]
    """config, (B,) lengths of sequences -> floating-point operations of one forward pass, as `Architecture.flops`."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """All that the rest of the package knows of one architecture."""

    config: type[EncoderConfig]
    """Where it is defined outside of the package, its module adds the row to `ARCHITECTURES`, and the padded models to
    `bertcore.export.padded.PADDED`, when it is imported: the gate's fresh process imports it by its name."""
    presets: Mapping[str, Mapping[str, Any]]
    """Published sizes by name, from small to large: fields of `config`."""
    tokenizers: tuple[str, ...] = ()
    """Values of `tokenizer.kind` that it goes with, where its class at Hugging Face cannot read what others give; empty
    where it goes with all."""
    encoder: type[Encoder]
    """config -> the encoder with initial weights."""
    pretraining: type[EncoderModule]
    """config -> the encoder with the heads that it is pre-trained with.

    Called with (T,) token ids, (T,) segment ids, the layout and (M,) flat masked positions, it gives (M, V) logits and,
    where there is a `pair_head`, (B, 2) logits of the pairs. It has `token_logits`.
    """
    discriminator: Discriminator | None = None
    """Where the encoder can be pre-trained by replaced tokens, too."""
    heads: tuple[Head, ...]
    """One of a family: config, number of labels -> the encoder with a head to be fine-tuned.

    Called with (T,) token ids, (T,) segment ids and the layout, it gives logits: (B, labels), (T, labels), (T, 2) of
    start and end, or (B, 1) of a context with one of its choices (1 label).
    """
    also: Mapping[str, Kind] = dataclasses.field(default_factory=dict)
    """Hugging Face's names of further classes that a model can be exported as, which have none here, and what each
    gives."""
    pair_head: tuple[str, ...] = ()
    """Beginnings of the names of parameters that only an objective about pairs trains."""
    optional: tuple[str, ...] = ()
    """Beginnings of the names, in the encoder, that a published model may lack."""
    redundant: tuple[str, ...] = ()
    """Ends of the names of copies and buffers that a published model may have beside its parameters."""
    names: Names
    """Of its parameters, in Hugging Face's files."""
    flops: Callable[[Any, Tensor, int], int]
    """config, (B,) lengths of sequences, number of masked tokens -> floating-point operations of one forward pass
    through the encoder and the head for masked tokens: matrix products over real tokens, of the last layer's states
    those read. What a `pair_head` needs is counted by the objective that runs it."""

    @property
    def prefix(self) -> str:
        """Hugging Face's name, and ours, of the attribute that is the encoder in models with heads."""
        return self.pretraining.prefix

    @property
    def kinds(self) -> dict[str, Kind]:
        """Hugging Face's names of all classes that can be exported, and what each gives."""
        beside = () if self.discriminator is None else (self.discriminator.build,)
        classes: tuple[type[EncoderModule] | Head, ...] = (self.encoder, self.pretraining, *beside, *self.heads)
        return {**{each.architecture: each.kind for each in classes}, **self.also}

    def head(self, family: HeadFamily) -> Head:
        """The class of `heads` for `family`."""
        return next(head for head in self.heads if head.kind == family)


def sizes(layers: int, hidden: int, heads: int, **further: Any) -> dict[str, Any]:
    """The fields of a preset; what is between the layers is four times as wide, unless `further` says otherwise."""
    own = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
    return {**own, "intermediate_size": 4 * hidden, **further}
