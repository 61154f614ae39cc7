"""What stands there already: the vocabulary against the models, the shards against their manifest."""

from collections.abc import Iterable
from pathlib import Path

from bertcore.errors import ArtifactError
from bertcore.files import checksum, clear_unfinished, unfinished
from bertcore.model.huggingface import load_config
from bertcore.tokens.kind import TOKENIZER_FILE
from bertcore.tokens.shards import MANIFEST, Manifest, read_batch, verify
from bertcore.tokens.tokenizer import KINDS, TokenizerConfig, entries_in
from bertcore.training.initial import check_vocabulary, vocabulary_remedy
from tasks.doctor.findings import Finding
from tasks.doctor.places import bytes_below
from tasks.doctor.plan import Plan, entries_asked, given_entries
from tasks.links import not_here, other_files
from tasks.paths import CHECKPOINTS, CORPUS, INPUTS, INSTANCES, PRETRAINED, REPORTS, SHARDS, TOKENIZER

CHECKSUM_BYTES = 1_000_000_000
"""Shards of so many bytes in all have their checksums compared, a matter of a second; larger ones their counts."""

_AGAIN = "`dvc repro shards` (or this run) makes them anew; `dvc checkout` brings back what belongs together"


def check_vocabularies(plan: Plan) -> Finding:
    """The vocabulary that params.yaml asks for, the one that is there, and those of the models."""
    pretrain, tokenizer = plan.configs["pretrain"], plan.configs["tokenizer"]
    if pretrain.init_from and (finding := _against_published(Path(pretrain.init_from), tokenizer)):
        return finding
    given, made = given_entries(tokenizer), entries_in(TOKENIZER)
    asked, there = entries_asked(tokenizer), len(made)
    if not there:
        return Finding(level="ok", name="vocabulary", text=f"{asked:,} entries asked for; {TOKENIZER} is not made yet")
    # A small text has fewer pieces than asked for, so that only more entries than that are a difference.
    other_file = tokenizer.vocab_file and (made[: len(given)] != given or there != asked)
    if there > asked or other_file:
        wanted = f"those of {tokenizer.vocab_file}" if other_file else f"{asked:,}"
        text = f"{TOKENIZER} has {there:,} entries, params.yaml asks for {wanted}"
        remedy = "`dvc repro` (or this run) makes it anew, and all that was made with it"
        return Finding(level="warn", name="vocabulary", text=text, remedy=remedy)
    if not (PRETRAINED / "config.json").is_file():
        return Finding(level="ok", name="vocabulary", text=f"{there:,} entries; {PRETRAINED} is not made yet")
    model, same = load_config(PRETRAINED).vocab_size, _same_entries()
    if pretrain.init_from is None and (model != there or not same):
        text = f"{TOKENIZER} has {there:,} entries, {PRETRAINED} was trained with " + (
            "others" if model == there else f"{model:,}"
        )
        remedy = "`dvc repro pretrain` (or this run) trains it anew; `dvc checkout` brings back what belongs together"
        return Finding(level="warn", name="vocabulary", text=text, remedy=remedy)
    return Finding(level="ok", name="vocabulary", text=f"{there:,} entries, the same in {TOKENIZER} and {PRETRAINED}")


def check_links() -> Finding:
    """Whether DVC watches all files that params.yaml leads to."""
    if (name := other_files(Path.cwd())) is not None:
        text = f"{name} leads to other files than are linked in {INPUTS}, which `dvc repro` does not see"
        remedy = f"`make pretrain` and the flows link them anew; before `dvc repro`, remove {INPUTS}"
        return Finding(level="warn", name="links", text=text, remedy=remedy)
    there, absent = INPUTS.is_dir(), not_here(Path.cwd())
    if absent:
        text = f"params.yaml names what is not on this machine: {', '.join(absent)}"
        remedy = f"correct the path; only stage inputs asks for it where {INPUTS} was pulled from another machine"
        return Finding(level="warn" if there else "FAIL", name="links", text=text, remedy=remedy)
    text = f"{INPUTS} links all local files that params.yaml leads to" if there else f"{INPUTS} is not made yet"
    return Finding(level="ok", name="links", text=text)


def clear_leftovers() -> Finding:
    """Remove the half-written outputs of stages that were killed, which no living process holds; say what lies there of
    trainings that may go on."""
    outputs = (INPUTS, CORPUS, TOKENIZER, SHARDS, INSTANCES, REPORTS)
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
    return Finding(level="ok", name="leftovers", text=text)


def _mebibytes(directories: Iterable[Path]) -> str:
    return f"{sum(map(bytes_below, directories)) / 2**20:,.0f} MiB"


def check_shards() -> Finding:
    """Every shard against the manifest, and the manifest against the tokenizer."""
    if not SHARDS.is_dir():
        return Finding(level="ok", name="shards", text=f"{SHARDS} is not made yet")
    try:
        manifest = Manifest.read(SHARDS)
        how = _check_shards(manifest)
    except ArtifactError as error:
        text, _, _ = str(error).rpartition("; ")
        return Finding(level="warn", name="shards", text=text, remedy=_AGAIN)
    except (ValueError, TypeError, KeyError) as error:
        text = f"{SHARDS / MANIFEST}: no manifest ({' '.join(str(error).split())})"
        return Finding(level="warn", name="shards", text=text, remedy=_AGAIN)
    tokenizer = TOKENIZER / TOKENIZER_FILE
    if tokenizer.is_file() and checksum(tokenizer) != manifest.tokenizer_sha256:
        return Finding(
            level="warn",
            name="shards",
            text=f"{SHARDS} holds ids of another tokenizer than {tokenizer}",
            remedy=_AGAIN,
        )
    tokens = sum(shard.tokens for shard in manifest.shards)
    return Finding(level="ok", name="shards", text=f"{len(manifest.shards)}, {tokens:,} tokens, {how} as in {MANIFEST}")


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


def _against_published(published: Path, tokenizer: TokenizerConfig) -> Finding | None:
    """A model to begin with whose ids do not mean what the pipeline's will; None where nothing speaks against it."""
    size = load_config(published).vocab_size
    given, theirs = given_entries(tokenizer), entries_in(published)
    if len(given) > size:
        text = f"{tokenizer.vocab_file} has {len(given):,} entries, pretrain.init_from: {published} has {size:,}"
    elif theirs and theirs != given:
        text = f"{tokenizer.vocab_file} has other entries than {published / KINDS[tokenizer.kind].vocabulary_files[0]}"
    else:
        # One of another vocabulary is made anew by this run.
        if entries_in(TOKENIZER) == given:
            check_vocabulary(published, TOKENIZER, str(published))
        return None
    remedy = vocabulary_remedy(tokenizer.kind, str(published))
    return Finding(level="FAIL", name="vocabulary", text=text, remedy=remedy)


def _same_entries() -> bool:
    theirs = entries_in(PRETRAINED)
    return not theirs or entries_in(TOKENIZER) == theirs
