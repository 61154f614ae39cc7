"""What stands there already: links against params.yaml, leftovers, the shards against their manifest."""

from collections.abc import Iterable
from pathlib import Path

from bertcore.errors import ArtifactError
from bertcore.files import begun_in, checksum, clear_unfinished, unfinished
from bertcore.shards.store import MANIFEST, Manifest, read_batch, verify
from bertcore.tokens.kind import TOKENIZER_FILE
from tasks.doctor.findings import Finding, ok, warn
from tasks.doctor.places import bytes_below
from tasks.link_checks import missing_files, outdated_link
from tasks.paths import (
    CHECKPOINTS,
    CORPUS,
    EMBEDDING,
    EXAMPLES,
    FINETUNED,
    INPUTS,
    INSTANCES,
    PREDICTIONS,
    PRETRAINED,
    REPORTS,
    SHARDS,
    TOKENIZER,
)

CHECKSUM_BYTES = 1_000_000_000
"""Shards of so many bytes in all have their checksums compared, a matter of a second; larger ones their counts."""

_AGAIN = "`dvc repro shards` (or this run) makes them anew; `dvc checkout` brings back what belongs together"


def check_links(links_anew: bool = True) -> Finding:
    """Whether DVC watches all files that params.yaml leads to; `links_anew`: whether stage `inputs` is to run."""
    if (name := outdated_link(Path.cwd())) is not None:
        text = f"{name} leads to other files than are linked in {INPUTS}, which `dvc repro` does not see"
        remedy = "`make pretrain` and the flows link them anew, and so does `dvc repro --single-item --force inputs`"
        return warn("links", text, remedy)
    there, absent = INPUTS.is_dir(), missing_files(Path.cwd())
    if absent:
        text = f"params.yaml names what is not on this machine: {', '.join(absent)}"
        remedy = f"correct the path; only stage inputs asks for it where {INPUTS} was pulled from another machine"
        is_needed = links_anew and not all(absent.values())
        return Finding(level="FAIL" if is_needed else "warn", name="links", text=text, remedy=remedy)
    text = f"{INPUTS} links all local files that params.yaml leads to" if there else f"{INPUTS} is not made yet"
    return ok("links", text)


def clear_leftovers() -> Finding:
    """Remove the half-written outputs of stages that were killed, which no living process holds; say what lies there of
    trainings that may go on."""
    of_tasks = [directory for parent in (EXAMPLES, FINETUNED, PREDICTIONS) for directory in begun_in(parent)]
    outputs = (INPUTS, CORPUS, TOKENIZER, SHARDS, INSTANCES, PRETRAINED, EMBEDDING, REPORTS, *of_tasks)
    left = [path for directory in outputs for path in unfinished(directory)]
    taken = _mebibytes(left)
    for directory in outputs:
        clear_unfinished(directory)
    text = "no half-written output lies about"
    if left:
        text = f"removed what killed stages had left, {taken}: {', '.join(map(str, left))}"
    if begun := list((CHECKPOINTS / "pretrain").glob("*")):
        text += (
            f"; {CHECKPOINTS / 'pretrain'} keeps {_mebibytes(begun)} of {len(begun)} trainings, to go on with or to "
            "make longer: remove those that you have given up"
        )
    return ok("leftovers", text)


def _mebibytes(directories: Iterable[Path]) -> str:
    return f"{sum(map(bytes_below, directories)) / 2**20:,.0f} MiB"


def check_shards() -> Finding:
    """Every shard against the manifest, and the manifest against the tokenizer."""
    if not SHARDS.is_dir():
        return ok("shards", f"{SHARDS} is not made yet")
    try:
        manifest = Manifest.read(SHARDS)
        how = _check_shards(manifest)
    except ArtifactError as error:
        text, _, _ = str(error).rpartition("; ")
        return warn("shards", text, _AGAIN)
    except (ValueError, TypeError, KeyError) as error:
        text = f"{SHARDS / MANIFEST}: no manifest ({' '.join(str(error).split())})"
        return warn("shards", text, _AGAIN)
    tokenizer = TOKENIZER / TOKENIZER_FILE
    if tokenizer.is_file() and checksum(tokenizer) != manifest.tokenizer_sha256:
        return warn("shards", f"{SHARDS} holds ids of another tokenizer than {tokenizer}", _AGAIN)
    tokens = sum(shard.tokens for shard in manifest.shards)
    return ok("shards", f"{len(manifest.shards)}, {tokens:,} tokens, {how} as in {MANIFEST}")


def _check_shards(manifest: Manifest) -> str:
    """What was compared; `ArtifactError` for the first shard that differs."""
    paths = [SHARDS / shard.name for shard in manifest.shards]
    if sum(path.stat().st_size for path in paths if path.is_file()) <= CHECKSUM_BYTES:
        verify(SHARDS, manifest)
        return "checksums"
    for path, shard in zip(paths, manifest.shards, strict=True):
        if (found := read_batch(path, "shards").num_rows) != shard.documents:
            raise ArtifactError(
                f"{path}: found {found} documents, expected {shard.documents} as {MANIFEST} says; run `dvc checkout` "
                "or `dvc repro --force shards`"
            )
    return "counts"
