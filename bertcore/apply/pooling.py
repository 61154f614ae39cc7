"""One vector for each text from the states of an encoder's layer."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from bertcore.errors import ConfigError
from bertcore.finetune.features import Batch
from bertcore.model.config import architecture_of
from bertcore.model.encoder import Encoder
from bertcore.model.huggingface import checked_config, load_pretrained
from bertcore.model.layers import EncoderLayer
from bertcore.model.layout import Layout
from bertcore.precision import device

_SHORTEST = 3
"""[CLS], one token of the text, [SEP]."""


def load_encoder(directory: Path) -> Encoder:
    """The encoder of a Hugging Face directory, for evaluation, on the GPU where there is one."""
    config = checked_config(directory)
    model = architecture_of(config).encoder(config)
    load_pretrained(model, directory)
    return model.to(device()).eval()


def longest_of(model: Encoder, max_length: int | None) -> int:
    """Tokens that are read of a text: `max_length`, or as many as the model reads; `ConfigError` where that leaves
    nothing of it."""
    if max_length is not None and max_length < _SHORTEST:
        raise ConfigError(f"max_length: found {max_length}, expected at least {_SHORTEST}: [CLS], a token and [SEP]")
    positions = model.config.max_sequence_length
    return min(max_length or positions, positions)


def depth_of(model: Encoder, layer: int, pooling: str) -> int:
    """The number of layers that the texts pass through; `ConfigError` for a layer that the model has not, or without
    attention for the pooling `attention`."""
    layers = model.config.num_hidden_layers
    depth = layer if layer >= 0 else layers + 1 + layer
    if not 0 <= depth <= layers:
        raise ConfigError(f"layer: found {layer}, expected 0 (embeddings) to {layers}, or -1 to {-layers - 1}")
    if depth == 0 and pooling == "attention":
        raise ConfigError(f"layer: found {layer}, the embeddings, with pooling attention; expected a layer from 1 on")
    if pooling not in POOLINGS:
        raise ConfigError(f"pooling: found {pooling!r}, expected one of: {', '.join(POOLINGS)}")
    return depth


@dataclass(frozen=True)
class _States:
    """What a pooling may look at, of B sequences and T tokens."""

    hidden: Tensor
    """(T, H) states to be pooled."""
    before: Tensor
    """(T, H) what the layer was given that gave them."""
    layer: EncoderLayer | None
    """That layer; None for the embeddings."""
    layout: Layout


def pooled(model: Encoder, batch: Batch, pooling: str, depth: int) -> Tensor:
    """(B, H) vectors of a batch, from what the layer at `depth` gives."""
    return POOLINGS[pooling](_states(model, batch.input_ids, batch.layout, depth))


def _states(model: Encoder, ids: Tensor, layout: Layout, depth: int) -> _States:
    before = hidden = model.embedded(ids, torch.zeros_like(ids), layout.position_ids)
    layers = model.layers
    for layer in layers[:depth]:
        before, hidden = hidden, layer(hidden, layout)
    if depth == len(layers):
        hidden = model.final(hidden)
    return _States(hidden, before, layers[depth - 1] if depth else None, layout)


def _cls(states: _States) -> Tensor:
    return states.hidden.index_select(0, states.layout.first_tokens)


def _mean(states: _States) -> Tensor:
    return states.layout.mean(states.hidden)


def _max(states: _States) -> Tensor:
    index = states.layout.sequences[:, None].expand_as(states.hidden)
    lowest = states.hidden.new_full((states.layout.batch_size, states.hidden.shape[1]), -torch.inf)
    return lowest.scatter_reduce(0, index, states.hidden, "amax")


def _attention(states: _States) -> Tensor:
    assert states.layer is not None, "embeddings have no attention"
    layout = states.layout
    scores = states.layer.attention.scores_of_first(states.layer.attention_input(states.before), layout)  # (T, A)
    weights = layout.padded(scores, -torch.inf).softmax(1).mean(-1)  # (B, L)
    return states.layout.summed(states.hidden * weights.flatten()[layout.padded_index, None])


POOLINGS: dict[str, Callable[[_States], Tensor]] = {
    "cls": _cls,
    "mean": _mean,
    "max": _max,
    "attention": _attention,
}
