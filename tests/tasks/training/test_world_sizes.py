"""Two processes train what one trains, whatever the recipe, from its params.yaml to what the stage leaves."""

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


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", VARIANTS)
def test_two_processes_train_what_one_trains(name: str, tmp_path: Path) -> None:
    """Without dropout, which every process draws for itself; one takes its batch at once, the two in parts of 3 and 1.

    The curves say what the weights hide, since the optimizers divide by the gradients' size.
    """
    steps = {"max_steps": 5, "logging_steps": 1, "eval_steps": 2, "checkpoint_steps": 100, "learning_rate": 1e-3}
    one = Training(prepare(tmp_path / "one", variant(name, dropout=0.0, **steps)))
    shutil.copytree(one.root, tmp_path / "two")
    two = Training(tmp_path / "two", world=2, environment={"BERTCORE_MICRO_BATCH": "3"})
    for training in (one, two):
        assert training.finish() == 0, training.log.read_text()
    saved = sorted(path.relative_to(one.root) for path in one.root.glob("models/pretrained/**/*.safetensors"))
    assert len(saved) == (2 if name == "electra" else 1)
    for path in saved:
        expected, found = load_file(one.root / path), load_file(two.root / path)
        assert expected.keys() == found.keys()
        apart = {key: float((found[key] - tensor).abs().max()) for key, tensor in expected.items()}
        assert max(apart.values()) < TOLERANCES[name], (path, max(apart, key=lambda key: apart[key]), apart)
    for curve, rows in (("train", 5), ("eval", 3)):
        first, second = (pd.read_csv(each.root / f"metrics/curves/pretrain_{curve}.csv") for each in (one, two))
        assert len(first) == rows and not {*CLOCKS} & {*first}
        assert (f"{curve}/loss" in first) and ("train/gradient_norm" in first) == (curve == "train")
        pd.testing.assert_frame_equal(second, first, rtol=1e-3)
