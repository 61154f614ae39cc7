"""ALBERT against transformers: the same weights give the same outputs and gradients; layers that are shared."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcore.errors import ArtifactError
from bertcore.finetune.loop import scale_layers
from bertcore.model.albert import AlbertConfig
from bertcore.model.config import ARCHITECTURES, ModelConfig, build_head, build_pretraining
from bertcore.model.huggingface import load_config, load_pretrained, save_pretrained
from bertcore.training.optimizers import build_optimizer
from bertcore.training.optimizers.config import OptimizationConfig
from bertcore.training.optimizers.groups import LR_SCALE
from tests.bertcore.model.references import HEADS, LENGTHS, Reference, drawn, saved

THEIRS = Reference(
    "albert", "Albert", tied=frozenset({"predictions.decoder.weight", "predictions.decoder.bias"}), segments=True
)
SIZES: dict[str, Any] = {
    **{"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2},
    **{"intermediate_size": 24, "max_position_embeddings": 64, "embedding_size": 20},
}


@settings(max_examples=8)
@given(
    heads=st.integers(1, 3),
    head_size=st.integers(2, 9),
    layers=st.integers(1, 6),
    groups=st.integers(1, 6),
    embedding=st.integers(1, 30),
    lengths=st.lists(st.integers(2, 20), min_size=1, max_size=4),
)
def test_pretraining_in_any_shape_equals_transformers(
    heads: int, head_size: int, layers: int, groups: int, embedding: int, lengths: list[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    sizes = {"hidden_size": heads * head_size, "num_attention_heads": heads, "num_hidden_layers": layers}
    sizes |= {"num_hidden_groups": min(groups, layers), "embedding_size": embedding}
    directory = tmp_path_factory.mktemp("model")
    model = saved(drawn(build_pretraining(AlbertConfig(**SIZES | sizes))), directory)
    reference, batch = THEIRS.load(directory, "ForPreTraining"), THEIRS.batch(lengths)
    places = torch.arange(0, batch.layout.total, 2)
    logits, order = model(batch.ids, batch.types, batch.layout, places)
    outputs = reference(**batch.theirs)
    expected = batch.flat(outputs.prediction_logits)[places]
    THEIRS.assert_close(logits, expected)
    THEIRS.assert_close(order, outputs.sop_logits)
    (logits.logsumexp(1).square().sum() + order.square().sum()).backward()
    (expected.logsumexp(1).square().sum() + outputs.sop_logits.square().sum()).backward()
    THEIRS.assert_same_gradients(model, reference)


@given(layers=st.integers(1, 40), groups=st.integers(1, 40))
def test_groups_are_those_of_transformers(layers: int, groups: int) -> None:
    groups = min(groups, layers)
    config = AlbertConfig(**SIZES | {"num_hidden_layers": layers, "num_hidden_groups": groups})
    assert config.order == [int(layer / (layers / groups)) for layer in range(layers)]
    assert set(config.order) == set(range(groups))


@pytest.mark.parametrize(("family", "kind"), HEADS)
def test_heads_equal_transformers(family: Any, kind: str, tmp_path: Path) -> None:
    THEIRS.assert_same_head(AlbertConfig(**SIZES), family, kind, tmp_path)


@pytest.mark.parametrize("kind", ["ForPreTraining", "ForMaskedLM"])
def test_directories_of_transformers_load_here(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    reference = getattr(transformers, f"Albert{kind}")(transformers.AlbertConfig(**SIZES, num_hidden_groups=2)).eval()
    reference.save_pretrained(tmp_path)
    read = load_config(tmp_path)
    assert read == AlbertConfig(**SIZES, num_hidden_groups=2)
    model = build_pretraining(read).eval()
    loaded = load_pretrained(model, tmp_path)
    assert loaded.unused == []
    pair_head = ARCHITECTURES["albert"].pair_head
    assert all(name.startswith(pair_head) for name in loaded.missing) and bool(loaded.missing) == (
        kind == "ForMaskedLM"
    )
    batch = THEIRS.batch(LENGTHS)
    with torch.no_grad():
        found, _ = model(batch.ids, batch.types, batch.layout, torch.arange(batch.layout.total))
        expected = batch.flat(reference(**batch.theirs)[0])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_a_config_that_says_little_has_transformers_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "albert"}))
    config, theirs = load_config(tmp_path), transformers.AlbertConfig()
    for name in ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_hidden_groups", "hidden_act"):
        assert getattr(config, name) == getattr(theirs, name), name
    for name in ("num_attention_heads", "intermediate_size", "hidden_dropout_prob", "classifier_dropout_prob"):
        assert getattr(config, name) == getattr(theirs, name), name


def test_several_layers_in_a_group_are_refused(tmp_path: Path) -> None:
    save_pretrained(build_pretraining(AlbertConfig(**SIZES)), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"inner_group_num": 2}))
    with pytest.raises(ArtifactError, match="inner_group_num: found 2, expected 1; give another ALBERT"):
        load_config(tmp_path)


def test_more_groups_than_layers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"num_hidden_groups: found 4, expected between 1 and num_hidden_layers \(3\)"):
        AlbertConfig(**SIZES, num_hidden_groups=4)


@pytest.mark.parametrize(
    ("preset", "published"), [("base", 11.7e6), ("large", 17.7e6), ("xlarge", 58.7e6), ("xxlarge", 222.6e6)]
)
def test_published_sizes_have_the_published_numbers_of_weights(preset: str, published: float) -> None:
    config = ModelConfig(architecture="albert", preset=preset).build(30_000)
    with torch.device("meta"):
        model = ARCHITECTURES["albert"].encoder(config)
    assert sum(each.numel() for each in model.parameters()) == pytest.approx(published, abs=0.05e6)


def test_shared_layers_are_one_step_of_the_layer_decay_and_one_matrix_of_an_optimizer() -> None:
    config = AlbertConfig(**SIZES | {"num_hidden_layers": 6, "num_hidden_groups": 2})
    model: Any = build_head(config, "sequence_classification", 3)
    assert len(model.base_model.layers) == 6 and len(set(model.base_model.layers)) == 2
    for name in ("adamw", "lamb", "muon"):
        optimizer = build_optimizer(model, OptimizationConfig(optimizer=name))  # type: ignore[arg-type]
        scale_layers(optimizer, model, 0.5)
        scales = {each: group[LR_SCALE] for group in optimizer.param_groups for each in group["params"]}
        assert (
            len(scales) == len(list(model.parameters())) == sum(len(each["params"]) for each in optimizer.param_groups)
        )
        first, second = model.albert.encoder.layer
        assert scales[second.output.weight] == 0.5 and scales[first.output.weight] == 0.25
        assert scales[model.albert.embeddings_project.weight] == 0.125
        assert scales[model.albert.token_embeddings.weight] == 0.125 and scales[model.classifier.weight] == 1.0


def test_computing_activations_again_changes_no_gradient() -> None:
    batch = THEIRS.batch(LENGTHS)
    gradients = []
    for again in (False, True):
        torch.manual_seed(1)
        model: Any = build_pretraining(AlbertConfig(**SIZES)).train()
        model.albert.encoder.activation_checkpointing = again
        torch.manual_seed(2)
        logits, order = model(batch.ids, batch.types, batch.layout, torch.arange(0, batch.layout.total, 3))
        (logits.logsumexp(1).square().sum() + order.square().sum()).backward()
        gradients.append([each.grad for each in model.parameters()])
    for kept, computed in zip(*gradients, strict=True):
        assert torch.equal(kept, computed)
