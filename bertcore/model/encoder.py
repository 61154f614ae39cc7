"""What every encoder, alone or with a head, is: a module with a config, which computes the states of tokens."""

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from bertcore.errors import ConfigError
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.layers import EncoderLayer, LayerStack
from bertcore.model.layout import Layout, rounded

HeadFamily = Literal["sequence_classification", "token_classification", "question_answering", "multiple_choice"]
Kind = (
    Literal["encoder", "pooled_encoder", "pair_pretraining", "order_pretraining", "masked_lm", "replaced_tokens"]
    | HeadFamily
)
"""What a class of Hugging Face gives: hidden states (and a pooled one), logits of both pre-training heads (pairs, or
their order), of the masked tokens or of every token as a replaced one, logits of a fine-tuned head."""


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
