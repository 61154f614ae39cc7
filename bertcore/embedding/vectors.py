"""Texts as tokens, and the states of their tokens as one vector."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from bertcore.finetune.features import Batch, Features, chunks, concatenated, own_tokenizer
from bertcore.finetune.inference import by_length, tokens_at_once
from bertcore.model.encoder import Encoder
from bertcore.progress import Progress


def normalized(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each row by its length; one of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(lengths, np.float32(1e-12))).astype(np.float32, copy=False)


def cutting(tokenizer: Tokenizer, sequence_length: int) -> Tokenizer:
    """A copy that cuts texts to that many tokens. To copy a large vocabulary takes longer than to embed a text."""
    copy = own_tokenizer(tokenizer)
    copy.enable_truncation(sequence_length)
    return copy


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> Features:
    """Each text as a sequence of at most as many tokens as `tokenizer`, see `cutting`, leaves of it; counted are those
    `truncated`."""
    tokens, truncated = list[NDArray[np.int32]](), 0
    for part in chunks(texts):
        for each in tokenizer.encode_batch_fast(part):
            tokens.append(np.asarray(each.ids, dtype=np.int32))
            truncated += bool(each.overflowing)
    lengths = np.asarray([len(each) for each in tokens], dtype=np.int64)
    return Features(
        tokens=concatenated(tokens, np.int32),
        token_types=np.zeros(int(lengths.sum()), dtype=np.int8),
        lengths=lengths,
        targets=None,
        counts={"truncated": truncated},
    )


@torch.inference_mode()
def vectors_of(
    model: Encoder,
    features: Features,
    pooled: Callable[[Batch], Tensor] | None = None,
    progress: str | None = None,
) -> NDArray[np.float32]:
    """(N, H) a vector of each sequence, computed in float32; `model` is for evaluation.

    `pooled`: a batch -> (B, H) its vectors; by default the means of the last states. `progress`: the name that the work
    is shown under, counted in sequences; None shows nothing.
    """
    device, pooled = model.token_embeddings.weight.device, pooled or partial(_means, model)
    vectors = np.empty((len(features), model.config.hidden_size), dtype=np.float32)
    shown = Progress(progress or "", len(features), shown=progress is not None)
    for rows in by_length(features.lengths, tokens_at_once(device)):
        batch = features.batch(rows).to(device)
        vectors[rows] = pooled(batch).cpu().numpy()
        shown.advance(steps=len(rows))
    shown.close()
    return vectors


def _means(model: Encoder, batch: Batch) -> Tensor:
    return batch.layout.mean(model.hidden_states(batch.input_ids, batch.token_type_ids, batch.layout))
