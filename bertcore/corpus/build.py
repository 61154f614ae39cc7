"""From sources to a corpus: cleaned, mixed, without copies, split into sentences and into train and held out."""

import hashlib
import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bertcore.corpus import cleaning, quality
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.contamination import Ngrams, evaluation_texts
from bertcore.corpus.documents import SPLITS, CorpusWriters, Document, RecordWriter, corpus_shards, row_groups
from bertcore.corpus.near_duplicates import NearDuplicates
from bertcore.corpus.sources import source_of
from bertcore.corpus.sources.source import Source
from bertcore.errors import InputError

logger = logging.getLogger(__name__)


@dataclass
class CorpusStatistics:
    """What was read, kept and dropped, for the metrics file."""

    read: Counter[str] = field(default_factory=Counter)
    """Documents by source."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Documents (and, where the reason says so, other records) by reason."""
    kept: dict[str, Counter[str]] = field(default_factory=lambda: {split: Counter() for split in SPLITS})
    """Documents, sentences, words and bytes (UTF-8) by split."""
    least_draw: float = 1.0
    """Of the kept documents, the least of the numbers that decide the split."""
    heldout_in_train: int = 0
    """Held-out sentences that stand in the training text, too."""

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
            "heldout_sentences_in_train_share": self.heldout_in_train / max(self.kept["heldout"]["sentences"], 1),
        }


def build_corpus(config: CorpusConfig, inputs: Path, output: Path) -> CorpusStatistics:
    """Read every source and write `output`/{train,heldout}-*.parquet (see `documents.CORPUS_SCHEMA`).

    `inputs` holds one folder per source, named by its position, with links to the source's local files, and
    `contamination` with links to the evaluation texts. Raises `InputError` where nothing is left for a split.
    """
    if config.language not in cleaning.LANGUAGES.split():
        logger.warning("corpus.language: sentences of %r are split by English rules: it has none here", config.language)
    statistics = _write(config, inputs, output)
    if not statistics.kept["heldout"]["documents"] and statistics.kept["train"]["documents"] > 1:
        nearest = statistics.least_draw
        logger.warning(
            "corpus.heldout_fraction: %g holds out none of %d documents: the sources are read again, with one held out",
            *(config.heldout_fraction, statistics.kept["train"]["documents"]),
        )
        for path in output.iterdir():
            path.unlink()
        statistics = _write(replace(config, heldout_fraction=math.nextafter(nearest, 1)), inputs, output)
    _check_splits(config, statistics)
    statistics.heldout_in_train = _shared_sentences(output)
    return statistics


def _shared_sentences(output: Path) -> int:
    """How many of the held-out sentences stand in the training text, too, letter for letter."""
    heldout = pa.concat_arrays([group.read().flatten() for group in row_groups(corpus_shards(output, "heldout"))])
    met = np.zeros(len(heldout), bool)
    for group in row_groups(corpus_shards(output, "train")):
        met |= pc.is_in(heldout, value_set=group.read().flatten().unique()).to_numpy(zero_copy_only=False)
    return int(met.sum())


def _write(config: CorpusConfig, inputs: Path, output: Path) -> CorpusStatistics:
    """Read every source once."""
    statistics = CorpusStatistics()
    documents = _cleaned(_drawn(_read(config, inputs, output, statistics), config, statistics), config, statistics)
    with CorpusWriters(output) as writers:
        documents = _unlike(_unique(documents, statistics), config, statistics)
        for document in _unevaluated(documents, config, inputs / "contamination", statistics):
            sentences = cleaning.split_sentences(document.text, config.language)
            split = config.split_of(document.id)
            statistics.least_draw = min(statistics.least_draw, config.draw_of(document.id))
            for copy in range(1 if split == "heldout" else config.copies_of(document)):
                statistics.keep(split, document.text, sentences)
                writers.add(split, copy, document, sentences)
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
        source = source_of(uri)
        files = sorted(path for path in (inputs / str(index)).rglob("*") if path.is_file())
        for line in source.warnings(files):
            logger.warning(line)
        with _record_writer(source, output, config) as writer:
            documents = source.documents(files, statistics.dropped, writer.add if writer else _forget)
            for document in islice(documents, config.max_documents):
                statistics.read[uri] += 1
                yield document


def _record_writer(source: Source, output: Path, config: CorpusConfig) -> AbstractContextManager[RecordWriter | None]:
    if source.RECORDS is None:
        return nullcontext()
    name, schema = source.RECORDS
    return RecordWriter(output / name, schema, config.split_of)


def _forget(_: object) -> None:
    """For sources that keep no records."""


def _drawn(documents: Iterable[Document], config: CorpusConfig, statistics: CorpusStatistics) -> Iterator[Document]:
    for document in documents:
        if config.copies_of(document):
            yield document
        else:
            statistics.dropped["not_drawn"] += 1


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
            statistics.dropped["exact_duplicate"] += 1
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
            statistics.dropped["near_duplicate"] += 1
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
            statistics.dropped["in_evaluation_text"] += 1
        else:
            yield document
