"""From sources to a corpus: cleaned, mixed, without copies, split into sentences and into train and held out."""

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from bertcore.config import suggest
from bertcore.corpus import cleaning, mixture, quality
from bertcore.corpus.contamination import ContaminationConfig, Ngrams, evaluation_texts
from bertcore.corpus.documents import SPLITS, CorpusWriters, DocstringWriter, Document
from bertcore.corpus.near_duplicates import NearDuplicates, NearDuplicatesConfig
from bertcore.corpus.quality import QualityConfig
from bertcore.corpus.sources import open_source
from bertcore.corpus.sources.pydoc import source as pydoc
from bertcore.draws import fraction_of
from bertcore.errors import InputError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Section `corpus` of params.yaml."""

    sources: list[str]
    """`pydoc`, a local file, glob or directory, `hf://ORG/NAME`, or `http(s)://…`; read in this order. In params.yaml
    an entry may be a mapping {uri, weight}."""
    weights: list[float] = field(default_factory=list)
    """How often each source's documents are used, see `mixture.copies`; filled from the sources' mappings, else 1."""
    max_documents: int | None = None
    """Documents read from each source; None reads all."""
    min_words: int = 8
    """Documents of fewer words are dropped; in scripts without blanks between words every character is one."""
    quality: QualityConfig = field(default_factory=QualityConfig)
    """Filters of lines and documents."""
    near_duplicates: NearDuplicatesConfig | None = None
    """What counts as nearly the same document; None drops exact copies only."""
    contamination: ContaminationConfig | None = None
    """Evaluation texts that the corpus must not hold; None drops nothing (stage `contamination` measures it anyway)."""
    heldout_fraction: float = 0.02
    """Share of the documents that pre-training never sees."""
    language: str = "en"
    """Its code (ISO 639): whose rules split the sentences. Those of `cleaning.LANGUAGES` have rules of their own."""
    seed: int = 1
    """Decides, with its id, on which side of the split a document falls, and how often it is used."""

    @classmethod
    def complete(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Parts entries with a weight, as `parse` calls it, into `sources` and `weights`."""
        return mixture.part_weights(values)

    def __post_init__(self) -> None:
        if not self.sources:
            raise ValueError("sources: found an empty list, expected at least one source; name one, such as pydoc")
        if self.weights and len(self.weights) != len(self.sources):
            raise ValueError(
                f"weights: found {len(self.weights)}, expected one for each of {len(self.sources)} sources"
            )
        if bad := [weight for weight in self.weights if not 0 < weight <= mixture.LARGEST]:
            raise ValueError(
                f"sources: found the weight {bad[0]:g}, expected more than 0 and at most {mixture.LARGEST}"
            )
        if self.max_documents is not None and self.max_documents < 1:
            raise ValueError(f"max_documents: found {self.max_documents}, expected at least 1, or null for all")
        if not 0 < self.heldout_fraction < 1:
            raise ValueError(f"heldout_fraction: found {self.heldout_fraction}, expected a share between 0 and 1")
        if not re.fullmatch("[a-z]{2,3}", self.language):
            known = suggest(self.language, cleaning.LANGUAGES.split())
            raise ValueError(f"language: found {self.language!r}, expected a code of two or three letters; {known}")

    def split_of(self, document_id: str) -> str:
        """`train` or `heldout`; a function of the seed and the document's id alone."""
        return "heldout" if fraction_of(self.seed, document_id) < self.heldout_fraction else "train"

    def copies_of(self, document: Document) -> int:
        """How often a document is used; a function of the seed, its source's weight and its id."""
        weight = self.weights[self.sources.index(document.source)] if self.weights else 1.0
        return mixture.copies(weight, self.seed, document.id)


@dataclass
class CorpusStatistics:
    """What was read, kept and dropped, for the metrics file."""

    read: Counter[str] = field(default_factory=Counter)
    """Documents by source."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Documents (and, where the reason says so, other records) by reason."""
    kept: dict[str, Counter[str]] = field(default_factory=lambda: {split: Counter() for split in SPLITS})
    """Documents, sentences, words and bytes (UTF-8) by split."""

    def keep(self, split: str, text: str, sentences: list[str]) -> None:
        amounts = {
            "documents": 1,
            "sentences": len(sentences),
            "words": quality.count_words(text),
            "bytes": sum(len(sentence.encode()) + 1 for sentence in sentences),
        }
        self.kept[split].update(amounts)

    def as_metrics(self) -> dict[str, Any]:
        return {
            "documents_read": dict(sorted(self.read.items())),
            "dropped": dict(sorted(self.dropped.items())),
            **{split: dict(self.kept[split]) for split in SPLITS},
        }


def build_corpus(config: CorpusConfig, inputs: Path, output: Path) -> CorpusStatistics:
    """Read every source and write `output`/{train,heldout}-*.parquet (see `documents.CORPUS_SCHEMA`).

    `inputs` holds one folder per source, named by its position, with links to the source's local files, and
    `contamination` with links to the evaluation texts. Raises `InputError` where nothing is left for a split.
    """
    if config.language not in cleaning.LANGUAGES.split():
        logger.warning("corpus.language: sentences of %r are split by English rules: it has none here", config.language)
    statistics = CorpusStatistics()
    documents = _cleaned(_drawn(_read(config, inputs, output, statistics), config, statistics), config, statistics)
    with CorpusWriters(output) as writers:
        documents = _unlike(_unique(documents, statistics), config, statistics)
        for document in _unevaluated(documents, config, inputs / "contamination", statistics):
            sentences = cleaning.split_sentences(document.text, config.language)
            split = config.split_of(document.id)
            for copy in range(1 if split == "heldout" else config.copies_of(document)):
                statistics.keep(split, document.text, sentences)
                writers.add(split, copy, document, sentences)
    _check_splits(config, statistics)
    return statistics


def _check_splits(config: CorpusConfig, statistics: CorpusStatistics) -> None:
    for split in SPLITS:
        if not statistics.kept[split]["documents"]:
            raise InputError(
                f"params.yaml: corpus.sources {config.sources}: no document for the split {split!r} "
                f"({sum(statistics.read.values())} read, dropped: {dict(statistics.dropped) or 'none'}), "
                "expected at least "
                f"one; give more text{'' if split == 'train' else ' or a larger corpus.heldout_fraction'}"
            )


def _read(config: CorpusConfig, inputs: Path, output: Path, statistics: CorpusStatistics) -> Iterator[Document]:
    for index, uri in enumerate(config.sources):
        files = sorted(path for path in (inputs / str(index)).rglob("*") if path.is_file())
        if uri == pydoc.URI:
            documents = _read_docstrings(files, config, output, statistics)
        else:
            documents = open_source(uri, files, statistics=statistics.dropped)
        for document in islice(documents, config.max_documents):
            statistics.read[uri] += 1
            yield document


def _read_docstrings(
    files: list[Path], config: CorpusConfig, output: Path, statistics: CorpusStatistics
) -> Iterator[Document]:
    """The source pydoc, whose single docstrings are kept too: fine-tuning tasks are made from them."""
    with DocstringWriter(output / "docstrings.parquet", config.split_of) as writer:
        yield from pydoc.read(pydoc.URI, files, statistics.dropped, keep=writer.add)


def _drawn(documents: Iterable[Document], config: CorpusConfig, statistics: CorpusStatistics) -> Iterator[Document]:
    for document in documents:
        if config.copies_of(document):
            yield document
        else:
            statistics.dropped["not drawn (weight below 1)"] += 1


def _cleaned(documents: Iterable[Document], config: CorpusConfig, statistics: CorpusStatistics) -> Iterator[Document]:
    lines, whole = config.quality.line_filters(), config.quality.document_filters(config.min_words)
    for document in documents:
        text = quality.keep_lines(cleaning.normalise(document.text), lines, statistics.dropped)
        if reason := quality.first_reason(text, whole):
            statistics.dropped[reason] += 1
        else:
            yield Document(document.id, text, document.source)


def _unique(documents: Iterable[Document], statistics: CorpusStatistics) -> Iterator[Document]:
    """Without exact copies: about 100 bytes are kept of each document (a hash of 16 and what Python adds), so memory
    stays small for millions of them."""
    seen: set[bytes] = set()
    for document in documents:
        digest = hashlib.blake2b(document.text.encode(), digest_size=16).digest()
        if digest in seen:
            statistics.dropped["exact duplicate"] += 1
        else:
            seen.add(digest)
            yield document


def _unlike(documents: Iterable[Document], config: CorpusConfig, statistics: CorpusStatistics) -> Iterator[Document]:
    """Without those that nearly repeat an earlier one."""
    if config.near_duplicates is None:
        yield from documents
        return
    seen = NearDuplicates(config.near_duplicates)
    for document in documents:
        if seen.repeats(document.text):
            statistics.dropped["near duplicate"] += 1
        else:
            yield document


def _unevaluated(
    documents: Iterable[Document], config: CorpusConfig, links: Path, statistics: CorpusStatistics
) -> Iterator[Document]:
    """Without those that share a long n-gram with an evaluation text."""
    if config.contamination is None:
        yield from documents
        return
    files = sorted(path for path in links.rglob("*") if path.is_file()) or map(Path, config.contamination.texts)
    ngrams = Ngrams([text for path in files for text in evaluation_texts(path)], config.contamination.ngram)
    for document in documents:
        if ngrams.meet([document.text])[0]:
            statistics.dropped["in an evaluation text"] += 1
        else:
            yield document
