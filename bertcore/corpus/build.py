"""From sources to a corpus: cleaned, mixed, without copies, split into sentences and into train and held out."""

import logging
import math
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from numpy.typing import NDArray

from bertcore import workers
from bertcore.corpus import cleaning
from bertcore.corpus.candidates import Batch, Examined, Files, examine, ids_of, ngrams_of
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.documents import RecordWriter
from bertcore.corpus.duplicates import Seen
from bertcore.corpus.overlap import shared_sentences
from bertcore.corpus.sources import source_of
from bertcore.corpus.sources.source import Block, Keep, Source, gathered, in_blocks
from bertcore.corpus.statistics import CorpusStatistics, SourceStatistics, check_share, check_splits
from bertcore.corpus.writing import ShardPlan, ShardPlans, write_shard
from bertcore.errors import ConfigError, InputError
from bertcore.files import checksum
from bertcore.progress import Progress

logger = logging.getLogger(__name__)


def build_corpus(config: CorpusConfig, inputs: Path, output: Path, count: int | None = None) -> CorpusStatistics:
    """Read every source and write `output`/{train,heldout}-*.parquet (see `documents.CORPUS_SCHEMA`).

    `inputs` holds one folder per source, named by its position, with links to the source's local files, and
    `contamination` with links to the evaluation texts. `count`: worker processes, see `workers.run`; they change
    nothing in the output. Raises `InputError` where nothing is left for a split.
    """
    if config.language not in cleaning.LANGUAGES.split():
        logger.warning("corpus.language: sentences of %r are split by English rules: it has none here", config.language)
    contamination = config.contamination
    evaluation = _files(inputs / "contamination", contamination.texts if contamination else [])
    if contamination is not None:
        _check_evaluation(evaluation, contamination.ngram)
    exclude = _files(inputs / "exclude", [config.exclude] if config.exclude else [])
    statistics = _write(config, inputs, output, evaluation, exclude, count)
    if not statistics.kept["heldout"]["documents"] and statistics.kept["train"]["documents"] > 1:
        nearest = statistics.least_draw
        logger.warning(
            "corpus.heldout_fraction: %g holds out none of %d documents: the sources are read again, with one held out",
            *(config.heldout_fraction, statistics.kept["train"]["documents"]),
        )
        for path in output.iterdir():
            path.unlink()
        other = replace(config, heldout_fraction=math.nextafter(nearest, 1))
        statistics = _write(other, inputs, output, evaluation, exclude, count)
    check_splits(config, statistics)
    check_share(config, statistics)
    statistics.heldout_in_train = shared_sentences(output.resolve(), count)
    return statistics


def _check_evaluation(files: Files, ngram: int) -> None:
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
    config: CorpusConfig, inputs: Path, output: Path, evaluation: Files, exclude: Files, count: int | None
) -> CorpusStatistics:
    """Read every source once. This process finds the blocks of the text and says which documents are kept; the workers
    do all else."""
    statistics = CorpusStatistics({uri: SourceStatistics() for uri in config.uris})
    seen, plans, unmatched = Seen(config.near_duplicates, output), ShardPlans(output), set(ids_of(exclude))
    parts = Path(mkdtemp(prefix=".parts-", dir=output.resolve()))

    def pieces() -> Iterator[Batch | ShardPlan]:
        for number, (uri, blocks) in enumerate(_read(config, inputs, output, ids_of(exclude), statistics)):
            yield from plans.complete()
            yield Batch(uri, blocks, str(parts / f"{number:08d}"), config, evaluation, exclude)

    progress, size = Progress("corpus", _megabytes(config)), 0
    for found in workers.run(_do, pieces(), count):
        if not isinstance(found, Examined):
            for part in found:
                part.unlink()
            continue
        statistics.add_read(found)
        unmatched.difference_update(found.excluded)
        _keep(found, seen.objections(found.digests, found.signatures), plans, statistics)
        megabytes, size = divmod(size + found.size, _MEGABYTE)
        if megabytes:
            progress.advance(f"MB of text, {statistics.read:,} documents", steps=megabytes)
    for plan in plans.rest():  # a few, which new workers would begin later than they are written here
        write_shard(plan)
    progress.close()
    shutil.rmtree(parts)
    for uri, source in statistics.sources.items():
        if not source.read:
            logger.warning("%s: no document in it", uri)
    _warn_of_unmatched(unmatched)
    return replace(statistics, unmatched=len(unmatched))


def _warn_of_unmatched(ids: set[str]) -> None:
    if ids:
        logger.warning(
            "corpus.exclude: %d of its ids are of no document that was read, such as %r; write them as the column id "
            "of data/corpus has them, without the #2, #3, … of further copies (docs/corpus.md)",
            *(len(ids), min(ids)),
        )


def _do(piece: Batch | ShardPlan) -> Examined | list[Path]:
    return write_shard(piece) if isinstance(piece, ShardPlan) else examine(piece)


def _keep(
    found: Examined, objections: dict[str, NDArray[np.int64]], plans: ShardPlans, statistics: CorpusStatistics
) -> None:
    """Plan the uses of all candidates without an objection."""
    kept = np.ones(len(found.digests), bool)
    for reason, candidates in objections.items():
        kept[candidates] = False
        if len(candidates):
            statistics.sources[found.source].dropped[reason] += len(candidates)
    for use in found.uses():
        rows = np.flatnonzero(kept[use.candidates])
        if len(rows):
            plans.add(use.name, found.part_of(use), rows, found.characters[use.candidates[rows]])
            statistics.add_kept(use, found, use.candidates[rows])
        else:
            found.part_of(use).unlink()


def _read(
    config: CorpusConfig, inputs: Path, output: Path, unwanted: frozenset[str], statistics: CorpusStatistics
) -> Iterator[tuple[str, tuple[Block, ...]]]:
    """The text of all sources, in blocks with the source's URI."""
    for index, entry in enumerate(config.sources):
        source, dropped = source_of(entry.uri, **entry.reading), statistics.sources[entry.uri].dropped
        files = sorted(path for path in (inputs / str(index)).rglob("*") if path.is_file())
        for line in source.warnings(files):
            logger.warning(line)
        with _record_writer(source, output, config) as writer:
            keep = _all_but(unwanted, writer) if writer else _forget
            if config.max_documents is None:
                blocks = source.blocks(files, dropped, keep)
            else:
                blocks = in_blocks(islice(source.documents(files, dropped, keep), config.max_documents))
            for some in gathered(blocks):
                yield entry.uri, some


def _megabytes(config: CorpusConfig) -> int | None:
    """About how much text there is to be read; None where only a part of it is, its size is not known before, or the
    files are not here."""
    if config.max_documents is not None:
        return None
    try:
        sizes = [source_of(each.uri, **each.reading).text_bytes() for each in config.sources]
    except ConfigError:
        return None
    return None if None in sizes else round(sum(size or 0 for size in sizes) / _MEGABYTE)


_MEGABYTE = 1_000_000


def _record_writer(source: Source, output: Path, config: CorpusConfig) -> AbstractContextManager[RecordWriter | None]:
    if source.RECORDS is None:
        return nullcontext()
    name, schema = source.RECORDS
    return RecordWriter(output / name, schema, config.split_of)


def _all_but(unwanted: frozenset[str], writer: RecordWriter) -> Keep:
    """Keeps the records of all other documents."""
    return lambda record: None if record["document_id"] in unwanted else writer.add(record)


def _forget(_: object) -> None:
    """For sources that keep no records."""


def _files(links: Path, given: list[str]) -> Files:
    """As stage `inputs` has linked them, else those of the config; none where it names none."""
    linked = sorted(path for path in links.rglob("*") if path.is_file()) if given else []
    paths = linked or [Path(name).expanduser() for name in given]
    return tuple((str(path.absolute()), checksum(path)) for path in paths)
