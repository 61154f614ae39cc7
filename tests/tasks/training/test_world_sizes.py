"""Two processes train what one trains, whatever the recipe, from its params.yaml to what the stage leaves; so they do
where FSDP divides the weights among them."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from safetensors.torch import load_file

from tests.faults.trainings import CLOCKS, Training, prepare
from tests.faults.variants import VARIANTS, variant

TOLERANCES = dict.fromkeys(VARIANTS, 1e-6) | {"modern": 2e-3}
"""Of weights. Where the processor has bfloat16, Muon computes in it: what differs in the last bit of a float32 is
rounded to another number here and there, and small singular values are made large."""

BESIDE_A_GENERATOR = ("deberta-v3", "electra")
"""Two models are trained, which share embeddings."""

STEPS = {"max_steps": 5, "logging_steps": 1, "eval_steps": 2, "checkpoint_steps": 100, "learning_rate": 1e-3}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_two_processes_train_what_one_trains(name: str, tmp_path: Path) -> None:
    """Without dropout, which every process draws for itself; one takes its batch whole, the two in parts of 3 and 1."""
    one = Training(prepare(tmp_path / "one", variant(name, dropout=0.0, **STEPS)))
    shutil.copytree(one.root, tmp_path / "two")
    two = Training(tmp_path / "two", world=2, environment={"BERTCORE_MICRO_BATCH": "3"})
    compare(one, two, TOLERANCES[name], models=1 + (name in BESIDE_A_GENERATOR))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in BESIDE_A_GENERATOR])
def test_two_processes_that_divide_the_weights_train_what_one_trains(name: str, tmp_path: Path) -> None:
    """By an optimizer that needs no whole matrix."""
    values = variant(name, dropout=0.0, **STEPS, optimizer="adamw")
    one = Training(prepare(tmp_path / "one", values))
    shutil.copytree(one.root, tmp_path / "two")
    two = Training(tmp_path / "two", world=2, divided=True)
    compare(one, two, 1e-5)
    assert json.loads((two.root / "metrics/timing/pretrain.json").read_text())["divided"]


@pytest.mark.slow
@pytest.mark.parametrize("name", BESIDE_A_GENERATOR)
def test_shared_embeddings_of_two_models_are_not_divided(name: str, tmp_path: Path) -> None:
    training = Training(prepare(tmp_path / "two", variant(name, **STEPS)), world=2, divided=True)
    assert training.finish() == 2
    assert "two that share weights cannot be divided" in training.log.read_text()


def compare(one: Training, two: Training, tolerance: float, models: int = 1) -> None:
    """Run both. The curves say what the weights hide, since the optimizers divide by the gradients' size."""
    for training in (one, two):
        assert training.finish() == 0, training.log.read_text()
    saved = sorted(path.relative_to(one.root) for path in one.root.glob("models/pretrained/**/*.safetensors"))
    assert len(saved) == models
    for path in saved:
        expected, found = load_file(one.root / path), load_file(two.root / path)
        assert expected.keys() == found.keys()
        apart = {key: float((found[key] - tensor).abs().max()) for key, tensor in expected.items()}
        assert max(apart.values()) < tolerance, (path, max(apart, key=lambda key: apart[key]), apart)
    for curve, rows in (("train", 5), ("eval", 3)):
        first, second = (pd.read_csv(each.root / f"metrics/curves/pretrain_{curve}.csv") for each in (one, two))
        assert len(first) == rows and not {*CLOCKS} & {*first}
        assert (f"{curve}/loss" in first) and ("train/gradient_norm" in first) == (curve == "train")
        pd.testing.assert_frame_equal(second, first, rtol=1e-3)
