"""A GPU computes what the CPU computes: losses and gradients of every recipe, attention, Muon; and the same bits again.

The other tests of models and trainings run on the GPU too where there is one; these compare it with the CPU. The first
of them is also run where a device is only pretended (`tests.pretended_device`).
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertcore import draws
from bertcore.instances.sources import DrawnInstances, MaskConfig
from bertcore.model.attention import attend_padded, attend_variable
from bertcore.model.config import ARCHITECTURES, ModelConfig, build_pretraining
from bertcore.model.huggingface import save_pretrained
from bertcore.model.layers import LayerStack
from bertcore.model.layout import Layout
from bertcore.model.positions import PLAIN, Positions
from bertcore.objectives import cross_entropy
from bertcore.objectives.batch import PreTrainingBatch
from bertcore.objectives.pretraining import build_model, build_objective
from bertcore.precision import device
from bertcore.recipes.recipe import NAMES, read_recipe
from bertcore.tokens.wordpiece import save_tokenizer
from bertcore.training.machine import make_accelerator
from bertcore.training.optimizers.muon import orthogonalize
from bertcore.training.step import WithObjective, as_batch
from tests.samples import token_shard, tokenizer, vocabulary

pytestmark = pytest.mark.skipif(device().type == "cpu", reason="needs a GPU")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SHAPE = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 3, "max_position_embeddings": 66}
SAMPLED = [name for name in NAMES if read_recipe(name)["pretrain"]["objective"] == "replaced_tokens"]
"""The recipes whose losses depend on samples, which rounding changes."""


def training(recipe: str, directory: Path) -> tuple[WithObjective, PreTrainingBatch]:
    """A small model of a recipe with its objective on the CPU, and a batch that its packing makes."""
    values: dict[str, Any] = read_recipe(recipe)["pretrain"]
    architecture = values["model"]["architecture"]
    fields = {key: value for key, value in values["model"].items() if key not in ("preset", "architecture")} | SHAPE
    of_config = dataclasses.fields(ARCHITECTURES[architecture].config)
    fields |= {each.name: 0.0 for each in of_config if "dropout" in each.name}
    torch.manual_seed(3)
    model = build_model(
        values["objective"], ModelConfig(architecture=architecture, fields=fields).build(vocabulary().size, 0)
    )
    options = dict(values.get("objective_options", {}))
    if values.get("objective") == "distillation":
        save_tokenizer(tokenizer(), directory, lowercase=True)
        teacher = build_pretraining(ModelConfig(fields=SHAPE).build(vocabulary().size, 0))
        save_pretrained(teacher, directory / "teacher", directory)
        options["teacher"] = str(directory / "teacher")
    objective = build_objective(values["objective"], model, options)
    phase = {key: value for key, value in read_recipe(recipe)["mask"].items() if key != "second_phase"}
    mask = MaskConfig(**{**phase, "sequence_length": 64, "duplicates": 0})
    source = DrawnInstances.of(token_shard(directory, 80), "shard", 0, mask, vocabulary())
    instances = source.take(np.arange(24))
    keys = draws.bits(draws.key("objective", 1, 0), np.arange(24, dtype=np.uint64))
    return WithObjective(model, objective).train(), objective.arranged(as_batch(instances, keys))


def gradients(module: WithObjective, batch: PreTrainingBatch, place: str, *, half: bool = False) -> dict[str, Tensor]:
    """The losses by term and the gradients by parameter, on the CPU."""
    module.to(place).zero_grad()
    with torch.autocast(place, torch.bfloat16, enabled=half):
        terms = module(batch.to(place))
    sum(sums.loss_sum / max(sums.count, 1) for sums in terms.values()).backward()
    losses = {f"loss of {name}": sums.loss_sum.detach() / max(sums.count, 1) for name, sums in terms.items()}
    of_parameters = {name: each.grad for name, each in module.named_parameters() if each.grad is not None}
    return {name: value.detach().cpu().clone() for name, value in (losses | of_parameters).items()}


def farthest(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest distance of a tensor from what is expected, as a share of its norm (or of the largest gradient's)."""
    assert found.keys() == expected.keys()
    floor = 1e-3 * max(float(value.norm()) for value in expected.values())
    return max(
        float((found[name] - expected[name]).norm()) / max(float(expected[name].norm()), floor) for name in found
    )


@pytest.mark.parametrize("recipe", NAMES)
def test_losses_and_gradients_are_those_of_the_cpu(recipe: str, tmp_path: Path) -> None:
    module, batch = training(recipe, tmp_path)
    expected = gradients(module, batch, "cpu")
    assert farthest(gradients(module, batch, device().type), expected) < 1e-4
    if recipe not in SAMPLED and torch.cuda.is_available():
        assert farthest(gradients(module, batch, "cuda", half=True), expected) < 0.1


@needs_cuda
@pytest.mark.filterwarnings("default")  # of the compiler
@pytest.mark.parametrize("recipe", ["bert-2018", "modern"])
@pytest.mark.parametrize("half", [False, True])
def test_compiled_layers_compute_the_same(recipe: str, half: bool, tmp_path: Path) -> None:
    module, batch = training(recipe, tmp_path)
    expected = gradients(module, batch, "cuda", half=half)
    for layers in (each for each in module.modules() if isinstance(each, LayerStack)):
        layers.compile_layers()
    assert farthest(gradients(module, batch, "cuda", half=half), expected) < (0.05 if half else 1e-4)


@needs_cuda
@pytest.mark.parametrize("positions", [PLAIN, Positions(theta=100.0, reach=9), Positions(theta=1e4, causal=True)])
@pytest.mark.parametrize("causal", [0, 2, 4])
def test_both_ways_of_attention_are_the_formula(positions: Positions, causal: int) -> None:
    layout = Layout.from_lengths(torch.tensor([37, 128, 5, 60]), causal)
    qkv = torch.randn(layout.total, 3, 4, 64, generator=torch.Generator().manual_seed(1))
    outer = torch.randn(layout.total, 4, 64, generator=torch.Generator().manual_seed(2))

    def result(values: Tensor, on: Layout, attend: Any) -> list[Tensor]:
        values = values.clone().requires_grad_()
        context = attend(values, on, 0.0, positions)
        context.backward(outer.to(context))
        assert values.grad is not None
        return [tensor.detach().cpu().double() for tensor in (context, values.grad)]

    expected = result(qkv.double(), layout, attend_padded)
    for dtype, attend, tolerance in (
        (torch.float32, attend_padded, 1e-5),
        (torch.bfloat16, attend_padded, 0.02),
        (torch.bfloat16, attend_variable, 0.02),
    ):
        for found, right in zip(result(qkv.to("cuda", dtype), layout.to("cuda"), attend), expected, strict=True):
            assert float((found - right).norm() / right.norm()) < tolerance


@needs_cuda
def test_muon_turns_the_same_way() -> None:
    matrices = torch.randn(3, 64, 192, generator=torch.Generator().manual_seed(1))
    expected = orthogonalize(matrices, torch.float32)
    torch.testing.assert_close(orthogonalize(matrices.cuda(), torch.float32).cpu(), expected, rtol=0, atol=1e-4)
    half = orthogonalize(matrices.cuda(), torch.bfloat16).float().cpu()
    assert float((half - expected).norm() / expected.norm()) < 0.05


@needs_cuda
@pytest.mark.filterwarnings("default")  # of the compiler
def test_the_compiled_loss_is_that_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(70, 300, generator=torch.Generator().manual_seed(1))
    labels = torch.randint(300, (64,), generator=torch.Generator().manual_seed(2))
    expected = cross_entropy.cross_entropy(logits.clone(), labels)
    monkeypatch.setattr(cross_entropy, "_whole", cross_entropy._whole)  # as it is for the other tests
    cross_entropy.compile_cross_entropy()
    loss, correct = cross_entropy.cross_entropy(logits.cuda(), labels.cuda())
    torch.testing.assert_close(loss.cpu(), expected[0])
    assert int(correct) == int(expected[1])


@needs_cuda
@pytest.mark.parametrize("recipe", NAMES)
@pytest.mark.parametrize("half", [False, True])
def test_the_bits_are_the_same_again(recipe: str, half: bool, tmp_path: Path) -> None:
    make_accelerator()  # which says how a GPU is to add
    module, batch = training(recipe, tmp_path)
    first, second = (gradients(module, batch, "cuda", half=half) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
