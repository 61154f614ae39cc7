"""The architectures by name, and the section `pretrain.model` of params.yaml that chooses one and its sizes."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bertcore.config import BESIDE, convert, suggest
from bertcore.errors import ConfigError
from bertcore.model.albert import ALBERT
from bertcore.model.architecture import Architecture, Discriminator
from bertcore.model.bert import BERT
from bertcore.model.deberta import DEBERTA
from bertcore.model.distilbert import DISTILBERT
from bertcore.model.electra import ELECTRA
from bertcore.model.encoder import EncoderModule, HeadFamily, Kind
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.modernbert import MODERNBERT
from bertcore.model.roberta import ROBERTA

# `model_type` of config.json, `pretrain.model.architecture` of params.yaml -> all about it.
ARCHITECTURES: dict[str, Architecture] = {
    "albert": ALBERT,
    "bert": BERT,
    "deberta-v2": DEBERTA,
    "distilbert": DISTILBERT,
    "electra": ELECTRA,
    "modernbert": MODERNBERT,
    "roberta": ROBERTA,
}

FROM_ELSEWHERE = ("vocab_size", "pad_token_id")
"""Fields of a config that the tokenizer decides."""


def architecture_of(config: EncoderConfig) -> Architecture:
    """The row of the architecture that `config` describes an encoder of."""
    return ARCHITECTURES[config.model_type]


def kinds_by_class() -> dict[str, Kind]:
    """Hugging Face's class of every architecture and head -> what it gives."""
    return {name: kind for row in ARCHITECTURES.values() for name, kind in row.kinds.items()}


def build_pretraining(config: EncoderConfig) -> EncoderModule:
    """The encoder with its pre-training heads, with initial weights; see `Architecture.pretraining`."""
    return architecture_of(config).pretraining(config)


def discriminator_of(config: EncoderConfig) -> Discriminator:
    """What is known of the encoder's head for replaced tokens, which its architecture must have."""
    row = architecture_of(config).discriminator
    assert row is not None, f"{config.model_type} has no head for replaced tokens"
    return row


def build_discriminator(config: EncoderConfig) -> EncoderModule:
    """The encoder with its head for replaced tokens, with initial weights; see `Discriminator.build`."""
    return discriminator_of(config).build(config)


def build_head(config: EncoderConfig, family: HeadFamily, labels: int = 2) -> EncoderModule:
    """The encoder with a head to be fine-tuned, with initial weights; see `Architecture.heads`."""
    return architecture_of(config).head(family)(config, labels)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """`pretrain.model` in params.yaml: an architecture, a preset, and any field of its config to override.

    In params.yaml the `fields` stand beside the other two keys; null means as in the preset. A `hidden_size` of one's
    own brings the usual `intermediate_size`, and ModernBERT's `initializer_range`, with it unless they are given too.
    """

    architecture: str = "bert"
    """By Hugging Face's names."""
    preset: str | None = None
    """A size of the architecture; None = tiny, or the sizes of the model that the training starts from."""
    fields: dict[str, Any] = field(default_factory=dict, metadata={BESIDE: True})
    """Fields of the architecture's config, in place of the preset's."""

    @classmethod
    def complete(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The section as params.yaml has it, with all that is no key of this class under `fields`."""
        own = {"architecture", "preset"}
        rest = {name: value for name, value in values.items() if name not in own}
        return {name: value for name, value in values.items() if name in own} | {"fields": rest}

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise ValueError(f"architecture: found {self.architecture!r}; {suggest(self.architecture, ARCHITECTURES)}")
        if self.preset is not None and self.preset not in self._row.presets:
            raise ValueError(f"preset: found {self.preset!r}; {suggest(self.preset, self._row.presets)}")
        object.__setattr__(self, "fields", self._converted())

    @property
    def _row(self) -> Architecture:
        return ARCHITECTURES[self.architecture]

    def _converted(self) -> dict[str, Any]:
        hints = typing.get_type_hints(self._row.config)
        known = [each.name for each in dataclasses.fields(self._row.config) if each.name not in FROM_ELSEWHERE]
        for name in self.fields:
            if name not in known:
                raise ValueError(f"{name}: no key of architecture {self.architecture!r}; {suggest(name, known)}")
        try:
            given = {name: value for name, value in self.fields.items() if value is not None}
            return {name: convert(hints[name], value, name) for name, value in given.items()}
        except ConfigError as error:
            raise ValueError(str(error)) from None

    def build(self, vocab_size: int, pad_token_id: int | None = None) -> EncoderConfig:
        """The encoder for a vocabulary of `vocab_size` entries; None = the architecture's usual id of the padding.

        `ValueError` for a combination that cannot be.
        """
        row, given = self._row, self.fields
        if given.get("hidden_size", 0) > 0:
            given = row.config.usual(given["hidden_size"]) | given
        sizes = {**row.presets[self.preset or "tiny"], **given}
        if pad_token_id is not None:
            sizes["pad_token_id"] = pad_token_id
        return row.config(vocab_size=vocab_size, **sizes)

    def adapt(self, published: EncoderConfig) -> EncoderConfig:
        """The encoder of another model, with whatever is given here in place of its values; `ValueError` as above."""
        return dataclasses.replace(published, **self.fields)
