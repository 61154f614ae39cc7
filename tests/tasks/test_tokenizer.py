"""Stage tokenizer: a size that is left to it is that of the rule, in every token of the shards and in the model."""

import json
import logging
from pathlib import Path
from typing import Any, cast

import pytest

from bertcore.corpus.documents import corpus_shards, row_groups
from bertcore.model.config import ModelConfig
from bertcore.shards.build import encode_documents
from bertcore.shards.encoding import encoder_of
from bertcore.tokens.tokenizer import Vocabulary, load_tokenizer
from bertcore.training.config import PretrainConfig
from bertcore.training.initial import initial_model
from bertcore.vocabulary.size import CHOSEN, occurrences
from tasks import tokenizer
from tasks.paths import CORPUS, METRICS, TOKENIZER
from tasks.tracking.runs import StageRun
from tests.samples import LETTER_PAIRS, write_corpus
from tests.tasks.recorder import Recorder

EMBEDDINGS = "bert.embeddings.word_embeddings.weight"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text of 676 words, each 600 times."""
    monkeypatch.chdir(tmp_path)
    CORPUS.mkdir(parents=True)
    write_corpus(CORPUS, "train", [[" ".join(LETTER_PAIRS)] * 60] * 10)
    write_corpus(CORPUS, "heldout", [[" ".join(LETTER_PAIRS)]])
    return tmp_path


def made(size: int | str, kind: str) -> tuple[dict[str, Any], int, str]:
    """The stage's metrics, how many tokens of the training text its tokenizer makes, and the tokenizer."""
    Path("params.yaml").write_text(f"tokenizer: {{kind: {kind}, vocab_size: {size}}}\n")
    tokenizer.run(cast(StageRun, recorder := Recorder()))
    assert recorder.metrics == json.loads((METRICS / "tokenizer.json").read_text())
    blocks = (group.read() for group in row_groups(corpus_shards(CORPUS, "train")))
    shard = encode_documents(blocks, encoder_of(load_tokenizer(TOKENIZER)))
    return recorder.metrics, len(shard.tokens), (TOKENIZER / "tokenizer.json").read_text()


@pytest.mark.parametrize("kind", ["wordpiece", "byte_bpe", "modernbert_bpe"])
def test_auto_is_the_largest_size_that_the_text_carries(
    kind: str, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    metrics, tokens, own = made("auto", kind)
    size = metrics["vocab_size"]
    assert size % 64 == 0 and occurrences(tokens, size) >= 100
    assert metrics[CHOSEN].startswith(f"{size:,} entries: one at the 95th percentile")
    assert f"among the {tokens:,} pieces of the text" in metrics[CHOSEN]
    assert f"tokenizer.vocab_size: auto: {metrics[CHOSEN]}" in caplog.messages
    larger, more, _ = made(size + 64, kind)
    assert occurrences(more, size + 64) < 100 and CHOSEN not in larger
    assert made(size, kind)[2] == own, "the bytes of a vocabulary that is trained to that size"


def test_the_model_has_the_chosen_size(project: Path) -> None:
    made("auto", "wordpiece")
    config = PretrainConfig(model=ModelConfig(architecture="bert", preset="tiny"), objective="mlm", max_steps=10)
    model, _ = initial_model(config, Vocabulary.of(load_tokenizer(TOKENIZER)), TOKENIZER, Path("none"))
    assert model.config.vocab_size == 640 and model.state_dict()[EMBEDDINGS].shape[0] == 640
