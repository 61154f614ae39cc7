"""A head family from outside the package: labels with an order. One class, and rows in `FAMILIES`, `SCHEMAS`,
`BASELINES` and `SCORINGS`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from bertcore.apply.finetuned import FineTuned
from bertcore.evaluation import baselines, scoring
from bertcore.examples import schema
from bertcore.examples.schema import ExampleSet
from bertcore.finetune import families
from bertcore.finetune.classification import Classification, Labelled
from bertcore.finetune.config import RunConfig
from bertcore.finetune.features import Batch
from bertcore.finetune.run import Finetuning
from bertcore.finetune.texts import TextFeatures
from bertcore.tokens.wordpiece import save_tokenizer

GRADES = ["0", "1", "2", "3"]


class Ordinal(Classification):
    """The label whose rank is nearest to the expected one; of wrong labels, near ones are better than far ones."""

    def loss(self, model: Any, logits: Tensor, batch: Batch) -> Tensor:
        """Cross entropy in nats with probabilities that fall with the distance from the right rank."""
        assert batch.targets is not None, "a batch without targets"
        distances = (torch.arange(logits.shape[-1]) - batch.targets[:, None]).abs()
        return functional.cross_entropy(logits.float(), torch.softmax(-4.0 * distances, -1), reduction="sum")

    def predict(self, table: pa.Table, features: TextFeatures, logits: NDArray[np.float32], model: Any) -> Labelled:
        probabilities = torch.softmax(torch.from_numpy(features.pooled(logits)), -1)
        ranks = (probabilities @ torch.arange(len(GRADES), dtype=torch.float32)).round().int().tolist()
        predicted = [float(GRADES[rank]) for rank in ranks]
        return Labelled(ids=table["id"].to_pylist(), predicted=predicted)


def lowest(examples: ExampleSet, seed: int) -> dict[str, list[float]]:
    """What needs no model says of dev: here, the first grade always."""
    return {"majority": [0.0] * examples.splits["dev"].num_rows}


def agreement(examples: ExampleSet, table: pa.Table, predicted: Any, metric: str) -> tuple[str, NDArray[np.float64]]:
    """What each example adds to the accuracy: 1 where the grade is right."""
    pairs = zip(table["label"].to_pylist(), predicted, strict=True)
    return "mean", np.asarray([[float(label) == grade] for label, grade in pairs], np.float64)


def accuracy(examples: ExampleSet, table: pa.Table, predicted: Any, metrics: Sequence[str]) -> dict[str, float]:
    """The one metric of these examples."""
    return {"accuracy": float(agreement(examples, table, predicted, "accuracy")[1].mean())}


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch, make_examples: Callable[..., ExampleSet]) -> ExampleSet:
    monkeypatch.setitem(families.FAMILIES, "ordinal", Ordinal)
    monkeypatch.setitem(schema.SCHEMAS, "ordinal", schema.CLASSIFICATION)
    monkeypatch.setitem(baselines.BASELINES, "ordinal", lowest)
    monkeypatch.setitem(scoring.SCORINGS, "ordinal", scoring.Scoring(accuracy, agreement))
    words = ["red", "green", "blue", "cat"]
    rows = [{"text_a": " ".join(["the", *words[: n % 4], "is"]), "label": GRADES[n % 4]} for n in range(160)]
    return make_examples("ordinal", GRADES, ["accuracy"], train=rows[:128], dev=rows[128:])


def test_it_is_learned_scored_saved_and_loaded(
    examples: ExampleSet, tokenizer: Tokenizer, config: Any, make_task: Callable[..., RunConfig], tmp_path: Path
) -> None:
    result = Finetuning(make_task(epochs=20, batch_size=16), examples, tokenizer).run(config)
    assert baselines.baselines(examples, 1)[1]["majority"]["accuracy"] == 0.25
    assert result.metrics["dev"]["accuracy"] >= 0.75
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(tokenizer, tmp_path / "tokenizer", lowercase=True)
    result.save_model(tmp_path / "model", tmp_path / "tokenizer")
    result.save_predictions(tmp_path / "predictions")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    encode = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    lines = (tmp_path / "predictions" / "dev.tsv").read_text().splitlines()[1:]
    ranks = torch.arange(len(GRADES), dtype=torch.float32)
    for text, line in zip(examples.splits["dev"]["text_a"].to_pylist(), lines, strict=True):
        with torch.no_grad():
            expected = torch.softmax(theirs(**encode(text, return_tensors="pt")).logits[0], -1) @ ranks
        assert float(line.split("\t")[1]) == float(expected.round())
    applied = FineTuned.load(tmp_path / "model", "classify").predict(examples.splits["dev"]).predictions
    assert [f"{grade}" for grade in applied.predicted] == [line.split("\t")[1] for line in lines]
