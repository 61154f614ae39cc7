"""From the corpus to token shards, shard by shard: in parallel, resumable, the same bytes on any number of workers.

Which documents a shard holds is decided before anything is encoded, from the sizes of the corpus's blocks. A shard is
then a pure function of its blocks and the tokenizer. Finished ones wait in a work directory, each beside a note of its
checksum, until all are there; a run that was killed begins with them.
"""

import hashlib
import json
import logging
import os
import shutil
import sys
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertcore import ragged, words, workers
from bertcore.corpus import documents as corpus_documents
from bertcore.corpus.documents import SPLITS, RowGroup, copy_name, corpus_shards, row_groups
from bertcore.files import checksum, replace_file, write_json
from bertcore.progress import Progress
from bertcore.ragged import offsets_of
from bertcore.shards import encoding, store
from bertcore.shards.encoding import WordEncoder, encoder_of
from bertcore.shards.store import Manifest, ShardEntry, ShardsConfig, TokenShard
from bertcore.tokens import kind
from bertcore.tokens import tokenizer as tokenizer_module
from bertcore.tokens.kind import TOKENIZER_FILE, running
from bertcore.tokens.tokenizer import KINDS, load_tokenizer

logger = logging.getLogger(__name__)

_CODE = (corpus_documents, encoding, kind, ragged, store, tokenizer_module, words)
"""Beside this module and those of the kinds of tokenizers, the ones that decide what a shard holds."""


@dataclass(frozen=True)
class ShardPlan:
    """One shard to make: everything that a worker on another machine needs to know."""

    name: str
    split: str
    groups: tuple[RowGroup, ...]
    """Blocks of the corpus, with absolute paths."""
    tokenizer: str
    """Absolute path of the tokenizer's directory."""
    directory: str
    """Absolute path of the work directory that the shard is written to."""

    @property
    def path(self) -> Path:
        return Path(self.directory, self.name)

    @property
    def note(self) -> Path:
        """Where the shard's manifest entry is kept; written last, so a shard without one is not finished."""
        return self.path.with_suffix(".json")


def build_shards(
    corpus: Path, tokenizer: Path, config: ShardsConfig, output: Path, work: Path, count: int | None = None
) -> Manifest:
    """Encode `corpus` into shards and their manifest in the existing directory `output`.

    Unfinished runs leave their shards below `work`, for the next run with the same inputs, parameters and code; those
    of other inputs are removed. `count`: worker processes, see `workers.run`.
    """
    directory = work / work_key(corpus, tokenizer, config)
    _forget_others(directory)
    plans = [each for split in SPLITS for each in plan_shards(corpus, split, tokenizer, config, directory)]
    done = {each.name: entry for each in plans if (entry := _finished(each))}
    progress = Progress("shards", len(plans), start=len(done))
    for entry in workers.run(encode, [each for each in plans if each.name not in done], count):
        done[entry.name] = entry
        progress.advance(f"{sum(each.tokens for each in done.values()):,} tokens")
    progress.close()
    for split in SPLITS:
        if without := sum(done[each.name].without_tokens for each in plans if each.split == split):
            logger.warning("%d sentences of the split %s are left out: they hold no token", without, split)
    entries = [done[each.name] for each in plans if done[each.name].documents]
    for entry in entries:
        _keep(directory / entry.name, output / entry.name)
    size = load_tokenizer(tokenizer).get_vocab_size()
    manifest = Manifest(size, checksum(tokenizer / TOKENIZER_FILE), entries)
    manifest.write(output)
    return manifest


def _keep(shard: Path, place: Path) -> None:
    """`shard` at `place`, too: a run that is killed before its end begins with it again."""
    try:
        os.link(shard, place)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(shard, place)


def plan_shards(corpus: Path, split: str, tokenizer: Path, config: ShardsConfig, directory: Path) -> list[ShardPlan]:
    """The shards of a split: consecutive blocks of the corpus until `config.shard_bytes` are reached.

    A shard holds no document twice, so that the random sentence of a pair, which is from another document of the shard,
    is from another text, too: second copies of documents (`weight` of a source) begin a shard, and so do third ones.
    """
    members: list[list[RowGroup]] = []
    room, copy = 0, ""
    # Not resolved: DVC may have put links to files with other names in the shards' places.
    for group in row_groups(path.absolute() for path in corpus_shards(corpus, split)):
        name = copy_name(Path(group.path))
        if room <= 0 or name != copy:
            members.append([])
            room, copy = config.shard_bytes, name
        members[-1].append(group)
        room -= group.size
    places = str(tokenizer.resolve()), str(directory.resolve())
    return [ShardPlan(f"{split}-{n:05d}.arrow", split, tuple(each), *places) for n, each in enumerate(members)]


def encode(plan: ShardPlan) -> ShardEntry:
    """Make one shard; the same bytes each time. A shard whose documents hold no token is written and counted as such,
    and does not enter the manifest."""
    shard = encode_documents((group.read() for group in plan.groups), _encoder(plan.tokenizer))
    with replace_file(plan.path) as beside:
        shard.write(beside)
        sha256 = checksum(beside)
    entry = ShardEntry(plan.name, plan.split, *shard.counts, sha256, shard.without_tokens)
    write_json(plan.note, asdict(entry))
    return entry


def encode_documents(blocks: Iterable[pa.ListArray], encoder: WordEncoder) -> TokenShard:
    """Blocks of documents (each a list of sentences) as one shard, without sentences and documents that have no
    token."""
    tokens: list[NDArray[np.unsignedinteger]] = [np.zeros(0, encoder.vocabulary.dtype)]
    lengths: list[NDArray[np.int64]] = []
    sentences: list[NDArray[np.int64]] = []
    without = 0
    for block in blocks:
        ids, begins = encoder.encode(running(block, encoder.vocabulary.blank))
        there = np.diff(begins) > 0
        without += int((~there).sum())
        offsets = block.offsets.to_numpy()
        sentences_before = offsets_of(there.astype(np.int64))[offsets - offsets[0]]
        tokens.append(ids)
        lengths.append(np.diff(begins)[there])
        counts = np.diff(sentences_before)
        sentences.append(counts[counts > 0])
    return TokenShard(np.concatenate(tokens), _offsets(lengths), _offsets(sentences), without)


def work_key(corpus: Path, tokenizer: Path, config: ShardsConfig) -> str:
    """A name for everything that decides the shards' bytes: inputs, parameters, code and the libraries' versions."""
    parts = [checksum(path) for split in SPLITS for path in corpus_shards(corpus, split)]
    parts += [checksum(tokenizer / TOKENIZER_FILE), repr(config)]
    kinds = [sys.modules[each.cutter.__module__] for each in KINDS.values()]
    parts += [checksum(Path(str(module.__file__))) for module in (*_CODE, *kinds)]
    parts += [checksum(Path(__file__)), *(f"{name} {version(name)}" for name in ("numpy", "pyarrow", "tokenizers"))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _finished(plan: ShardPlan) -> ShardEntry | None:
    """The entry of a shard that an earlier run finished, after a look at its bytes."""
    if not plan.note.is_file():
        return None
    entry = ShardEntry(**json.loads(plan.note.read_text(encoding="utf-8")))
    if plan.path.is_file() and checksum(plan.path) == entry.sha256:
        return entry
    logger.warning("%s is damaged: it is made again", plan.path)
    return None


def _forget_others(directory: Path) -> None:
    for other in directory.parent.glob("*"):
        if other != directory:
            shutil.rmtree(other)
    directory.mkdir(parents=True, exist_ok=True)


_OF_THREAD = threading.local()


def _encoder(tokenizer: str) -> WordEncoder:
    """This thread's encoder, which remembers words from shard to shard (a Dask worker may run several threads)."""
    sha256 = checksum(Path(tokenizer, TOKENIZER_FILE))
    if getattr(_OF_THREAD, "sha256", None) != sha256:
        _OF_THREAD.sha256, _OF_THREAD.encoder = sha256, encoder_of(load_tokenizer(Path(tokenizer)))
    return _OF_THREAD.encoder


def _offsets(lengths: list[NDArray[np.int64]]) -> NDArray[np.int32]:
    return offsets_of(np.concatenate([np.zeros(0, np.int64), *lengths])).astype(np.int32)
