"""What can be told of a document without any other one: the part of the corpus that runs on all cores, batch by batch.

Cleaning, filters, sentences, the search for evaluation texts, and the digest and the signature by which copies and near
duplicates are found among all documents later (`build`).
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertcore.compressed import read_text
from bertcore.corpus import cleaning, quality
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.contamination import EvaluationNgrams
from bertcore.corpus.documents import CORPUS_SCHEMA, Document
from bertcore.corpus.evaluation_texts import evaluation_texts
from bertcore.corpus.near_duplicates import Signatures, signatures
from bertcore.corpus.sorted_files import SIZE
from bertcore.corpus.sources.source import Block, Drops
from bertcore.corpus.writing import write_part

Files = tuple[tuple[str, str], ...]
"""Absolute path and SHA-256 of files that decide what is dropped. The workers of a cluster outlive a run: what they
keep of a file is what had this content."""


@dataclass(frozen=True)
class Batch:
    """Some documents as they lie in their source, and all that a worker needs to know."""

    source: str
    """The URI that they came from."""
    blocks: tuple[Block, ...]
    part: str
    """Absolute path of their parts, before `-NAME` (see `Use`)."""
    config: CorpusConfig
    evaluation: Files
    """The texts that the corpus must not hold."""
    exclude: Files
    """The ids of documents that it must not hold."""


@dataclass(frozen=True)
class Use:
    """What candidates are used for: the shards of one name."""

    split: str
    copy: int
    """0 for those that are used for the first time. Others go into shards of their own, behind all others, so that
    copies lie far apart."""
    candidates: NDArray[np.int64]
    """Those that are used so, as they lie in the part."""

    @property
    def name(self) -> str:
        """``train``, ``heldout``, or ``train-x002`` for second copies."""
        return f"{self.split}-x{self.copy + 1:03d}" if self.copy else self.split


AMOUNTS = ("documents", "sentences", "words", "bytes")
"""What is counted of each document; bytes are those of UTF-8."""


@dataclass(frozen=True)
class Examined:
    """What is found of a batch. The N documents that the filters keep, without those with an evaluation text in them,
    are candidates: their text waits in parts on disk, and what decides whether it enters the corpus is here."""

    source: str
    part: str
    """Those of the batch."""
    size: int
    """Of its blocks, in bytes."""
    read: int
    """Documents in them."""
    drops: Drops
    """What the source leaves out, and how many documents (and lines) the filters drop, by reason."""
    excluded: list[str]
    """The ids of documents that are dropped for them."""
    digests: list[bytes]
    """(N,): alike for exact copies only."""
    signatures: Signatures | None
    """(N, HASHES): by which near duplicates are found; None where they are not looked for."""
    draws: NDArray[np.float64]
    """(N,): see `CorpusConfig.draw_of`."""
    held_out: NDArray[np.bool_]
    """(N,): whether that is the split they fall into."""
    copies: NDArray[np.int64]
    """(N,): how often each of them is used; see `CorpusConfig.copies_of`. 1 for those that are held out."""
    amounts: NDArray[np.int64]
    """(N, AMOUNTS)."""
    characters: NDArray[np.int64]
    """(N,): of their sentences."""

    def uses(self) -> Iterator[Use]:
        """All uses that any of them has."""
        for split, is_in in (("train", ~self.held_out), ("heldout", self.held_out)):
            for copy in range(int(self.copies[is_in].max(initial=0))):
                yield Use(split, copy, np.flatnonzero(is_in & (self.copies > copy)))

    def part_of(self, use: Use) -> Path:
        """Where the documents of a use wait for their shard."""
        return Path(f"{self.part}-{use.name}")


def examine(batch: Batch) -> Examined:
    """Write the parts of a batch, and say what is in them."""
    config, drops = batch.config, Drops()
    documents = [document for block in batch.blocks for document in block.documents(drops)]
    unwanted = ids_of(batch.exclude)
    excluded = [document.id for document in documents if document.id in unwanted]
    drops.counts.update(["excluded"] * len(excluded))
    wanted = (document for document in documents if document.id not in unwanted)
    kept = list(_cleaned(_drawn(wanted, config, drops.counts), config, drops.counts))
    if config.contamination:
        met = ngrams_of(batch.evaluation, config.contamination.ngram).meet([each.text for each in kept])
        drops.counts.update(["in_evaluation_text"] * int(met.sum()))
        kept = [document for document, found in zip(kept, met.tolist(), strict=True) if not found]
    sentences = [cleaning.split_sentences(document.text, config.language) for document in kept]
    draws = np.array([config.draw_of(document.id) for document in kept], np.float64)
    held_out = draws < config.heldout_fraction
    copies = np.array([config.copies_of(document) for document in kept], np.int64)
    near = config.near_duplicates
    found = Examined(
        source=batch.source,
        part=batch.part,
        size=sum(block.size for block in batch.blocks),
        read=len(documents),
        drops=drops,
        excluded=excluded,
        digests=[hashlib.blake2b(document.text.encode(), digest_size=SIZE).digest() for document in kept],
        signatures=signatures([document.text for document in kept], near.ngram) if near else None,
        draws=draws,
        held_out=held_out,
        copies=np.where(held_out, 1, copies),
        amounts=np.array(list(map(_amounts, kept, sentences)), np.int64).reshape(-1, len(AMOUNTS)),
        characters=np.array([sum(map(len, each)) for each in sentences], np.int64),
    )
    columns = [[each.id for each in kept], [each.source for each in kept], sentences]
    table = pa.table(columns, schema=CORPUS_SCHEMA)
    for use in found.uses():
        write_part(found.part_of(use), _copied(table.take(use.candidates), use.copy))
    return found


def _amounts(document: Document, sentences: list[str]) -> tuple[int, ...]:
    return 1, len(sentences), quality.count_words(document.text), sum(len(each.encode()) + 1 for each in sentences)


def _copied(documents: pa.Table, copy: int) -> pa.Table:
    """A copy's id ends in #2, #3, …"""
    if not copy:
        return documents
    return documents.set_column(0, "id", pc.binary_join_element_wise(documents["id"], str(copy + 1), "#"))


def _drawn(documents: Iterable[Document], config: CorpusConfig, dropped: Counter[str]) -> Iterator[Document]:
    for document in documents:
        if config.copies_of(document):
            yield document
        else:
            dropped["not_drawn"] += 1


def _cleaned(documents: Iterable[Document], config: CorpusConfig, dropped: Counter[str]) -> Iterator[Document]:
    lines, whole = config.quality.line_filters(), config.quality.document_filters(config.min_words)
    for document in documents:
        text = cleaning.unwrap(document.text) if config.source_at(document.source).wrapped else document.text
        text = quality.keep_lines(cleaning.normalise(text), lines, dropped)
        if reason := quality.first_reason(text, whole):
            dropped[reason] += 1
        else:
            yield replace(document, text=text)


def excluded_ids(files: Iterable[Path]) -> frozenset[str]:
    """The ids in `files`, one a line, as the column `id` of the corpus has them; `InputError` for one that is not
    UTF-8. Blank lines are no ids."""
    lines = (line.removesuffix("\r") for file in files for line in read_text(file).split("\n"))
    return frozenset(line for line in lines if line.strip())


@lru_cache(maxsize=1)
def ids_of(files: Files) -> frozenset[str]:
    """Those in `files`, kept for this process."""
    return excluded_ids(Path(file) for file, _ in files)


@lru_cache(maxsize=1)
def ngrams_of(files: Files, ngram: int) -> EvaluationNgrams:
    """Of the texts in `files`, kept for this process."""
    return EvaluationNgrams([text for file, _ in files for text in evaluation_texts(Path(file))], ngram)
