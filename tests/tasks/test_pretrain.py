"""Stage `pretrain` around the training: what it checks before, and the command that computes a recorded step again."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from mlflow.tracking import MlflowClient

from bertcore.errors import ArtifactError, ConfigError
from bertcore.files import checksum
from bertcore.instances.config import MaskConfig
from bertcore.instances.store import static_path
from tasks import params as task_params
from tasks import pretrain
from tasks.status import ProcessEnded, exit_status
from tasks.training import replay
from tasks.training.launcher import report_end
from tests.faults.trainings import Training, params, prepare


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("pretrain") / "tree", params(duplicates=2))


@pytest.fixture
def root(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of its own, in which the test stands."""
    monkeypatch.chdir(shutil.copytree(prepared, tmp_path / "tree"))
    return tmp_path / "tree"


def mask_config(**values: object) -> MaskConfig:
    section = task_params.section("mask", MaskConfig)
    return MaskConfig(**{**vars(section), **values})


COPY = static_path(Path("data/instances"), MaskConfig(sequence_length=48), "train-00000.arrow", 1)

HELDOUT = COPY.with_name("heldout-00000-epoch000.arrow")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 64
    path.write_bytes(content)


def of_other_shards(path: Path) -> None:
    """A manifest of instances as the mask stage writes it, but for shards that are no longer there."""
    path.write_text(path.read_text().replace(checksum(Path("data/shards/manifest.json")), "0" * 64))


MANIFEST = Path("data/instances/manifest.json")
FLIPPED = r": found SHA-256 \w{12}…, expected \w{12}… as manifest.json says; the file is damaged: run `chmod u\+w "


@pytest.mark.parametrize(
    ("path", "harm", "said"),
    [
        (
            Path("models/tokenizer/tokenizer.json"),
            flip,
            r"tokenizer.json: found SHA-256 .*, expected .* rm models/tokenizer/tokenizer.json && dvc repro tokenizer",
        ),
        (Path("models/tokenizer/tokenizer.json"), Path.unlink, r"tokenizer.json: found nothing there, expected"),
        (
            Path("data/shards/manifest.json"),
            Path.unlink,
            r"manifest.json: not found, .* run `dvc repro shards`",
        ),
        (COPY, Path.unlink, r"train-00000-epoch001.arrow: not found, but manifest.json lists it; run `dvc checkout`"),
        (COPY, cut, r"train-00000-epoch001.arrow" + FLIPPED),
        (COPY, flip, r"train-00000-epoch001.arrow" + FLIPPED),
        (HELDOUT, flip, r"heldout-00000-epoch000.arrow" + FLIPPED),
        (COPY.with_name("sequences.json"), Path.unlink, r"sequences.json: not found"),
        (COPY.with_name("sequences.json"), flip, r"sequences.json" + FLIPPED),
        (
            MANIFEST,
            Path.unlink,
            r"manifest.json: not found, expected the checksums of the instances; run `dvc repro mask`",
        ),
        (MANIFEST, cut, r"manifest.json: found no manifest \(JSONDecodeError: .*; the file is damaged: run `chmod"),
        (MANIFEST, of_other_shards, r"manifest.json: found instances of the shards 0{12}…, expected those of data/sh"),
    ],
)
def test_a_bad_input_is_named_before_anything_is_started(
    root: Path, path: Path, harm: Callable[[Path], None], said: str
) -> None:
    pretrain.check_inputs(mask_config())
    harm(path)
    with pytest.raises(ArtifactError, match=said):
        pretrain.check_inputs(mask_config())


def test_a_damaged_shard_is_named_where_the_training_reads_shards(root: Path) -> None:
    shard = Path("data/shards/train-00000.arrow")
    flip(shard)
    pretrain.check_inputs(mask_config())
    with pytest.raises(ArtifactError, match="train-00000.arrow: found SHA-256 .* the file is damaged"):
        pretrain.check_inputs(mask_config(duplicates=0))


def test_the_status_of_a_process_is_that_of_the_stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def end() -> None:
        raise ProcessEnded(75)

    assert exit_status(end) == 75
    assert report_end(75) == 75, "without a stage that reads it elsewhere"
    monkeypatch.setenv("BERTCORE_STAGE_FILE", str(tmp_path / "file"))
    assert (report_end(75), report_end(2)) == (0, 2)
    assert (tmp_path / "file").read_text() == "75\n2\n"


def test_a_recorded_step_is_computed_again_with_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = params(loss_spike=1.001, learning_rate=1e-6, max_steps=60)  # so slow that the noise is a spike
    training = Training(prepare(tmp_path / "tree", values))
    assert training.finish() == 2
    (line,) = [line for line in training.log.read_text().splitlines() if line.startswith("error: ")]
    found = re.search(r"step (\d+): found loss .*`python -m tasks.training.replay (\S+)`", line)
    assert found is not None, line
    monkeypatch.chdir(training.root)
    monkeypatch.setenv("BERTCORE_PRECISION", "no")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the training; the number decides the last digits
    try:
        assert replay.main([found[2]]) == 0
    finally:
        torch.set_num_threads(threads)
    output = capsys.readouterr().out
    assert output.startswith(f"step {found[1]}, from the checkpoint of step {training.steps()[-1]}\n")
    compared = [line.split()[-2:] for line in output.splitlines()[2:] if not line.startswith("weights of")]
    assert len(compared) >= 8 and all(recorded == computed for recorded, computed in compared), output
    assert "weights of bert.encoder.layer.1" in output and "gradient of bert.embeddings" in output
    before = sorted(training.root.rglob(".checkpoints/**/*"))

    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("max_steps: 60", "max_steps: 61"))
    assert replay.main([found[2]]) == 2
    assert "inputs, parameters or code are others now" in capsys.readouterr().err
    assert sorted(training.root.rglob(".checkpoints/**/*")) == before
    assert replay.main(["nothing.json"]) == 2


def test_a_finished_training_is_saved_again_without_a_step(tmp_path: Path) -> None:
    """As where DVC could not record what came of it: it has deleted the outs, and starts the stage once more."""
    training = Training(prepare(tmp_path / "tree", params(max_steps=20)))
    assert training.finish() == 0, training.log.read_text()
    result, curves, run_id = training.result(), training.curves(), training.run_id
    timing = json.loads((training.root / "metrics/timing/pretrain.json").read_text())
    for out in ("models/pretrained", "metrics/timing", "metrics/curves"):
        shutil.rmtree(training.root / out)
    (training.root / "metrics/pretrain.json").unlink()
    assert training.finish() == 0, training.log.read_text()
    assert training.resumed == [20] and training.run_id == run_id
    assert training.result() == result and training.curves() == curves
    again = json.loads((training.root / "metrics/timing/pretrain.json").read_text())
    assert again | {"mfu": timing["mfu"]} == timing, "all but the peak, which every process measures"
    history = MlflowClient(f"sqlite:///{training.root / 'mlflow.db'}").get_metric_history(run_id, "tokens_per_second")
    assert len(history) == 1 and history[0].value > 0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"checkpoint_steps": 0}, "checkpoint_steps: found 0, expected at least 1, or null"),
        ({"keep_every": 0}, "keep_every: found 0, expected at least 1, or null"),
        ({"loss_spike": 1.0}, "loss_spike: found 1.0, expected a factor above 1"),
    ],
)
def test_values_that_cannot_be(root: Path, values: dict[str, object], said: str) -> None:
    from bertcore.config import parse
    from bertcore.training.config import PretrainConfig

    with pytest.raises(ConfigError, match=said):
        parse(PretrainConfig, values, "params.yaml: pretrain")
