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

from rensa import RMinHash

from bertcore.corpus import cleaning, quality
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.contamination import Ngrams, evaluation_texts
from bertcore.corpus.documents import Document
from bertcore.corpus.near_duplicates import signature
from bertcore.corpus.sorted_files import SIZE

BATCH_CHARACTERS = 1_000_000
"""Of a batch, which ends with the document that reaches them: a tenth of a second of work."""


EvaluationFiles = tuple[tuple[str, str], ...]
"""Absolute path and SHA-256 of each file of evaluation texts. The workers of a cluster outlive a run: what they keep of
a file is what had this content."""


@dataclass(frozen=True)
class Batch:
    """Some documents as their source gives them, and all that a worker needs to know."""

    documents: list[Document]
    config: CorpusConfig
    evaluation: EvaluationFiles
    """The texts that the corpus must not hold."""


@dataclass(frozen=True)
class Candidate:
    """A document that the filters keep."""

    document: Document
    """Without its text, which the sentences are."""
    sentences: list[str]
    words: int
    copies: int
    """How often it is used; see `CorpusConfig.copies_of`."""
    digest: bytes
    """Alike for exact copies only."""
    signature: RMinHash | None
    """By which near duplicates are found; None where they are not looked for."""
    in_evaluation_text: bool
    """Whether it shares a long n-gram with an evaluation text."""


def batches(documents: Iterable[Document], config: CorpusConfig, evaluation: EvaluationFiles) -> Iterator[Batch]:
    """All `documents`, in order."""
    batch: list[Document] = []
    room = BATCH_CHARACTERS
    for document in documents:
        batch.append(document)
        room -= len(document.text)
        if room <= 0:
            yield Batch(batch, config, evaluation)
            batch, room = [], BATCH_CHARACTERS
    if batch:
        yield Batch(batch, config, evaluation)


def examine(batch: Batch) -> tuple[list[Candidate], Counter[str]]:
    """The documents of a batch that the filters keep; how many documents (and lines) they drop, by reason."""
    config, dropped = batch.config, Counter[str]()
    kept = list(_cleaned(_drawn(batch.documents, config, dropped), config, dropped))
    met = [False] * len(kept)
    if config.contamination:
        met = ngrams_of(batch.evaluation, config.contamination.ngram).meet([each.text for each in kept]).tolist()
    return [_candidate(document, config, found) for document, found in zip(kept, met, strict=True)], dropped


def _drawn(documents: list[Document], config: CorpusConfig, dropped: Counter[str]) -> Iterator[Document]:
    for document in documents:
        if config.copies_of(document):
            yield document
        else:
            dropped["not_drawn"] += 1


def _cleaned(documents: Iterable[Document], config: CorpusConfig, dropped: Counter[str]) -> Iterator[Document]:
    lines, whole = config.quality.line_filters(), config.quality.document_filters(config.min_words)
    for document in documents:
        text = quality.keep_lines(cleaning.normalise(document.text), lines, dropped)
        if reason := quality.first_reason(text, whole):
            dropped[reason] += 1
        else:
            yield replace(document, text=text)


def _candidate(document: Document, config: CorpusConfig, in_evaluation_text: bool) -> Candidate:
    text, near = document.text, config.near_duplicates
    return Candidate(
        document=replace(document, text=""),
        sentences=[] if in_evaluation_text else cleaning.split_sentences(text, config.language),
        words=quality.count_words(text),
        copies=config.copies_of(document),
        digest=hashlib.blake2b(text.encode(), digest_size=SIZE).digest(),
        signature=signature(text, near.ngram) if near else None,
        in_evaluation_text=in_evaluation_text,
    )


@lru_cache(maxsize=1)
def ngrams_of(files: EvaluationFiles, ngram: int) -> Ngrams:
    """Of the texts in `files`, kept for this process."""
    return Ngrams([text for file, _ in files for text in evaluation_texts(Path(file))], ngram)
