"""Stage `pretrain`: instances -> models/pretrained. Checks what the training reads, starts its processes through
Accelerate and waits for them."""

import sys
from collections.abc import Sequence

import pyarrow as pa

from bertcore.data.instances import InstanceSource, StaticInstances, open_sources
from bertcore.data.mask_config import MaskConfig
from bertcore.data.shards import MANIFEST, Manifest, Vocabulary, checksum, read_batch, verify
from bertcore.data.wordpiece import TOKENIZER_FILE, load_tokenizer
from bertcore.errors import ArtifactError
from bertcore.training.config import PretrainConfig
from bertcore.training.distributed import launch_command
from tasks import params
from tasks.launcher import run_training
from tasks.paths import INSTANCES, SHARDS, TOKENIZER
from tasks.stage import main
from tasks.tracking import StageRun


def run(_: StageRun) -> None:
    params.section("pretrain", PretrainConfig)
    check_inputs(params.section("mask", MaskConfig))
    run_training(*launch_command("tasks.pretrain_process"))


def check_inputs(mask: MaskConfig) -> None:
    """`ArtifactError` naming the first file that the training would read and that is missing, damaged or foreign."""
    manifest, tokenizer = Manifest.read(SHARDS), TOKENIZER / TOKENIZER_FILE
    if not tokenizer.is_file() or (found := checksum(tokenizer)) != manifest.tokenizer_sha256:
        what = "nothing there" if not tokenizer.is_file() else f"SHA-256 {found[:12]}…"
        raise ArtifactError(
            f"{tokenizer}: found {what}, expected {manifest.tokenizer_sha256[:12]}…, the tokenizer of the "
            f"ids as {SHARDS / MANIFEST} says; run `dvc checkout` or `dvc repro tokenizer shards`"
        )
    vocabulary = Vocabulary.of(load_tokenizer(TOKENIZER))
    if not mask.duplicates:
        verify(SHARDS, manifest)
    for phase in mask.phases:
        for epoch in range(mask.duplicates):
            _check_copies(open_sources(INSTANCES, SHARDS, phase, vocabulary, "train", epoch), vocabulary)
        _check_copies(open_sources(INSTANCES, SHARDS, phase, vocabulary, "heldout", 0), vocabulary)


def _check_copies(sources: Sequence[InstanceSource], vocabulary: Vocabulary) -> None:
    """Static copies have no checksum: what is seen here is a file cut off, rows or ids that cannot be."""
    for source in sources:
        assert isinstance(source, StaticInstances)
        try:
            read_batch(source.path, "mask").validate(full=True)
            instances = source.instances
        except (pa.ArrowInvalid, KeyError) as error:
            problem = " ".join(str(error).split())
        else:
            largest = max(int(ids.max(initial=0)) for ids in (instances.tokens, instances.masked_labels))
            if len(instances) == len(source) and largest < vocabulary.size:
                continue
            problem = f"{len(instances)} sequences with ids up to {largest}"
        raise ArtifactError(
            f"{source.path}: found {problem}, expected {len(source)} sequences with ids below {vocabulary.size}; "
            "the file is damaged: delete it and run `dvc checkout` or `dvc repro --force mask`"
        )


if __name__ == "__main__":
    sys.exit(main("pretrain", run))
