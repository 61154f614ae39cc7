"""`pretrain.keep_every`: encoders along a training, which is the same with and without them."""

import shutil
from pathlib import Path

import pytest

from tests.faults.trainings import Training, assert_equal, params, prepare
from tests.faults.variants import variant

KEPT = ["step-00000006", "step-00000012", "step-00000018"]
"""Of 20 steps; the last step's is models/pretrained."""


def kept(training: Training) -> dict[str, bytes]:
    directory = training.root / "models/checkpoints"
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def model_of(training: Training) -> dict[str, bytes]:
    """Everything that the stage leaves of its encoder, without the card."""
    return {name: content for name, content in training.result().items() if name.startswith("models")}


def test_encoders_of_earlier_steps_are_kept_and_change_nothing(tmp_path: Path) -> None:
    """Also where the training is killed on the way, and where all that DVC takes for outputs has to be made again."""
    alone = Training(prepare(tmp_path / "alone", variant("electra", max_steps=20)))
    whole = Training(prepare(tmp_path / "whole", variant("electra", max_steps=20, keep_every=6)))
    for training in (alone, whole):
        assert training.finish() == 0, training.log.read_text()
    assert whole.result() == alone.result()
    assert kept(alone) == {} and (alone.root / "models/checkpoints").is_dir()
    assert sorted({name.partition("/")[0] for name in kept(whole)}) == KEPT
    assert {f"{KEPT[0]}/model.safetensors", f"{KEPT[0]}/generator/model.safetensors"} <= kept(whole).keys()
    card = kept(whole)[f"{KEPT[1]}/README.md"].decode()
    assert "(12 steps)" in card and "models/checkpoints/step-00000012" in card

    killed = Training(prepare(tmp_path / "killed", variant("electra", max_steps=20, keep_every=6)))
    killed.kill_at_first_checkpoint()
    assert killed.finish() == 0 and killed.resumed
    assert_equal(killed, whole)
    for out in ("pretrained", "checkpoints"):
        shutil.rmtree(killed.root / "models" / out)
    assert killed.finish() == 0 and killed.resumed[-1] == 20
    assert kept(killed) == kept(whole)


def test_one_is_the_encoder_of_a_training_of_so_many_steps(tmp_path: Path) -> None:
    """Of a constant rate, which does not know how many steps are to come."""
    same = {"schedule": "constant", "ema_decay": 0.9}
    longer = Training(prepare(tmp_path / "longer", params(max_steps=20, keep_every=10, **same)))
    shorter = Training(prepare(tmp_path / "shorter", params(max_steps=10, **same)))
    for training in (longer, shorter):
        assert training.finish() == 0, training.log.read_text()
    weights = "model.safetensors"
    assert kept(longer)[f"step-00000010/{weights}"] == model_of(shorter)[f"models/pretrained/{weights}"]
    assert "| mlm_loss | " in kept(longer)["step-00000010/README.md"].decode(), "evaluated every ten steps"


def test_one_that_is_not_there_any_more_is_said(tmp_path: Path) -> None:
    training = Training(prepare(tmp_path / "tree", params(max_steps=20, keep_every=6)))
    assert training.finish() == 0
    (place,) = training.root.glob(".checkpoints/pretrain/*/kept")
    shutil.rmtree(place / KEPT[0])
    shutil.rmtree(training.root / "models/checkpoints")
    assert training.finish() == 2
    said = training.log.read_text()
    assert f"kept/{KEPT[0]}: not found, expected the encoder that the training has kept there; remove" in said
    assert not (training.root / "models/checkpoints").exists()


@pytest.mark.slow
def test_weights_that_two_processes_divide_are_kept_whole(tmp_path: Path) -> None:
    values = params(max_steps=20, optimizer="adamw")
    alone = Training(prepare(tmp_path / "alone", values), world=2, divided=True)
    values["pretrain"]["keep_every"] = 6
    asked = Training(prepare(tmp_path / "asked", values), world=2, divided=True)
    for training in (alone, asked):
        assert training.finish() == 0, training.log.read_text()
    assert asked.result() == alone.result()
    sizes = {len(content) for name, content in kept(asked).items() if name.endswith("safetensors")}
    assert sizes == {len(model_of(alone)["models/pretrained/model.safetensors"])}
