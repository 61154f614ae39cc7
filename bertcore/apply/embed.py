"""Vectors of texts from any encoder, with cosines between them, and the files that vectors are kept in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.apply.compact import Precision, restored
from bertcore.apply.pooling import depth_of, load_encoder, longest_of, pooled
from bertcore.embedding.directory import Reading
from bertcore.embedding.directory import read as read_reading
from bertcore.embedding.vectors import cutting, encode, normalized, vectors_of
from bertcore.errors import ConfigError
from bertcore.files import replace_file
from bertcore.finetune.encoder_tokenizer import tokenizer_for
from bertcore.model.encoder import Encoder

ENDINGS = (".npy", ".parquet")
"""Of files of vectors."""


@dataclass(frozen=True, kw_only=True)
class Embedder:
    """An encoder with its tokenizer, and how its states become one vector; `ConfigError` where the model cannot."""

    directory: Path
    model: Encoder
    tokenizer: Tokenizer
    """Any that fits the model; it is kept as a copy that cuts texts to what is read of them."""
    pooling: str = "mean"
    layer: int = -1
    max_length: int | None = None
    """Tokens that are read of a text; None = as many as the model reads."""
    dimensions: int | None = None
    """How many of the first numbers of a vector are kept; None = all."""
    normalize: bool = False
    """Whether every vector has the length 1."""
    depth: int = field(init=False)
    """The number of layers that the texts pass through."""

    def __post_init__(self) -> None:
        width = self.model.config.hidden_size
        if self.dimensions is not None and not 1 <= self.dimensions <= width:
            raise ConfigError(
                f"dimensions: found {self.dimensions}, expected 1 to {width}, the width of {self.directory}"
            )
        longest = longest_of(self.model, self.max_length)
        object.__setattr__(self, "depth", depth_of(self.model, self.layer, self.pooling))
        object.__setattr__(self, "tokenizer", cutting(self.tokenizer, longest))  # once, and not with every text

    @classmethod
    def load(
        cls,
        directory: Path,
        pooling: str | None = None,
        layer: int = -1,
        max_length: int | None = None,
        dimensions: int | None = None,
    ) -> "Embedder":
        """The encoder of a model directory, whatever head it has.

        What is None is as the directory says it, where it is one of SentenceTransformers (stage embed leaves one), else
        the mean of as many tokens as the model reads.
        """
        model = load_encoder(directory)
        reading = read_reading(directory) or Reading(pooling="mean", normalize=False, max_length=None)
        return cls(
            directory=directory,
            model=model,
            tokenizer=tokenizer_for(directory, model.config),
            pooling=reading.pooling if pooling is None else pooling,
            layer=layer,
            max_length=reading.max_length if max_length is None else max_length,
            dimensions=dimensions,
            normalize=reading.normalize,
        )

    def embed(self, texts: Sequence[str], progress: str | None = None) -> tuple[NDArray[np.float32], int]:
        """(texts, H) vectors, or their first `dimensions`, computed in float32, and how many texts were cut to what the
        model reads. `progress`: the name that the work is shown under, counted in texts; None shows nothing."""
        features = encode(self.tokenizer, texts)
        pool = partial(pooled, self.model, pooling=self.pooling, depth=self.depth)
        kept = vectors_of(self.model, features, pool, progress)[:, : self.dimensions]
        vectors = normalized(kept) if self.normalize else np.ascontiguousarray(kept)
        return vectors, features.counts["truncated"]

    def unit(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(texts, H) vectors of length 1, whose products are cosines."""
        return normalized(self.embed(texts)[0])


def nearest(
    queries: NDArray[np.float32], vectors: NDArray[Any], top: int, precision: Precision = "float32"
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """(Q, top) rows of `vectors` and their cosines, the largest first, of equals the first; both given with length 1,
    `vectors` as `compact` leaves them.

    Every row is compared, a block of them at a time.
    """
    rows = np.empty((len(queries), 0), dtype=np.int64)
    cosines = np.empty((len(queries), 0), dtype=np.float32)
    size = max(1, _NUMBERS_AT_ONCE // max(queries.shape))
    for start in range(0, len(vectors), size):
        block = restored(vectors[start : start + size], precision, queries.shape[1])
        products = np.concatenate([cosines, queries @ block.T], axis=1)
        places = np.broadcast_to(np.arange(start, start + len(block)), (len(queries), len(block)))
        order = np.argsort(-products, axis=1, kind="stable")[:, :top]
        rows = np.take_along_axis(np.concatenate([rows, places], axis=1), order, axis=1)
        cosines = np.take_along_axis(products, order, axis=1)
    return rows, cosines


_NUMBERS_AT_ONCE = 2**24
"""Cosines of a block of rows, or numbers of its rows."""


def write_vectors(path: Path, texts: Sequence[str], vectors: NDArray[Any]) -> None:
    """Into .npy, an array (texts, …), or .parquet with the columns `text` and `vector`; nothing half-written is
    left."""
    with replace_file(path) as beside:
        if path.suffix == ".npy":
            with beside.open("wb") as file:
                np.save(file, vectors)
        else:
            flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
            pq.write_table(pa.table({"text": pa.array(texts, pa.string()), "vector": flat}), beside, compression="zstd")
