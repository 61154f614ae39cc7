"""Replaced-token detection against a plain implementation; its samples, its generator, and what it takes over."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertcore import draws
from bertcore.errors import ArtifactError, ConfigError
from bertcore.export.probe import Probe
from bertcore.instances.sources import DrawnInstances, Instances, MaskConfig
from bertcore.model.config import ModelConfig, build_discriminator
from bertcore.model.deberta import DebertaConfig, Difference
from bertcore.model.electra import ElectraConfig
from bertcore.model.huggingface import load_pretrained, save_pretrained
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.pretraining import OBJECTIVES, build_objective, check_architecture
from bertcore.objectives.replaced_tokens import GENERATOR, ReplacedTokens, sample
from bertcore.training.config import PretrainConfig
from bertcore.training.step import as_batch, split
from tests.samples import token_shard, vocabulary

SIZES: dict[str, Any] = {
    **{"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 48},
    "initializer_range": 0.2,
}


def discriminator(**changes: Any) -> Any:
    torch.manual_seed(1)
    return build_discriminator(ElectraConfig(vocab_size=vocabulary().size, **SIZES | {"embedding_size": 16} | changes))


def deberta() -> Any:
    torch.manual_seed(1)
    return build_discriminator(DebertaConfig(vocab_size=vocabulary().size, position_buckets=8, **SIZES))


def instances(directory: Path, count: int = 6) -> Instances:
    mask = MaskConfig(sequence_length=48, packing="full_sentences", mask_share=0.85, random_share=0.0)
    return DrawnInstances.of(token_shard(directory, 80), "shard", 0, mask, vocabulary()).take(np.arange(count))


def keys_of(count: int) -> draws.U64:
    return draws.bits(draws.key("here"), np.arange(count, dtype=np.uint64))


def batch(directory: Path) -> PreTrainingBatch:
    found = instances(directory)
    return as_batch(found, keys_of(len(found)))


@pytest.mark.parametrize("build", [discriminator, deberta])
def test_the_loss_is_that_of_a_plain_implementation(build: Callable[[], Any], tmp_path: Path) -> None:
    model, given_batch = build().double().eval(), batch(tmp_path)
    objective: Any = build_objective("replaced_tokens", model).double().eval()
    with torch.no_grad():  # some samples are to be the original tokens
        frequencies = torch.bincount(given_batch.masked_labels, minlength=vocabulary().size)
        (bias,) = (each for each in objective.generator.parameters() if each.shape == (vocabulary().size,))
        bias += 4.0 * frequencies
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
    model, given_batch = discriminator().eval(), batch(tmp_path)
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


def test_a_debertas_table_is_its_generators_and_a_difference_that_detection_alone_trains(tmp_path: Path) -> None:
    model, given_batch = deberta().double().eval(), batch(tmp_path)
    plain = copy.deepcopy(model)
    objective: Any = build_objective("replaced_tokens", model).double().eval()
    table, others = model.base_model.token_embeddings, objective.generator.base_model.token_embeddings
    assert isinstance(table, Difference) and not table.weight.any() and others.weight is not table.weight
    assert torch.equal(others.weight, plain.base_model.token_embeddings.weight)
    with torch.no_grad():  # as after some steps of either
        others.weight += torch.randn_like(others.weight)
        table.weight += torch.randn_like(table.weight)
        plain.base_model.token_embeddings.weight.copy_(others.weight + table.weight)
    terms = objective(model, given_batch)
    terms["replaced_tokens"].loss_sum.backward(retain_graph=True)
    assert others.weight.grad is None
    by_detection = table.weight.grad.clone()
    terms["mlm"].loss_sum.backward()
    assert others.weight.grad.any() and torch.equal(table.weight.grad, by_detection)

    (logits,) = objective.generator(
        given_batch.input_ids, given_batch.token_type_ids, given_batch.layout, given_batch.masked_positions
    )
    samples = sample(logits.detach()[: given_batch.num_predictions], given_batch.masked_draws)
    inputs = given_batch.input_ids.index_copy(0, given_batch.counted_positions, samples)
    replaced = torch.zeros(given_batch.layout.total, dtype=torch.float64)
    replaced[given_batch.counted_positions] = (samples != given_batch.masked_labels).double()
    found = plain(inputs, given_batch.token_type_ids, given_batch.layout)
    torch.nn.functional.binary_cross_entropy_with_logits(found, replaced, reduction="sum").backward()
    expected = plain.base_model.token_embeddings.weight.grad
    torch.testing.assert_close(by_detection, expected, rtol=1e-5, atol=1e-6)  # the loss is in float32


def test_what_is_saved_of_a_deberta_has_its_whole_table_and_goes_on_from_there(tmp_path: Path) -> None:
    model = deberta().eval()
    objective: Any = build_objective("replaced_tokens", model).eval()
    with torch.no_grad():
        for each in (model, objective.generator):
            each.base_model.token_embeddings.weight += 0.1 * torch.randn(vocabulary().size, SIZES["hidden_size"])
    whole = model.base_model.token_embeddings.whole
    save_pretrained(model, tmp_path / "saved")
    save_pretrained(objective.generator, tmp_path / "saved" / GENERATOR)
    assert isinstance(model.base_model.token_embeddings, Difference), "what is trained on is left as it is"

    probe = Probe.of(model.config)
    assert torch.equal(probe.outputs_of(model)["logits"], probe.outputs_of(model.published)["logits"])
    again = deberta().eval()
    assert load_pretrained(again, tmp_path / "saved").missing == []
    assert torch.equal(again.base_model.token_embeddings.weight, whole)
    begun: Any = build_objective("replaced_tokens", again)
    assert begun.load(again, tmp_path / "saved") == []
    theirs = begun.generator.base_model.token_embeddings.weight
    assert torch.equal(theirs, objective.generator.base_model.token_embeddings.weight)
    torch.testing.assert_close(again.base_model.token_embeddings.whole, whole)
    another: Any = build_objective("replaced_tokens", again)
    torch.testing.assert_close(another.generator.base_model.token_embeddings.weight, whole)
    begun.load(again, tmp_path / "saved")
    begun.eval()
    given_batch = batch(tmp_path)
    found, expected = begun(again, given_batch), objective(model, given_batch)
    for term in expected:
        torch.testing.assert_close(found[term].loss_sum, expected[term].loss_sum)


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


def test_a_narrower_generator_of_a_deberta_is_refused() -> None:
    options = OBJECTIVES["replaced_tokens"].options(generator_width=0.25)
    with pytest.raises(ValueError, match=r"generator_width: found 0.25, but the generator of a deberta.* expected 1.0"):
        OBJECTIVES["replaced_tokens"].check(deberta().config, options, 48)


@pytest.mark.parametrize("option", ["mlm_weight", "detection_weight"])
def test_a_model_that_learns_nothing_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=rf"{option}: found 0, expected something to learn"):
        build_objective("replaced_tokens", discriminator(), {option: 0.0})


@pytest.mark.parametrize(("objective", "architecture", "message"), [
    ("mlm_nsp", "electra", "'mlm_nsp', but electra has no head for pairs of sentences; expected 'mlm' or "),
    ("replaced_tokens", "bert", "'replaced_tokens', but bert has no head for replaced tokens; expected 'mlm' or"),
    ("replaced_tokens", "modernbert", "'replaced_tokens', but modernbert has no head for replaced tokens; expected "),
])  # fmt: skip
def test_an_architecture_that_does_not_fit_is_refused(objective: str, architecture: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"objective: found {message}"):
        check_architecture(objective, architecture)


def test_a_published_generator_is_taken_over_with_its_shape(tmp_path: Path) -> None:
    first = discriminator()
    made: Any = build_objective("replaced_tokens", first, {"generator_width": 0.5, "generator_layers": 0.5})
    save_pretrained(made.generator, tmp_path / GENERATOR)
    config = json.loads((tmp_path / GENERATOR / "config.json").read_text())
    (tmp_path / GENERATOR / "config.json").write_text(json.dumps(config | {"pad_token_id": 3}))
    model = discriminator()
    with torch.no_grad():
        model.base_model.token_embeddings.weight += 1.0
    kept = model.base_model.token_embeddings.weight.clone()
    objective: Any = build_objective("replaced_tokens", model)
    assert objective.load(model, tmp_path) == []
    generator = objective.companions[GENERATOR]
    assert generator.config.hidden_size == 16 and generator.config.num_hidden_layers == 1
    assert generator.config.pad_token_id == model.config.pad_token_id == 0
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
    of_deberta: Any = build_objective("replaced_tokens", other := deberta())
    named = [name for name, _ in of_deberta.named_parameters()]
    named.remove("generator.deberta.embeddings.word_embeddings.weight")
    assert of_deberta.load(other, tmp_path) == named
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
