"""A checkpoint as a Hugging Face directory, whatever becomes of the training that it is of."""

import re
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bertcore.export import gate
from bertcore.training.checkpoint import Checkpoints
from tasks.training import export
from tests.faults.trainings import Training, params, prepare
from tests.faults.variants import variant

WITHOUT_PAIRS = {**params(objective="mlm", optimizer="lamb", max_steps=20)}
WITHOUT_PAIRS["mask"] |= {"packing": "full_sentences"}

TRAININGS = {
    "two models, averaged": variant("electra", ema_decay=0.9, max_steps=20),
    "segments that no sequence has": WITHOUT_PAIRS,
}


@pytest.fixture(autouse=True)
def as_the_trainings(monkeypatch: pytest.MonkeyPatch, no_accelerator: None) -> None:
    for name, value in {"BERTCORE_PRECISION": "no", "CUDA_VISIBLE_DEVICES": "", "BERTCORE_COMPILE": "0"}.items():
        monkeypatch.setenv(name, value)


def models(directory: Path) -> dict[str, bytes]:
    """Everything of a model but its card."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != "README.md")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.mark.parametrize("values", TRAININGS.values(), ids=TRAININGS)
def test_the_last_checkpoint_is_the_model_that_the_stage_saves(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "check", lambda *_: None)
    training = Training(prepare(tmp_path / "tree", values))
    assert training.finish() == 0, training.log.read_text()
    monkeypatch.chdir(training.root)
    assert export.main(["--out", "last"]) == 0
    expected = models(Path("models/pretrained"))
    assert models(Path("last")) == expected and "model.safetensors" in expected
    card, saved = Path("last/README.md").read_text(), Path("models/pretrained/README.md").read_text()
    assert card == saved.replace("models/pretrained", "last").replace("# pretrained", "# last")
    assert export.main(["14", "--out", "earlier"]) == 0
    earlier = models(Path("earlier"))
    assert earlier.keys() == expected.keys() and earlier["config.json"] == expected["config.json"]
    assert earlier["model.safetensors"] != expected["model.safetensors"]
    card = Path("earlier/README.md").read_text()
    assert "(14 steps)" in card and "The training was not evaluated at this step." in card


def test_a_training_that_is_looked_at_goes_on_as_if_it_were_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, killed = (Training(prepare(tmp_path / name, params(max_steps=60))) for name in ("whole", "killed"))
    assert whole.finish() == 0
    killed.kill_at_first_checkpoint()
    monkeypatch.chdir(killed.root)
    (place,) = Path(".checkpoints/pretrain").iterdir()
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    step, at_work = killed.steps()[-1], Checkpoints(place)
    at_work.hold()
    assert export.main(["--out", "out/now"]) == 0, "whoever is at the training"
    at_work.release()
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert capsys.readouterr().out == f"out/now: the encoder after {step} of 60 steps\n"
    tokens = AutoTokenizer.from_pretrained("out/now")("the parser reads", return_tensors="pt")
    assert AutoModelForMaskedLM.from_pretrained("out/now")(**tokens).logits.isfinite().all()
    monkeypatch.chdir(tmp_path)
    assert killed.finish() == 0 and killed.resumed[-1] >= step
    assert killed.result() == whole.result()


def test_what_cannot_be_exported_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    training = Training(prepare(tmp_path / "tree", params(max_steps=20)))
    monkeypatch.chdir(training.root)

    def refused(*arguments: str) -> str:
        assert export.main([*arguments]) == 2
        return capsys.readouterr().err

    none = r"error: .checkpoints/pretrain/\w{16}: found no checkpoint, expected one of the training of params.yaml"
    assert re.search(none, refused("--out", "model"))
    assert training.finish() == 0
    assert "found models/pretrained, expected a path where nothing is" in refused("--out", "models/pretrained")
    said = refused("10", "--out", "model")
    assert "found checkpoints of the steps 14, 20, expected one of step 10; give one of them" in said
    (damaged,) = Path(".checkpoints").rglob("step-00000014/tensors.safetensors")
    damaged.unlink()
    assert "the checkpoint of step 14 cannot be read, expected a whole one" in refused("14", "--out", "model")
    assert not Path("model").exists()
