"""Vectors of texts from any encoder, with cosines between them, and the files that vectors are kept in."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.apply.compact import Precision, restored
from bertcore.apply.pooling import extract, load_encoder, longest_of
from bertcore.embedding.directory import Reading
from bertcore.embedding.directory import read as read_reading
from bertcore.embedding.vectors import cutting, normalized
from bertcore.errors import ConfigError
from bertcore.files import replace_file
from bertcore.finetune.encoder_tokenizer import tokenizer_for
from bertcore.model.architecture import Encoder

ENDINGS = (".npy", ".parquet")
"""Of files of vectors."""


@dataclass(frozen=True, kw_only=True)
class Embedder:
    """An encoder with its tokenizer, and how its states become one vector; see `pooling.extract`."""

    directory: Path
    model: Encoder
    tokenizer: Tokenizer
    pooling: str = "mean"
    layer: int = -1
    max_length: int | None = None
    dimensions: int | None = None
    """How many of the first numbers of a vector are kept; None = all."""
    normalize: bool = False
    """Whether every vector has the length 1."""

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
        the mean of as many tokens as the model reads. `ConfigError` for more `dimensions` than the model's vectors
        have.
        """
        model = load_encoder(directory)
        tokenizer = tokenizer_for(directory, model.config)
        reading = read_reading(directory) or Reading(pooling="mean", normalize=False, max_length=None)
        width = model.config.hidden_size
        if dimensions is not None and not 1 <= dimensions <= width:
            raise ConfigError(f"dimensions: found {dimensions}, expected 1 to {width}, the width of {directory}")
        longest = reading.max_length if max_length is None else max_length
        return cls(
            directory=directory,
            model=model,
            tokenizer=cutting(tokenizer, longest_of(model, longest)),
            pooling=reading.pooling if pooling is None else pooling,
            layer=layer,
            max_length=longest,
            dimensions=dimensions,
            normalize=reading.normalize,
        )

    def embed(self, texts: Sequence[str], progress: str | None = None) -> tuple[NDArray[np.float32], int]:
        """(texts, H) vectors, or their first `dimensions`, and how many texts were cut to what the model reads."""
        vectors, cut = extract(
            self.model,
            self.tokenizer,
            texts,
            pooling=self.pooling,
            layer=self.layer,
            max_length=self.max_length,
            progress=progress,
        )
        kept = vectors[:, : self.dimensions]
        return normalized(kept) if self.normalize else np.ascontiguousarray(kept), cut

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
