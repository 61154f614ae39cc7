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

import pyarrow as pa

from bertcore.corpus import cleaning, quality
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.contamination import Ngrams, evaluation_texts
from bertcore.corpus.documents import CORPUS_SCHEMA, Document
from bertcore.corpus.near_duplicates import Values, signature
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
    """What decides whether a document that the filters keep enters the corpus, and what is counted of it."""

    id: str
    amounts: dict[str, int]
    """Documents (1), sentences, words and bytes (UTF-8)."""
    copies: int
    """How often it is used; see `CorpusConfig.copies_of`."""
    digest: bytes
    """Alike for exact copies only."""
    signature: Values | None
    """By which near duplicates are found; None where they are not looked for."""
    in_evaluation_text: bool
    """Whether it shares a long n-gram with an evaluation text."""


@dataclass(frozen=True)
class Examined:
    """What is found of a batch."""

    candidates: list[Candidate]
    documents: pa.Table
    """A row for each candidate, see `documents.CORPUS_SCHEMA`: Arrow passes it between processes as it lies in memory.
    One with an evaluation text in it has no sentences."""
    dropped: Counter[str]
    """How many documents (and lines) the filters drop, by reason."""


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


def examine(batch: Batch) -> Examined:
    """The documents of a batch that the filters keep."""
    config, dropped = batch.config, Counter[str]()
    kept = list(_cleaned(_drawn(batch.documents, config, dropped), config, dropped))
    met = [False] * len(kept)
    if config.contamination:
        met = ngrams_of(batch.evaluation, config.contamination.ngram).meet([each.text for each in kept]).tolist()
    sentences = [
        [] if found else cleaning.split_sentences(document.text, config.language)
        for document, found in zip(kept, met, strict=True)
    ]
    candidates = [_candidate(*each, config) for each in zip(kept, sentences, met, strict=True)]
    columns = [each.id for each in kept], [each.source for each in kept], sentences
    return Examined(candidates, pa.table(list(columns), schema=CORPUS_SCHEMA), dropped)


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


def _candidate(document: Document, sentences: list[str], in_evaluation_text: bool, config: CorpusConfig) -> Candidate:
    text, near = document.text, config.near_duplicates
    return Candidate(
        id=document.id,
        amounts={
            "documents": 1,
            "sentences": len(sentences),
            "words": quality.count_words(text),
            "bytes": sum(len(sentence.encode()) + 1 for sentence in sentences),
        },
        copies=config.copies_of(document),
        digest=hashlib.blake2b(text.encode(), digest_size=SIZE).digest(),
        signature=signature(text, near.ngram) if near else None,
        in_evaluation_text=in_evaluation_text,
    )


@lru_cache(maxsize=1)
def ngrams_of(files: EvaluationFiles, ngram: int) -> Ngrams:
    """Of the texts in `files`, kept for this process."""
    return Ngrams([text for file, _ in files for text in evaluation_texts(Path(file))], ngram)
