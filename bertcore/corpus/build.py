"""From sources to a corpus: cleaned, mixed, without copies, split into sentences and into train and held out."""

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from bertcore import workers
from bertcore.corpus import cleaning
from bertcore.corpus.candidates import Candidate, EvaluationFiles, batches, examine, ngrams_of
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.digests import Digests
from bertcore.corpus.documents import SPLITS, CorpusWriters, Document, RecordWriter
from bertcore.corpus.near_duplicates import NearDuplicates
from bertcore.corpus.overlap import shared_sentences
from bertcore.corpus.sources import source_of
from bertcore.corpus.sources.source import Source
from bertcore.errors import ConfigError, InputError
from bertcore.files import checksum
from bertcore.progress import Progress

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
    different: Counter[str] = field(default_factory=Counter)
    """Kept documents by split, each of them once, however often it is used."""
    least_draw: float = 1.0
    """Of the kept documents, the least of the numbers that decide the split."""
    heldout_in_train: float = 0.0
    """Share of the held-out sentences that stand in the training text, too."""

    def as_metrics(self) -> dict[str, Any]:
        return {
            "documents_read": dict(sorted(self.read.items())),
            "dropped": dict(sorted(self.dropped.items())),
            **{split: dict(self.kept[split]) for split in SPLITS},
            "heldout_sentences_in_train_share": self.heldout_in_train,
        }


def build_corpus(config: CorpusConfig, inputs: Path, output: Path, count: int | None = None) -> CorpusStatistics:
    """Read every source and write `output`/{train,heldout}-*.parquet (see `documents.CORPUS_SCHEMA`).

    `inputs` holds one folder per source, named by its position, with links to the source's local files, and
    `contamination` with links to the evaluation texts. `count`: worker processes, see `workers.run`; they change
    nothing in the output. Raises `InputError` where nothing is left for a split.
    """
    if config.language not in cleaning.LANGUAGES.split():
        logger.warning("corpus.language: sentences of %r are split by English rules: it has none here", config.language)
    evaluation = _evaluation_files(config, inputs)
    if config.contamination is not None:
        _check_evaluation(evaluation, config.contamination.ngram)
    statistics = _write(config, inputs, output, evaluation, count)
    if not statistics.kept["heldout"]["documents"] and statistics.kept["train"]["documents"] > 1:
        nearest = statistics.least_draw
        logger.warning(
            "corpus.heldout_fraction: %g holds out none of %d documents: the sources are read again, with one held out",
            *(config.heldout_fraction, statistics.kept["train"]["documents"]),
        )
        for path in output.iterdir():
            path.unlink()
        other = replace(config, heldout_fraction=math.nextafter(nearest, 1))
        statistics = _write(other, inputs, output, evaluation, count)
    _check_splits(config, statistics)
    _check_share(config, statistics)
    statistics.heldout_in_train = shared_sentences(output.resolve(), count)
    return statistics


def _check_evaluation(files: EvaluationFiles, ngram: int) -> None:
    """A warning for each of `files` of which no text can be found in any document; `InputError` where none has any."""
    names = [Path(file).name for file, _ in files]
    long_enough = [ngrams_of((file,), ngram).long_enough for file in files]
    for name, of_file in zip(names, long_enough, strict=True):
        said = "%s: %d of %d evaluation texts have %d words, and are looked for"
        logger.log(logging.INFO if of_file.any() else logging.WARNING, said, name, of_file.sum(), len(of_file), ngram)
    if not any(of_file.any() for of_file in long_enough):
        raise InputError(
            f"params.yaml: corpus.contamination: found no text of {ngram} words in {', '.join(names) or 'no file'}, "
            "expected some to look for; correct the texts, lower ngram, or set corpus.contamination to null"
        )


def _write(
    config: CorpusConfig, inputs: Path, output: Path, evaluation: EvaluationFiles, count: int | None
) -> CorpusStatistics:
    """Read every source once: this process reads and writes, the workers do what is between."""
    statistics, seen = CorpusStatistics(), _Seen(config, output)
    found = batches(_shown(_read(config, inputs, output, statistics), config), config, evaluation)
    with CorpusWriters(output) as writers:
        for examined in workers.run(examine, found, count):
            statistics.dropped.update(examined.dropped)
            places: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
            for place, (candidate, reason) in enumerate(seen.objections(examined.candidates)):
                if reason:
                    statistics.dropped[reason] += 1
                    continue
                for use in _uses(candidate, config, statistics):
                    places[use].append(place)
            for (split, copy), kept in places.items():
                writers.add(split, copy, examined.documents.take(kept))
    return statistics


def _uses(candidate: Candidate, config: CorpusConfig, statistics: CorpusStatistics) -> Iterator[tuple[str, int]]:
    """The split and the number of each copy of a document that enters the corpus; all are counted."""
    split = config.split_of(candidate.id)
    statistics.different[split] += 1
    statistics.least_draw = min(statistics.least_draw, config.draw_of(candidate.id))
    for copy in range(1 if split == "heldout" else candidate.copies):
        statistics.kept[split].update(candidate.amounts)
        yield split, copy


class _Seen:
    """The candidates so far, in the order of the sources: the first of several that are alike is kept. Where their
    digests and signatures outgrow the memory, they are on disk, beside the corpus."""

    def __init__(self, config: CorpusConfig, directory: Path):
        self._digests = Digests(directory)
        self._near = NearDuplicates(config.near_duplicates, directory) if config.near_duplicates else None

    def objections(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, str | None]]:
        """Each of the next candidates, and why it does not enter the corpus; None where it does. One that is
        dropped for an evaluation text makes no later one a duplicate."""
        clean = [candidate for candidate in candidates if not candidate.in_evaluation_text]
        new = self._digests.add([candidate.digest for candidate in clean])
        firsts = [candidate for candidate, first in zip(clean, new, strict=True) if first]
        signatures = [first.signature for first in firsts if first.signature is not None]
        unlike = self._near.add(signatures) if self._near else [True] * len(firsts)
        is_new, is_unlike = iter(new), iter(unlike)
        for candidate in candidates:
            if candidate.in_evaluation_text:
                yield candidate, "in_evaluation_text"
            elif not next(is_new):
                yield candidate, "exact_duplicate"
            else:
                yield candidate, None if next(is_unlike) else "near_duplicate"


def _check_splits(config: CorpusConfig, statistics: CorpusStatistics) -> None:
    for split in SPLITS:
        if not statistics.kept[split]["documents"]:
            raise InputError(
                f"params.yaml: corpus.sources {config.sources}: no document for the split {split!r} "
                f"({sum(statistics.read.values())} read, dropped: {dict(statistics.dropped) or 'none'}), "
                "expected at least "
                f"one; {_remedy(split, statistics)}"
            )


def _check_share(config: CorpusConfig, statistics: CorpusStatistics) -> None:
    """Warn where so many documents are held out as chance does not bring about: several share an id, which decides."""
    documents, share = statistics.different.total(), config.heldout_fraction
    expected, deviation = documents * share, math.sqrt(documents * share * (1 - share))
    if abs(statistics.different["heldout"] - expected) > _STANDARD_DEVIATIONS * deviation + 1:
        logger.warning(
            "corpus.heldout_fraction: %d of %d documents are held out, %.0f were expected: many share an id, which "
            "decides that; give every document an id of its own",
            *(statistics.different["heldout"], documents, expected),
        )


_STANDARD_DEVIATIONS = 5
"""By chance one corpus in a million is further off."""


def _remedy(split: str, statistics: CorpusStatistics) -> str:
    if sum(statistics.read.values()) == 1:
        return "give more documents: in a .txt a blank line ends one (docs/corpus.md)"
    if split == "heldout":
        return "give more text or a larger corpus.heldout_fraction"
    if statistics.kept["heldout"]["documents"] > 1:
        return (
            "all fell to the held-out text by their ids, which decide that; give every document an id of its own, or "
            "lower corpus.heldout_fraction"
        )
    return "give more text"


def _read(config: CorpusConfig, inputs: Path, output: Path, statistics: CorpusStatistics) -> Iterator[Document]:
    for index, uri in enumerate(config.sources):
        source = source_of(uri)
        files = sorted(path for path in (inputs / str(index)).rglob("*") if path.is_file())
        for line in source.warnings(files):
            logger.warning(line)
        statistics.read[uri] = 0
        with _record_writer(source, output, config) as writer:
            documents = source.documents(files, statistics.dropped, writer.add if writer else _forget)
            for document in islice(documents, config.max_documents):
                statistics.read[uri] += 1
                yield document
        if not statistics.read[uri]:
            logger.warning("%s: no document in it", uri)


def _shown(documents: Iterator[Document], config: CorpusConfig) -> Iterator[Document]:
    """`documents`, with their progress shown, in megabytes of text."""
    progress, size = Progress("corpus", _megabytes(config)), 0
    for count, document in enumerate(documents, start=1):
        size += len(document.text.encode(errors="replace"))
        if size >= _MEGABYTE:
            progress.advance(f"MB of text, {count:,} documents", steps=size // _MEGABYTE)
            size %= _MEGABYTE
        yield document
    progress.close()


def _megabytes(config: CorpusConfig) -> int | None:
    """About how much text there is to be read; None where only a part of it is, its size is not known before, or the
    files are not here."""
    if config.max_documents is not None:
        return None
    try:
        sizes = [source_of(uri).text_bytes() for uri in config.sources]
    except ConfigError:
        return None
    return None if None in sizes else round(sum(size or 0 for size in sizes) / _MEGABYTE)


_MEGABYTE = 1_000_000


def _record_writer(source: Source, output: Path, config: CorpusConfig) -> AbstractContextManager[RecordWriter | None]:
    if source.RECORDS is None:
        return nullcontext()
    name, schema = source.RECORDS
    return RecordWriter(output / name, schema, config.split_of)


def _forget(_: object) -> None:
    """For sources that keep no records."""


def _evaluation_files(config: CorpusConfig, inputs: Path) -> EvaluationFiles:
    """As stage `inputs` has linked them, else those of the config."""
    if config.contamination is None:
        return ()
    linked = sorted(path for path in (inputs / "contamination").rglob("*") if path.is_file())
    paths = linked or [Path(text) for text in config.contamination.texts]
    return tuple((str(path.absolute()), checksum(path)) for path in paths)
