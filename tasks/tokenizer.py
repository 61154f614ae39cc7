"""Stage `tokenizer`: corpus -> vocabulary and tokenizer in the Hugging Face layout."""

import logging
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer

from bertcore.corpus.documents import corpus_shards, row_groups
from bertcore.files import disk_errors, replace_directory, write_json
from bertcore.tokens.kind import running
from bertcore.tokens.tokenizer import KINDS, TokenizerConfig, vocabulary_report
from bertcore.tokens.words import WordCounts
from bertcore.vocabulary import auto
from bertcore.vocabulary.corpus_words import count_corpus
from bertcore.vocabulary.extension import extended
from bertcore.vocabulary.size import CHOSEN
from tasks import params
from tasks.paths import CORPUS, MERGES, METRICS, TOKENIZER, VOCABULARY
from tasks.stage import main
from tasks.tracking.runs import StageRun

logger = logging.getLogger(__name__)

MUCH_UNKNOWN = 0.05
"""Of the characters: more than that says that the vocabulary does not suit the text."""
REPORT_BATCHES = 4
"""Row groups of held-out text that the vocabulary report counts."""


def run(stage_run: StageRun) -> None:
    config = params.section("tokenizer", TokenizerConfig)
    kind = KINDS[config.kind]
    words = None
    if config.vocab_file is None or config.new_entries:
        words = count_corpus(corpus_shards(CORPUS, "train"), kind.cutter(config), kind.blank)
    tokenizer, why = _tokenizer(config, words)
    given = tokenizer
    if words and config.new_entries:
        tokenizer = extended(given, words.counts, config.new_entries, config.min_frequency)
    with disk_errors(TOKENIZER), replace_directory(TOKENIZER) as beside:
        kind.save(tokenizer, beside, None)
    report = vocabulary_report(tokenizer, islice(_sentences(kind.blank), REPORT_BATCHES))
    if (unknown := report["heldout_unknown_character_share"]) > MUCH_UNKNOWN:
        logger.warning(
            "%.0f %% of the held-out text's characters stand in words that the vocabulary cannot write: nothing is "
            "learned of them; scripts without blanks want tokenizer.kind: byte_bpe, rare characters a larger "
            "tokenizer.alphabet_size",
            100 * unknown,
        )
    if config.new_entries:
        before = vocabulary_report(given, islice(_sentences(kind.blank), REPORT_BATCHES))
        report["heldout_pieces_per_word_before"] = before["heldout_pieces_per_word"]
    report |= words.report() if words else {}
    report |= {CHOSEN: why} if why else {}
    write_json(METRICS / "tokenizer.json", report)
    stage_run.log_metrics(report)


def _tokenizer(config: TokenizerConfig, words: WordCounts | None) -> tuple[Tokenizer, str | None]:
    """Trained on `words`, or read from the files of the config; and why it has the size that was left to the stage."""
    kind = KINDS[config.kind]
    if config.vocab_file is None:
        assert words is not None
        if not config.size_is_chosen:
            return kind.train(config, words.counts), None
        chosen = auto.trained(kind, config, words.counts)
        logger.info("tokenizer.vocab_size: auto: %s", chosen.why)
        if chosen.too_little:
            logger.warning("the text is too little for any vocabulary: give more text")
        return chosen.tokenizer, chosen.why
    files = [VOCABULARY / Path(config.vocab_file).name]  # as stage `inputs` has linked them
    if config.merges_file is not None:
        files.append(MERGES / Path(config.merges_file).name)
    return kind.read(files, config.lowercase, config.vocab_file), None


def _sentences(blank: str) -> Iterator[list[str]]:
    """Row groups of held-out text."""
    return (running(group.read(), blank).to_pylist() for group in row_groups(corpus_shards(CORPUS, "heldout")))


if __name__ == "__main__":
    sys.exit(main("tokenizer", run, configs={"tokenizer": TokenizerConfig}))
