"""The row of an architecture: its config, its encoder, the models with heads on it, and what else is known of it.

A new architecture is a file beside `bert.py`, with its config, layers and heads, and a row in `config.ARCHITECTURES`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from bertcore.model.encoder import Encoder, EncoderModule, HeadFamily, Kind
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.names import Names


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
