"""Stage `minimal_pairs`: pre-trained encoder and minimal pairs -> how often it prefers the right sentence, beside
trigrams, bigrams, unigrams and length."""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertcore.files import replace_directory, write_json
from bertcore.minimal_pairs.embedded import make_pairs
from bertcore.minimal_pairs.ngrams import baseline_scorers
from bertcore.minimal_pairs.pairs import EMBEDDED, MinimalPairsConfig, Pair, read_numbered, score, subset
from bertcore.minimal_pairs.results import MODEL, summarize
from bertcore.minimal_pairs.scoring import ORIGINALITY, load_language_model, sentence_scorer
from bertcore.model.huggingface import load_kind
from bertcore.shards.store import Manifest, TokenShard
from bertcore.tokens.tokenizer import load_tokenizer
from tasks import params
from tasks.paths import CORPUS, METRICS, MINIMAL_PAIRS, PREDICTIONS, PRETRAINED, SHARDS, TEXT
from tasks.stage import main
from tasks.tracking.runs import StageRun

logger = logging.getLogger(__name__)


def run(stage_run: StageRun) -> None:
    config = params.section("minimal_pairs", MinimalPairsConfig)
    pairs = subset(_pairs(config), config.share)
    if not pairs:
        logger.info("there are no minimal pairs: params.yaml names none, or the held-out text is too short to give any")
    scores = _scores(pairs, config) if pairs else {}
    variant = ORIGINALITY if load_kind(PRETRAINED) == "replaced_tokens" else config.variant
    made_of = EMBEDDED if config.pairs == EMBEDDED else "files"
    settings = {"variant": variant, "made_of": made_of, "share": config.share}
    metrics = {**settings, **summarize(pairs, scores)} if pairs else {}
    with replace_directory(PREDICTIONS / "minimal_pairs") as beside:
        _write(pairs, scores, beside / "scores.jsonl")
    write_json(METRICS / "minimal_pairs.json", metrics)
    stage_run.log_metrics(metrics)


def _pairs(config: MinimalPairsConfig) -> list[Pair]:
    if config.pairs == EMBEDDED:
        return make_pairs(CORPUS, json.loads(TEXT.read_text(encoding="utf-8"))["language"])
    return read_numbered(MINIMAL_PAIRS, len(config.files))


def _scores(pairs: Sequence[Pair], config: MinimalPairsConfig) -> dict[str, NDArray[np.float64]]:
    """(P, 2) scores by every system, the model first."""
    tokenizer = load_tokenizer(PRETRAINED)
    shards = (TokenShard.open(SHARDS / entry.name) for entry in Manifest.read(SHARDS).of_split("train"))
    texts = [text for pair in pairs for text in (pair.good, pair.bad)]
    model = sentence_scorer(load_language_model(PRETRAINED), tokenizer, config.variant)
    scorers = {MODEL: model, **baseline_scorers(shards, tokenizer, texts)}
    return {name: score(pairs, scorer) for name, scorer in scorers.items()}


def _write(pairs: Sequence[Pair], scores: Mapping[str, NDArray[np.float64]], path: Path) -> None:
    """A pair a line, with the scores of its good and its bad sentence by every system."""
    with path.open("w", encoding="utf-8") as file:
        for place, pair in enumerate(pairs):
            by_system = {name: values[place].round(4).tolist() for name, values in scores.items()}
            file.write(json.dumps({**vars(pair), "scores": by_system}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main("minimal_pairs", run, configs={"minimal_pairs": MinimalPairsConfig}))
