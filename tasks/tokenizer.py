"""Stage `tokenizer`: corpus -> WordPiece vocabulary and tokenizer in the Hugging Face layout."""

import sys
from collections.abc import Iterator
from itertools import islice

from bertcore.corpus.documents import corpus_shards, read_sentences
from bertcore.files import disk_errors, replace_directory, write_json
from bertcore.tokens import wordpiece
from bertcore.tokens.tokenizer import flatten, vocabulary_report
from bertcore.tokens.wordpiece import TokenizerConfig
from tasks import params
from tasks.paths import CORPUS, INPUTS, METRICS, TOKENIZER
from tasks.stage import main
from tasks.tracking.runs import StageRun

REPORT_BATCHES = 4
"""Row groups of held-out text that the vocabulary report counts."""


def run(stage_run: StageRun) -> None:
    config = params.section("tokenizer", TokenizerConfig)
    tokenizer = wordpiece.make_tokenizer(_vocabulary(config), config.lowercase)
    with disk_errors(TOKENIZER), replace_directory(TOKENIZER) as beside:
        wordpiece.save_tokenizer(tokenizer, beside, config.lowercase)
    report = vocabulary_report(tokenizer, islice(_sentences("heldout"), REPORT_BATCHES))
    write_json(METRICS / "tokenizer.json", report)
    stage_run.log_metrics(report)


def _vocabulary(config: TokenizerConfig) -> dict[str, int]:
    if config.vocab_file is None:
        return wordpiece.train_vocabulary(config, lambda: _sentences("train"))
    (link,) = (INPUTS / "vocabulary").iterdir()
    return wordpiece.load_vocabulary(link, config.vocab_file)


def _sentences(split: str) -> Iterator[list[str]]:
    return flatten(read_sentences(corpus_shards(CORPUS, split)))


if __name__ == "__main__":
    sys.exit(main("tokenizer", run, configs={"tokenizer": TokenizerConfig}))
