"""Token shards: their files and manifest, and the damage that is named."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bertcore.config import parse
from bertcore.errors import ArtifactError, ConfigError
from bertcore.files import checksum
from bertcore.shards.build import encode_documents
from bertcore.shards.encoding import WordEncoder
from bertcore.shards.store import Manifest, ShardEntry, ShardsConfig, TokenShard, verify
from bertcore.tokens.tokenizer import Vocabulary
from tests.samples import documents, tokenizer


def test_ids_are_stored_in_the_smallest_type() -> None:
    assert Vocabulary.of(tokenizer()).dtype == np.uint16


@pytest.fixture
def shards(tmp_path: Path) -> tuple[Path, Manifest]:
    entries = []
    for seed in range(3):
        path = tmp_path / f"train-{seed:05d}.arrow"
        shard = encode_documents([pa.array(documents(10, seed))], WordEncoder(tokenizer()))
        shard.write(path)
        entries.append(ShardEntry(path.name, "train", *shard.counts, sha256=checksum(path)))
    manifest = Manifest(tokenizer().get_vocab_size(), "", entries)
    manifest.write(tmp_path)
    return tmp_path, Manifest.read(tmp_path)


def test_verify_accepts_what_was_written(shards: tuple[Path, Manifest]) -> None:
    verify(*shards)
    directory, manifest = shards
    assert manifest.tokens("train") == sum(
        len(TokenShard.open(directory / entry.name).tokens) for entry in manifest.shards
    )


def test_verify_names_a_flipped_byte_a_truncated_and_a_missing_shard(shards: tuple[Path, Manifest]) -> None:
    directory, manifest = shards
    path = directory / manifest.shards[1].name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=f"{path.name}: found SHA-256"):
        verify(directory, manifest)
    path.write_bytes(content[:100])
    with pytest.raises(ArtifactError, match=f"{path.name}: found SHA-256"):
        verify(directory, manifest)
    with pytest.raises(ArtifactError, match="expected the output of shards"):
        TokenShard.open(path)
    path.unlink()
    with pytest.raises(ArtifactError, match=f"{path.name}: not found"):
        verify(directory, manifest)


def test_checksum_is_sha256(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert checksum(tmp_path / "empty") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_shard_of_more_text_than_it_can_count_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"shards.shard_bytes: found 1073741825, expected between 1 and 1073741824"):
        parse(ShardsConfig, {"shard_bytes": 2**30 + 1}, "shards")
