"""Token shards: a few large Arrow files that are memory-mapped, with sentence and document boundaries, and a manifest.

One shard set serves every objective and length: tokens are stored once, without special tokens. Word boundaries need no
storage: `Vocabulary.continues` tells which ids continue a word.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertcore.errors import ArtifactError
from bertcore.files import checksum, write_json

MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class ShardsConfig:
    """Section `shards` of params.yaml."""

    shard_bytes: int = 16_000_000
    """Text of a shard, in bytes: it ends with the block of the corpus (some 4 million characters) that reaches them."""

    def __post_init__(self) -> None:
        if not 1 <= self.shard_bytes <= 2**30:  # a token has at least one byte, and tokens are counted in 31 bits
            raise ValueError(f"shard_bytes: found {self.shard_bytes}, expected between 1 and {2**30} bytes")


def write_batch(path: Path, batch: pa.RecordBatch) -> None:
    """Write an Arrow file of one record batch, which `read_batch` maps."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def read_batch(path: Path, stage: str) -> pa.RecordBatch:
    """Map the record batch of an Arrow file that `stage` wrote; `ArtifactError` where it is missing or damaged."""
    try:
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).get_batch(0)
    except (OSError, pa.ArrowInvalid) as error:
        raise ArtifactError(
            f"{path}: cannot be read ({error}), expected the output of {stage}; run `dvc repro {stage}`"
        ) from None


@dataclass(frozen=True)
class TokenShard:
    """The documents of one shard: flat arrays, mapped from the file without a copy."""

    tokens: NDArray[Any]
    """(T,) ids of all sentences, one after the other."""
    sentence_offsets: NDArray[np.int32]
    """(S + 1,) where each sentence begins in `tokens`."""
    document_offsets: NDArray[np.int32]
    """(D + 1,) where each document begins in the sentences."""
    without_tokens: int = 0
    """Sentences that were left out when it was made, which the file does not say."""

    @classmethod
    def open(cls, path: Path) -> Self:
        batch = read_batch(path, "shards")
        documents = batch.column("sentences")
        sentences = documents.values
        return cls(
            tokens=sentences.values.to_numpy(),
            sentence_offsets=sentences.offsets.to_numpy(),
            document_offsets=documents.offsets.to_numpy(),
        )

    @property
    def counts(self) -> tuple[int, int, int]:
        """Documents, sentences and tokens."""
        return len(self.document_offsets) - 1, len(self.sentence_offsets) - 1, len(self.tokens)

    def write(self, path: Path) -> None:
        sentences = pa.ListArray.from_arrays(pa.array(self.sentence_offsets, pa.int32()), pa.array(self.tokens))
        documents = pa.ListArray.from_arrays(pa.array(self.document_offsets, pa.int32()), sentences)
        write_batch(path, pa.record_batch([documents], names=["sentences"]))


@dataclass(frozen=True)
class ShardEntry:
    """One line of the manifest."""

    name: str
    split: str
    documents: int
    sentences: int
    tokens: int
    sha256: str
    without_tokens: int = 0
    """Sentences of its documents that are left out: the tokenizer leaves nothing of them."""


@dataclass(frozen=True)
class Manifest:
    """Every shard with its counts and checksum, and the tokenizer that made the ids."""

    vocab_size: int
    tokenizer_sha256: str
    shards: list[ShardEntry]

    def of_split(self, split: str) -> list[ShardEntry]:
        return [shard for shard in self.shards if shard.split == split]

    def tokens(self, split: str) -> int:
        return sum(shard.tokens for shard in self.of_split(split))

    def write(self, directory: Path) -> None:
        write_json(directory / MANIFEST, asdict(self))

    @classmethod
    def read(cls, directory: Path) -> Self:
        path = directory / MANIFEST
        if not path.is_file():
            raise ArtifactError(f"{path}: not found, expected the manifest of the token shards; run `dvc repro shards`")
        values = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**values, "shards": [ShardEntry(**shard) for shard in values["shards"]]})


def verify(directory: Path, manifest: Manifest) -> None:
    """Raise `ArtifactError` naming the first shard that is missing, truncated or altered."""
    verify_files(directory, {shard.name: shard.sha256 for shard in manifest.shards}, "shards")


def verify_files(directory: Path, sums: Mapping[str, str], stage: str) -> None:
    """Raise `ArtifactError` naming the first file of `stage` that is missing or has another SHA-256 than in `sums`."""
    for name, expected in sums.items():
        path = directory / name
        if not path.is_file():
            raise ArtifactError(
                f"{path}: not found, but {MANIFEST} lists it; run `dvc checkout` or `dvc repro {stage}`"
            )
        if (found := checksum(path)) != expected:
            raise ArtifactError(
                f"{path}: found SHA-256 {found[:12]}…, expected {expected[:12]}… as {MANIFEST} says; "
                f"{damaged_remedy(path, stage)}"
            )


def damaged_remedy(path: Path, stage: str) -> str:
    """How to get a sound file again. It may be one with DVC's copy, which DVC looks at anew only if it is no longer
    write-protected and has another time."""
    return f"the file is damaged: run `chmod u+w {path} && touch {path} && rm {path} && dvc repro {stage}`"
