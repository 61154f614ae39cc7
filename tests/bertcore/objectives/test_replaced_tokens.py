"""Replaced-token detection against a plain implementation; its samples, its generator, and what it takes over."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertcore import draws
from bertcore.errors import ArtifactError, ConfigError
from bertcore.instances.sources import DrawnInstances, Instances, MaskConfig
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.model.electra import ElectraConfig
from bertcore.model.huggingface import save_pretrained
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.pretraining import build_objective, check_architecture
from bertcore.objectives.replaced_tokens import GENERATOR, ReplacedTokens, sample
from bertcore.training.config import PretrainConfig
from bertcore.training.step import as_batch, split
from tests.samples import token_shard, vocabulary

SIZES: dict[str, Any] = {
    **{"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 48},
    **{"embedding_size": 16, "initializer_range": 0.2},
}


def discriminator(**changes: Any) -> Any:
    torch.manual_seed(1)
    return build_pretraining(ElectraConfig(vocab_size=vocabulary().size, **SIZES | changes)).eval()


def instances(directory: Path, count: int = 6) -> Instances:
    mask = MaskConfig(sequence_length=48, packing="full_sentences", mask_share=0.85, random_share=0.0)
    return DrawnInstances.of(token_shard(directory, 80), "shard", 0, mask, vocabulary()).take(np.arange(count))


def keys_of(count: int) -> draws.U64:
    return draws.bits(draws.key("here"), np.arange(count, dtype=np.uint64))


def batch(directory: Path) -> PreTrainingBatch:
    found = instances(directory)
    return as_batch(found, keys_of(len(found)))


def test_the_loss_is_that_of_a_plain_implementation(tmp_path: Path) -> None:
    model, given_batch = discriminator().double(), batch(tmp_path)
    objective: Any = build_objective("replaced_tokens", model).double().eval()
    with torch.no_grad():  # some samples are to be the original tokens
        frequencies = torch.bincount(given_batch.masked_labels, minlength=vocabulary().size)
        objective.generator.generator_lm_head["bias"] += 4.0 * frequencies
        terms = objective(model, given_batch)

    original = given_batch.input_ids.clone()
    masked = given_batch.masked_positions[: len(given_batch.masked_labels)]
    original[masked] = given_batch.masked_labels
    (logits,) = objective.generator(given_batch.input_ids, given_batch.token_type_ids, given_batch.layout, masked)
    probabilities = torch.softmax(logits, -1).detach().numpy()
    mlm = -np.log(probabilities[np.arange(len(masked)), given_batch.masked_labels]).sum()
    corrupted = original.clone()
    assert given_batch.masked_draws is not None
    for row, (place, drawn) in enumerate(zip(masked.tolist(), given_batch.masked_draws.tolist(), strict=True)):
        corrupted[place] = int(np.argmax(np.cumsum(probabilities[row]) > drawn))
    replaced = (corrupted != original).numpy()
    found = torch.sigmoid(model(corrupted, given_batch.token_type_ids, given_batch.layout)).detach().numpy()
    detection = -np.log(np.where(replaced, found, 1 - found)).sum()

    assert float(terms["mlm"].loss_sum) == pytest.approx(mlm, rel=1e-6)
    assert float(terms["replaced_tokens"].loss_sum) == pytest.approx(detection, rel=1e-6)
    assert 0 < replaced.sum() < len(masked), "all masked tokens are replaced, or none is: the test says nothing"
    assert int(terms["mlm"].correct) == int((probabilities.argmax(1) == given_batch.masked_labels.numpy()).sum())
    assert int(terms["replaced_tokens"].correct) == int(((found > 0.5) == replaced).sum())
    assert terms["replaced_tokens"].majority is not None
    assert int(terms["replaced_tokens"].majority) == int(replaced.sum())
    assert objective.counts(given_batch) == {"mlm": len(masked), "replaced_tokens": given_batch.layout.total}
    assert {name: each.count for name, each in terms.items()} == objective.counts(given_batch)
    assert objective.weights == {"mlm": 1.0, "replaced_tokens": 50.0}


def test_no_gradient_goes_through_a_sample_and_the_embeddings_have_both(tmp_path: Path) -> None:
    model, given_batch = discriminator(), batch(tmp_path)
    objective: Any = build_objective("replaced_tokens", model)
    table = model.base_model.token_embeddings.weight
    assert objective.generator.base_model.token_embeddings.weight is table
    own = [each for name, each in objective.generator.named_parameters() if "embeddings." not in name]
    terms = objective(model, given_batch)
    terms["replaced_tokens"].loss_sum.backward(retain_graph=True)
    assert all(each.grad is None for each in own) and table.grad is not None
    by_detection = table.grad.clone()
    terms["mlm"].loss_sum.backward()
    assert all(each.grad is not None for each in own) and not torch.equal(table.grad, by_detection)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 40), impossible=st.integers(0, 39))
def test_evenly_spread_draws_give_every_token_its_share(seed: int, size: int, impossible: int) -> None:
    count = 1000
    logits = 3 * torch.randn(size, generator=torch.Generator().manual_seed(seed))
    if impossible < size:
        logits[impossible] = -torch.inf
    found = sample(logits.expand(count, size), (torch.arange(count) + 0.5) / count)
    shares = torch.bincount(found, minlength=size) / count
    torch.testing.assert_close(shares, torch.softmax(logits, -1), rtol=0, atol=1.001 / count)


def test_a_sample_does_not_depend_on_the_others() -> None:
    torch.manual_seed(1)
    logits, drawn = torch.randn(150, 30), torch.rand(150, dtype=torch.float64)
    whole = sample(logits, drawn)
    assert torch.equal(whole, torch.cat([sample(logits[[row]], drawn[[row]]) for row in range(150)]))
    assert len(sample(logits[:0], drawn[:0])) == 0
    assert sample(torch.tensor([[0.0, 0.0]]), torch.tensor([1 - 2**-53], dtype=torch.float64)).item() == 1


def test_the_draws_are_the_same_in_every_micro_batch_and_on_every_rank(tmp_path: Path) -> None:
    found, keys = instances(tmp_path, 7), keys_of(7)
    whole = as_batch(found, keys).masked_draws
    assert whole is not None and whole.min() >= 0 and whole.max() < 1 and len(whole.unique()) == len(whole)
    parts = [as_batch(*part).masked_draws for part in split(found, keys, 3)]
    assert torch.equal(torch.cat([part for part in parts if part is not None]), whole)
    offsets = found.masked_offsets
    for rank in range(2):
        rows = np.arange(rank, 7, 2)
        own = as_batch(found.take(rows), keys[rows]).masked_draws
        expected = torch.cat([whole[offsets[row] : offsets[row + 1]] for row in rows])
        assert own is not None and torch.equal(own, expected)


@pytest.mark.parametrize("options", [{"generator_width": 1.5}, {"generator_layers": 0.0}, {"generator_width": 2.0}])
def test_a_generator_larger_than_its_discriminator_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(options))}: found .*, expected a share of the model's own"):
        PretrainConfig(
            model=ModelConfig(architecture="electra"), objective="replaced_tokens", objective_options=options
        )


@pytest.mark.parametrize("option", ["mlm_weight", "detection_weight"])
def test_a_model_that_learns_nothing_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=rf"{option}: found 0, expected something to learn"):
        build_objective("replaced_tokens", discriminator(), {option: 0.0})


@pytest.mark.parametrize(("objective", "architecture", "message"), [
    ("mlm", "electra", "'mlm', but electra has no head for masked tokens.*'replaced_tokens' .*'full_sentences'"),
    ("mlm_nsp", "electra", "'mlm_nsp', but electra has no head for masked tokens.*expected 'replaced_tokens'"),
    ("replaced_tokens", "bert", "'replaced_tokens', but bert has no generator; expected 'mlm' or"),
    ("replaced_tokens", "modernbert", "'replaced_tokens', but modernbert has no generator; expected 'mlm' "),
])  # fmt: skip
def test_an_architecture_that_does_not_fit_is_refused(objective: str, architecture: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"objective: found {message}"):
        check_architecture(objective, architecture)


def test_a_published_generator_is_taken_over_with_its_shape(tmp_path: Path) -> None:
    first = discriminator()
    made: Any = build_objective("replaced_tokens", first, {"generator_width": 0.5, "generator_layers": 0.5})
    save_pretrained(made.generator, tmp_path / GENERATOR)
    model = discriminator()
    with torch.no_grad():
        model.base_model.token_embeddings.weight += 1.0
    kept = model.base_model.token_embeddings.weight.clone()
    objective: Any = build_objective("replaced_tokens", model)
    assert objective.load(model, tmp_path) == []
    generator = objective.companions[GENERATOR]
    assert generator.config.hidden_size == 16 and generator.config.num_hidden_layers == 1
    for name, tensor in made.generator.state_dict().items():
        if "embeddings." not in name:
            assert torch.equal(generator.state_dict()[name], tensor), name
    assert torch.equal(model.base_model.token_embeddings.weight, kept)
    assert generator.base_model.token_embeddings is model.base_model.token_embeddings


def test_without_one_all_of_the_generator_but_the_embeddings_is_new(tmp_path: Path) -> None:
    model = discriminator()
    objective: Any = build_objective("replaced_tokens", model)
    new = objective.load(model, tmp_path)
    assert new == [name for name, _ in objective.named_parameters() if "embeddings." not in name]
    assert "generator.generator_lm_head.bias" in new and "generator.electra.embeddings_project.weight" in new


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embedding_size": 20}, "embedding_size: found 20, expected 16 as in the model beside it"),
        ({"hidden_size": 64}, "hidden_size: found 64, expected at most the 32 of the model"),
    ],
)
def test_a_generator_that_does_not_fit_is_refused(changes: dict[str, int], message: str, tmp_path: Path) -> None:
    other: Any = build_objective("replaced_tokens", discriminator(**changes), {"generator_width": 1.0})
    save_pretrained(other.generator, tmp_path / GENERATOR)
    model = discriminator()
    objective = build_objective("replaced_tokens", model)
    assert isinstance(objective, ReplacedTokens)
    with pytest.raises(ArtifactError, match=rf"{GENERATOR}: {message}; give the generator"):
        objective.load(model, tmp_path)


def test_options_of_other_objectives_are_refused() -> None:
    with pytest.raises(ConfigError, match="pair_weight"):
        build_objective("replaced_tokens", discriminator(), {"pair_weight": 1.0})
