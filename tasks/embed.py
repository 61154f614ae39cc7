"""Stage `embed`: pre-trained encoder and corpus (or pairs) -> sentence vectors, in the layout of SentenceTransformers.

Scored by what they find among held-out pairs, beside BM25 and beside the encoder before. Without `embed.pairs` there is
nothing to do, and the outputs are empty.
"""

import logging
import sys
from typing import Any

import torch

from bertcore.embedding import directory
from bertcore.embedding.config import EmbedConfig
from bertcore.embedding.pairs import PairSets, read_pair_sets
from bertcore.embedding.training import ContrastiveTraining
from bertcore.errors import ConfigError
from bertcore.export import gate
from bertcore.files import replace_directory, write_json
from bertcore.model.config import architecture_of
from bertcore.model.encoder import Encoder
from bertcore.model.huggingface import load_config, load_pretrained
from bertcore.tokens.tokenizer import load_tokenizer
from bertcore.training.machine import make_accelerator
from tasks import cards, params
from tasks.paths import CORPUS, EMBEDDING, INPUTS, METRICS, PRETRAINED
from tasks.stage import main
from tasks.tracking.runs import StageRun

logger = logging.getLogger(__name__)


def run(stage_run: StageRun) -> None:
    config = params.section("embed", EmbedConfig)
    if config.pairs is None:
        logger.info("there are no sentence vectors: embed.pairs of params.yaml names no pairs")
        with replace_directory(EMBEDDING):
            pass
        write_json(METRICS / "embed.json", {})
        return
    pairs = read_pair_sets(config, CORPUS, INPUTS / "embed")
    model, metrics = _train(config, pairs, stage_run)
    directory.save(model, EMBEDDING, PRETRAINED, config.sequence_length, cards.of_embedding(model, metrics))
    gate.check(model, EMBEDDING, PRETRAINED)
    write_json(METRICS / "embed.json", metrics)
    stage_run.log_metrics(metrics["systems"], metrics["steps"])


def _train(config: EmbedConfig, pairs: PairSets, stage_run: StageRun) -> tuple[Encoder, dict[str, Any]]:
    """The trained encoder, and the content of metrics/embed.json."""
    from bertcore.embedding.scoring import Search  # only here: it brings scikit-learn, a second for nothing to do

    accelerator, tokenizer = make_accelerator(), load_tokenizer(PRETRAINED)
    model = _encoder(config).to(accelerator.device)
    search, length = Search(pairs.heldout), config.sequence_length
    (before,) = search.vectors(model.eval(), tokenizer, length).values()
    try:
        training = ContrastiveTraining(model, tokenizer, pairs.train, config, accelerator, stage_run.report)
    except ValueError as error:
        raise ConfigError(f"params.yaml: embed.{error}") from None
    training.run("embed")
    (width, whole), *narrow = search.vectors(model, tokenizer, length, config.dimensions).items()
    dimensions = {f"dimension_{each}": scores for each, scores in narrow}
    return model, {
        "pairs": config.pairs,
        "width": width,
        "train_pairs": len(pairs.train),
        "dropped_pairs": pairs.dropped,
        "queries": len(search.queries),
        "passages": len(search.passages),
        "steps": training.steps,
        "truncated": training.truncated,
        "systems": {"model": whole, **dimensions, "before": before, "bm25": search.bm25()},
    }


def _encoder(config: EmbedConfig) -> Encoder:
    """The pre-trained one; what it has not (a pooler) is drawn by the seed."""
    torch.manual_seed(config.seed)
    shape = load_config(PRETRAINED)
    model = architecture_of(shape).encoder(shape.with_dropout(config.dropout, 0.0))
    load_pretrained(model, PRETRAINED)
    return model


if __name__ == "__main__":
    sys.exit(main("embed", run, configs={"embed": EmbedConfig}))
