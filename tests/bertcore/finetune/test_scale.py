"""Numbers in any unit are learned alike, and a saved model says them in their own."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer

from bertcore.apply.finetuned import FineTuned
from bertcore.errors import InputError
from bertcore.examples.schema import ExampleSet
from bertcore.finetune.config import DistillationConfig, RunConfig
from bertcore.finetune.inference import logits_of
from bertcore.finetune.run import Finetuning
from bertcore.finetune.scale import Scale
from bertcore.model.config import ARCHITECTURES
from bertcore.model.encoder_config import EncoderConfig

WORDS = ["red", "green", "blue", "cat", "dog", "bird", "table", "river"]


def shares_of_colours(make_examples: Callable[..., ExampleSet], factor: float, shift: float) -> ExampleSet:
    def rows(count: int, seed: int) -> list[dict[str, object]]:
        generator = random.Random(seed)
        texts = [generator.choices(WORDS, k=6) for _ in range(count)]
        return [
            {"text_a": " ".join(words), "label": factor * sum(word in WORDS[:3] for word in words) / 6 + shift}
            for words in texts
        ]

    return make_examples("classification", None, ["pearson", "spearmanr"], train=rows(96, 1), dev=rows(32, 2))


@pytest.mark.parametrize("early_choice", [False, True])
def test_scores_do_not_depend_on_the_unit_of_the_numbers(
    early_choice: bool,
    make_examples: Callable[..., ExampleSet],
    make_task: Callable[..., RunConfig],
    tokenizer: Tokenizer,
    saved_tokenizer: Path,
    configs: dict[str, EncoderConfig],
    tmp_path: Path,
) -> None:
    task = make_task(epochs=6, batch_size=16, early_choice=early_choice)
    plain, other = (shares_of_colours(make_examples, *unit) for unit in ((1.0, 0.0), (10.0, 100.0)))
    first, second = (Finetuning(task, examples, tokenizer).run(configs["bert"]) for examples in (plain, other))
    assert first.metrics["dev"]["pearson"] > 0.8
    for split, scores in first.metrics.items():
        assert second.metrics[split] == pytest.approx(scores, abs=1e-3)
    predicted = [np.asarray(each.predictions["dev"].predicted) for each in (first, second)]
    np.testing.assert_allclose(predicted[1], 10 * predicted[0] + 100, atol=0.05)
    # The unit is that of what is trained on, without what is kept back.
    prepared = Finetuning(task, other, tokenizer)
    learned = prepared.examples.splits["train"]["label"].to_numpy()
    assert (len(learned) < 96) == early_choice
    assert prepared._scale == Scale(pytest.approx(learned.mean()), pytest.approx(learned.std()))
    # What is saved says the numbers, too: here, in transformers, and after another start.
    second.save_model(tmp_path / "model", saved_tokenizer)
    said = FineTuned.load(tmp_path / "model", "regress").predict(other.splits["dev"]).predictions.predicted
    np.testing.assert_allclose(said, predicted[1], atol=0.05)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    encode = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    with torch.no_grad():
        logits = [
            float(theirs(**encode(text, return_tensors="pt")).logits)
            for text in other.splits["dev"]["text_a"].to_pylist()
        ]
    np.testing.assert_allclose(logits, predicted[1], atol=0.05)


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_the_last_layer_of_every_architecture_is_put_into_the_unit(
    architecture: str,
    make_examples: Callable[..., ExampleSet],
    make_task: Callable[..., RunConfig],
    tokenizer: Tokenizer,
    configs: dict[str, EncoderConfig],
) -> None:
    prepared = Finetuning(make_task(), shares_of_colours(make_examples, 1.0, 0.0), tokenizer)
    model = prepared.build(configs[architecture], make_task()).to(prepared.accelerator.device).eval()
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    before, after = (
        logits_of(each, prepared._features["dev"], prepared.accelerator)
        for each in (model, Scale(100.0, 10.0).restored(model))
    )
    np.testing.assert_allclose(after, 10 * before + 100, rtol=1e-5)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in model.state_dict().items())


def test_a_teacher_says_numbers_in_the_unit_of_the_labels(
    make_examples: Callable[..., ExampleSet],
    make_task: Callable[..., RunConfig],
    tokenizer: Tokenizer,
    saved_tokenizer: Path,
    configs: dict[str, EncoderConfig],
    tmp_path: Path,
) -> None:
    task, examples = make_task(epochs=6, batch_size=16), shares_of_colours(make_examples, 10.0, 100.0)
    teacher = Finetuning(task, examples, tokenizer).run(configs["bert"])
    teacher.save_model(tmp_path / "teacher", saved_tokenizer)
    taught = replace(task, distillation=DistillationConfig(teacher=str(tmp_path / "teacher"), alpha=1.0))
    student = Finetuning(taught, examples, tokenizer).run(configs["distilbert"])
    assert student.metrics["dev"]["pearson"] > 0.7
    assert np.mean(student.predictions["dev"].predicted) == pytest.approx(
        np.mean(teacher.predictions["dev"].predicted), abs=1.0
    )


def test_numbers_that_32_bits_do_not_tell_apart_are_refused() -> None:
    seconds = np.asarray([1.7e9, 1.7e9 + 1, 1.7e9 + 2])
    with pytest.raises(InputError, match=r"labels: found numbers around 1.7e\+09 that differ by 0.816"):
        Scale.of(seconds)
    np.testing.assert_allclose(Scale.of(seconds - seconds.min()).mean, 1.0)


def test_learned_numbers_have_mean_0_and_deviation_1_and_equal_ones_are_0() -> None:
    same = np.full(3, 0.1, np.float32)
    assert Scale.of(same).deviation == 1.0
    np.testing.assert_allclose(Scale.of(same).standardised(same), 0, atol=1e-7)
    drawn = np.asarray([1.0, 2.0, 6.0], np.float32)
    learned = Scale.of(drawn).standardised(drawn)
    assert learned.dtype == np.float32
    assert (learned.mean(), learned.std()) == (pytest.approx(0, abs=1e-6), pytest.approx(1))
