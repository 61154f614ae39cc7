"""Several labels a text: loss and logits of `transformers`, and the file that the scorer reads."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer

from bertcore.errors import InputError
from bertcore.evaluation.multi_label import evaluate_files
from bertcore.evaluation.scoring import score
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import RunConfig
from bertcore.finetune.multi_label import MultiLabel
from bertcore.model.bert import BertConfig
from bertcore.model.huggingface import save_pretrained

ROWS = [
    {"text_a": "the red cat", "labels": ["colour", "animal"]},
    {"text_a": "a dog", "text_b": "what", "labels": ["animal"]},
    {"text_a": "is", "labels": []},
]
LABELS = ["animal", "colour", "place"]


def test_saved_model_gives_the_same_logits_and_loss_in_transformers(
    tokenizer: Tokenizer,
    config: BertConfig,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    tmp_path: Path,
) -> None:
    examples = make_examples("multi_label", LABELS, ["micro_f1"], train=ROWS)
    family = MultiLabel(make_task(), examples, tokenizer)
    model = family.build(config).eval()
    torch.nn.init.normal_(model.classifier.weight)
    save_pretrained(model, tmp_path / "model", extra_config=family.exported(model).config)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    assert theirs.config.problem_type == "multi_label_classification"
    features = family.featurize(examples.splits["train"])
    assert features.targets is not None and features.targets.tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0]]
    for row in range(3):
        batch = features.batch(np.asarray([row]))
        with torch.no_grad():
            logits = model(batch.input_ids, batch.token_type_ids, batch.layout)
            tokens, types = batch.input_ids[None], batch.token_type_ids[None]
            expected = theirs(input_ids=tokens, token_type_ids=types, labels=batch.targets)
        torch.testing.assert_close(logits, expected.logits, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(family.loss(model, logits, batch) / batch.count, expected.loss)


def test_predictions_are_scored_from_their_file_as_in_memory(
    tokenizer: Tokenizer,
    make_task: Callable[..., RunConfig],
    make_examples: Callable[..., ExampleSet],
    config: BertConfig,
    tmp_path: Path,
) -> None:
    examples = make_examples("multi_label", LABELS, ["micro_f1", "macro_f1", "exact_match"], train=ROWS)
    family = MultiLabel(make_task(), examples, tokenizer)
    features = family.featurize(examples.splits["train"])
    logits = np.asarray([[2, 0.1, -1], [-1, 3, -1], [-1, -1, -1]], dtype=np.float32)
    predictions = family.predict(examples.splits["train"], features, logits, family.build(config))
    assert predictions.predicted == [["animal", "colour"], ["colour"], []]
    predictions.write(tmp_path, "dev")
    assert (tmp_path / "dev.tsv").read_text() == "index\tprediction\n0\tanimal,colour\n1\tcolour\n2\t\n"
    gold = "index\tlabels\n0\tcolour,animal\n1\tanimal\n2\t\n"
    (tmp_path / "gold.tsv").write_text(gold)
    from_file = evaluate_files(tmp_path / "gold.tsv", tmp_path / "dev.tsv")
    found = score(examples, examples.splits["train"], predictions.predicted, examples.metrics)
    assert found["micro_f1"] == from_file["micro_f1"] == 2 / 3
    assert found["exact_match"] == from_file["exact_match"] == 2 / 3
    assert found["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)  # over all labels of the task


def test_unknown_label_is_named_with_its_example(
    tokenizer: Tokenizer, make_task: Callable[..., RunConfig], make_examples: Callable[..., ExampleSet]
) -> None:
    examples = make_examples("multi_label", LABELS, ["micro_f1"], train=[*ROWS, {"text_a": "x", "labels": ["sky"]}])
    with pytest.raises(InputError, match=r"example 3: found the label 'sky', expected one of animal, colour, place"):
        MultiLabel(make_task(), examples, tokenizer).featurize(examples.splits["train"])
