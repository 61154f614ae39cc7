"""From sources to a corpus: normalised, exactly de-duplicated, split into sentences and into train and held out."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from bertcore.data import cleaning
from bertcore.data.documents import SPLITS, CorpusWriter, DocstringWriter, Document
from bertcore.data.draws import fraction_of
from bertcore.data.sources import open_source, pydoc
from bertcore.errors import InputError


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Section `corpus` of params.yaml."""

    sources: list[str]
    """`pydoc`, a local file, glob or directory, `hf://ORG/NAME`, or `http(s)://…`; read in this order."""
    max_documents: int | None = None
    """Documents read from each source; None reads all."""
    min_words: int = 8
    """Documents of fewer words are dropped."""
    heldout_fraction: float = 0.02
    """Share of the documents that pre-training never sees."""
    language: str = "en"
    """Language code whose rules split the sentences."""
    seed: int = 1
    """Decides, with its id, on which side of the split a document falls."""

    def __post_init__(self) -> None:
        if not self.sources:
            raise ValueError("sources: found an empty list, expected at least one source; name one, such as pydoc")
        if self.max_documents is not None and self.max_documents < 1:
            raise ValueError(f"max_documents: found {self.max_documents}, expected at least 1, or null for all")
        if not 0 < self.heldout_fraction < 1:
            raise ValueError(f"heldout_fraction: found {self.heldout_fraction}, expected a share between 0 and 1")

    def split_of(self, document_id: str) -> str:
        """`train` or `heldout`; a function of the seed and the document's id alone."""
        return "heldout" if fraction_of(self.seed, document_id) < self.heldout_fraction else "train"


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
            "words": len(text.split()),
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
    """Read every source and write `output`/{train,heldout}-NNNNN.parquet (see `documents.CORPUS_SCHEMA`).

    `inputs` holds one folder per source, named by its position, with links to the source's local files. Raises
    `InputError` where nothing is left for a split.
    """
    statistics = CorpusStatistics()
    writers = {split: CorpusWriter(output, split) for split in SPLITS}
    for document in _unique(_cleaned(_read(config, inputs, output, statistics), config, statistics), statistics):
        sentences = cleaning.split_sentences(document.text, config.language)
        split = config.split_of(document.id)
        statistics.keep(split, document.text, sentences)
        writers[split].add(document, sentences)
    for writer in writers.values():
        writer.close()
    for split in SPLITS:
        if not statistics.kept[split]["documents"]:
            raise InputError(
                f"params.yaml: corpus.sources {config.sources}: no document for the split {split!r} "
                f"({sum(statistics.read.values())} read, dropped: {dict(statistics.dropped) or 'none'}), "
                "expected at least "
                f"one; give more text{'' if split == 'train' else ' or a larger corpus.heldout_fraction'}"
            )
    return statistics


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


def _cleaned(documents: Iterable[Document], config: CorpusConfig, statistics: CorpusStatistics) -> Iterator[Document]:
    filters = [cleaning.too_short(config.min_words), cleaning.no_letters]
    for document in documents:
        text = cleaning.normalise(document.text)
        if reason := cleaning.first_reason(text, filters):
            statistics.dropped[reason] += 1
        else:
            yield Document(document.id, text, document.source)


def _unique(documents: Iterable[Document], statistics: CorpusStatistics) -> Iterator[Document]:
    """Without exact copies: 16 bytes are kept of each document, so memory stays small for millions of them."""
    seen: set[bytes] = set()
    for document in documents:
        digest = hashlib.blake2b(document.text.encode(), digest_size=16).digest()
        if digest in seen:
            statistics.dropped["exact duplicate"] += 1
        else:
            seen.add(digest)
            yield document
