"""What stage `mask` leaves on the disk: static copies, the number of sequences of each shard, and a manifest."""

import json
from functools import partial
from pathlib import Path

from bertcore.errors import ArtifactError
from bertcore.files import checksum, write_json
from bertcore.instances.config import MaskConfig
from bertcore.instances.sources import DrawnInstances, InstanceSource, StaticInstances
from bertcore.shards.store import MANIFEST, Manifest, TokenShard, damaged_remedy, verify_files
from bertcore.tokens.tokenizer import Vocabulary


def open_sources(
    instances: Path, shards: Path, config: MaskConfig, vocabulary: Vocabulary, split: str, epoch: int
) -> list[InstanceSource]:
    """The instances of every shard of `split` in `epoch`: static copies where the mask stage wrote them, else drawn.

    `config` is that of one phase. Nothing is read of a shard before its first instance is asked for.
    """
    names, counts = [entry.name for entry in Manifest.read(shards).of_split(split)], read_counts(instances, config)
    if split == "heldout" or config.duplicates:
        copy = 0 if split == "heldout" else epoch % config.duplicates
        return [StaticInstances(static_path(instances, config, name, copy), counts[name]) for name in names]
    return [
        DrawnInstances(partial(TokenShard.open, shards / name), name, epoch, config, vocabulary, counts[name])
        for name in names
    ]


def static_path(instances: Path, config: MaskConfig, shard_name: str, epoch: int) -> Path:
    """Where the static copy of a shard's instances in an epoch lies, for the phase of `config`."""
    return instances / f"length-{config.sequence_length}" / f"{Path(shard_name).stem}-epoch{epoch:03d}.arrow"


def write_counts(instances: Path, config: MaskConfig, counts: dict[str, int]) -> None:
    """Keep how many sequences an epoch shows of each shard, for the phase of `config`."""
    write_json(_counts_path(instances, config), counts)


def read_counts(instances: Path, config: MaskConfig) -> dict[str, int]:
    """What `write_counts` wrote; `ArtifactError` where it is missing."""
    path = _counts_path(instances, config)
    if not path.is_file():
        raise ArtifactError(
            f"{path}: not found, expected the number of sequences of every shard at {config.sequence_length} tokens; "
            "run `dvc repro mask`"
        )
    return json.loads(path.read_text(encoding="utf-8"))


def write_manifest(instances: Path, shards: Path) -> None:
    """Keep the SHA-256 of every file below `instances`, and of the shards' manifest, from which they were made."""
    files = sorted(path for path in instances.rglob("*") if path.is_file())
    sums = {path.relative_to(instances).as_posix(): checksum(path) for path in files}
    write_json(instances / MANIFEST, {"shards_sha256": checksum(shards / MANIFEST), "files": sums})


def verify_instances(instances: Path, shards: Path) -> None:
    """Raise `ArtifactError` naming the first file that is missing or altered since `write_manifest`, or the manifest
    itself where it is missing, damaged or of other shards."""
    path, expected = instances / MANIFEST, checksum(shards / MANIFEST)
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        found, sums = str(manifest["shards_sha256"]), dict(manifest["files"])
    except FileNotFoundError:
        raise ArtifactError(
            f"{path}: not found, expected the checksums of the instances; run `dvc repro mask`"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactError(
            f"{path}: found no manifest ({type(error).__name__}: {error}), expected the instances' checksums; "
            f"{damaged_remedy(path, 'mask')}"
        ) from None
    if found != expected:
        raise ArtifactError(
            f"{path}: found instances of the shards {found[:12]}…, expected those of {shards / MANIFEST}, "
            f"{expected[:12]}…; run `dvc repro mask`"
        )
    verify_files(instances, sums, "mask")


def _counts_path(instances: Path, config: MaskConfig) -> Path:
    return instances / f"length-{config.sequence_length}" / "sequences.json"
