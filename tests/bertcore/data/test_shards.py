"""Token shards: what goes in comes out, the bytes do not depend on the batches, damage is named."""

from pathlib import Path

import numpy as np
import pytest

from bertcore.data.shards import Manifest, ShardsConfig, TokenShard, Vocabulary, checksum, verify, write_split
from bertcore.errors import ArtifactError
from tests.samples import documents, token_shard, tokenizer


def test_sentences_and_documents_keep_their_boundaries(tmp_path: Path) -> None:
    shard, texts = token_shard(tmp_path, 20), documents(20)
    assert len(shard.document_offsets) == 21
    for index, text in enumerate(texts):
        first, last = shard.document_offsets[index : index + 2]
        bounds = shard.sentence_offsets[first : last + 1]
        found = [shard.tokens[start:end].tolist() for start, end in zip(bounds[:-1], bounds[1:], strict=True)]
        assert found == [tokenizer().encode(sentence, add_special_tokens=False).ids for sentence in text]


def test_bytes_do_not_depend_on_how_documents_are_batched(tmp_path: Path) -> None:
    texts, config = documents(50), ShardsConfig(shard_tokens=700)
    entries = []
    for size in (1, 7, 50):
        directory = tmp_path / str(size)
        directory.mkdir()
        batches = [texts[start : start + size] for start in range(0, 50, size)]
        entries.append(write_split(batches, "train", directory, tokenizer(), config))
    assert entries[0] == entries[1] == entries[2] and len(entries[0]) > 3


def test_ids_are_stored_in_the_smallest_type() -> None:
    assert Vocabulary.of(tokenizer()).dtype == np.uint16


@pytest.fixture
def shards(tmp_path: Path) -> tuple[Path, Manifest]:
    entries = write_split([documents(30)], "train", tmp_path, tokenizer(), ShardsConfig(shard_tokens=1000))
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
