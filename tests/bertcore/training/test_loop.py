"""The loop: global normalisation, exact resume, errors that help."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from bertcore.errors import TrainingError
from bertcore.instances.sources import DrawnInstances, MaskConfig
from bertcore.model.bert import BertForPreTraining
from bertcore.model.config import ModelConfig
from bertcore.training import machine
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import LongerPhase, PretrainConfig
from bertcore.training.held_out import HeldOut
from bertcore.training.loader import BatchRamp, Loader, Phases
from bertcore.training.loop import SECOND_PHASE, Pretraining, TrainingData
from bertcore.training.step import explain_out_of_memory
from bertcore.training.supervision import Supervision
from tests.samples import token_shard, vocabulary

SIZE = "pretrain.model.preset"
MODEL = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 48}


def config(**values: object) -> PretrainConfig:
    defaults = {
        "batch_size": 8,
        "max_steps": 12,
        "warmup_steps": 2,
        "learning_rate": 5e-3,
        "logging_steps": 3,
        "eval_steps": 5,
    }
    return PretrainConfig(model=ModelConfig(fields=MODEL), **{**defaults, **values})


def training(
    directory: Path,
    settings: PretrainConfig | None = None,
    report=lambda step, metrics: None,
    stable=None,
    clock=time.monotonic,
) -> Pretraining:
    settings = settings or config()
    mask = MaskConfig(sequence_length=48, max_predictions_per_seq=8)
    shard = token_shard(directory, 80)
    source = [DrawnInstances.of(shard, "shard", 0, mask, vocabulary())]
    torch.manual_seed(settings.seed)
    model = BertForPreTraining(settings.model.build(vocabulary().size))
    start = settings.batch_size_start
    ramp = None if start is None else BatchRamp(start, settings.batch_size, settings.ramp_steps)
    loader = Loader(lambda epoch: source, settings.batch_size, settings.seed, ramp=ramp)
    accelerator = machine.make_accelerator()
    data, checkpoints = TrainingData(batches=loader, heldout=source), Checkpoints(directory / "checkpoints")
    return Pretraining(settings, model, data, accelerator, checkpoints, Supervision(report=report, clock=clock), stable)


def weights(run: Pretraining) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in run.model.state_dict().items()}


def test_training_learns_and_reports(tmp_path: Path) -> None:
    seen: list[tuple[int, dict[str, float]]] = []
    run = training(tmp_path, config(max_steps=60), lambda step, metrics: seen.append((step, metrics)))
    before = run.evaluate()
    after = run.run()
    assert after["eval/mlm_loss"] < before["eval/mlm_loss"] - 0.7
    assert [step for step, metrics in seen if "train/loss" in metrics] == list(range(3, 61, 3))
    assert {"train/gradient_norm", "train/learning_rate", "train/tokens_per_second", "train/mfu"} <= seen[0][1].keys()
    assert 0 < seen[0][1]["train/mfu"] < 1 and run.timing()["tokens_per_second"] > 0
    assert all("per_second" not in name and "mfu" not in name for row in run.state.history.curves for name in row)


def test_the_loss_is_normalised_over_the_global_batch_whatever_the_micro_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    for size in (8, 3, 1):
        monkeypatch.setenv("BERTCORE_MICRO_BATCH", str(size))
        (tmp_path / str(size)).mkdir()
        run = training(tmp_path / str(size), _no_dropout())
        run.run()
        runs.append(weights(run))
    for other in runs[1:]:
        for name, tensor in runs[0].items():
            torch.testing.assert_close(other[name], tensor, atol=2e-4, rtol=2e-3)


def _no_dropout() -> PretrainConfig:
    model = ModelConfig(fields={**MODEL, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    return PretrainConfig(
        model=model, batch_size=8, max_steps=4, warmup_steps=0, learning_rate=1e-3, logging_steps=2, eval_steps=9
    )


def test_a_resumed_training_has_the_bits_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = training(tmp_path)
    whole.run()

    class KilledError(Exception):
        pass

    def stop(step: int, metrics: dict[str, float]) -> None:
        if step >= 9:
            raise KilledError

    broken = training(tmp_path, report=stop)
    broken._keeper.save_or_stop = lambda: (
        broken._keeper.save() if broken.state.step == 7 else None
    )  # a checkpoint between two points of the curve
    with pytest.raises(KilledError):
        broken.run()

    replayed: list[int] = []
    resumed = training(tmp_path, report=lambda step, metrics: replayed.append(step))
    resumed.run()
    assert resumed.state.history.curves == whole.state.history.curves
    assert replayed == [int(row["step"]) for row in whole.state.history.curves]
    for name, tensor in weights(whole).items():
        assert torch.equal(weights(resumed)[name], tensor), name


def test_a_loss_that_is_not_finite_stops_the_training(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"step \d+: found loss .* lower pretrain.learning_rate"):
        training(tmp_path, config(learning_rate=1e30, warmup_steps=0, max_grad_norm=None)).run()


MEMORY = """
import sys
from pathlib import Path
from bertcore.errors import TrainingError
from bertcore.training.step import explain_out_of_memory
from tests.bertcore.training import test_loop as module
run = module.training(Path(sys.argv[1]), module.config(batch_size=64))
run.train_step()
batch = run._feed.of(0).parts[0]
try:
    with explain_out_of_memory(run.state.step, module.SIZE, batch):
        run.model.bert.pooler.dense.weight.new_zeros(2**58)  # no address space has it, however much a system promises
except TrainingError as error:
    print(error)
"""


def test_a_batch_that_does_not_fit_names_its_size_and_the_remedy(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", MEMORY, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert "step 1: 64 sequences (" in done.stdout, done.stderr
    assert "set BERTCORE_MICRO_BATCH below 64" in done.stdout


def test_a_remedy_is_one_that_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = training(tmp_path, config(batch_size=1))._feed.of(0).parts[0]
    monkeypatch.setenv("BERTCORE_ACTIVATION_CHECKPOINTING", "1")
    said = r"step 3: 1 sequences .* set a smaller pretrain.model.preset$"
    with pytest.raises(TrainingError, match=said), explain_out_of_memory(3, SIZE, alone):
        raise MemoryError  # as numpy does
    with pytest.raises(TrainingError, match="the optimizer's state does not fit"), explain_out_of_memory(3, SIZE):
        raise torch.OutOfMemoryError
    with pytest.raises(RuntimeError, match="^shapes$"), explain_out_of_memory(3, SIZE):
        raise RuntimeError("shapes")


@pytest.mark.parametrize("asked", ["train_step", "evaluate"])
def test_the_size_of_a_given_encoder_is_no_matter_of_the_preset(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = training(tmp_path, config(init_from="org/encoder"))

    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(run._module, "forward", exhausted)
    with pytest.raises(TrainingError, match=r"or a smaller pretrain\.init_from$"):
        getattr(run, asked)()


@pytest.mark.parametrize("variable", ["BERTCORE_ACTIVATION_CHECKPOINTING"])
def test_computing_activations_again_changes_no_bit(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for value in ("0", "1"):
        monkeypatch.setenv(variable, value)
        (tmp_path / value).mkdir()
        run = training(tmp_path / value, config(max_steps=4))
        run.run()
        results.append(weights(run))
    for name, tensor in results[0].items():
        assert torch.equal(results[1][name], tensor), name


def test_masked_tokens_alone_leave_the_pair_heads_as_they_were(tmp_path: Path) -> None:
    run = training(tmp_path, config(objective="mlm", max_steps=3))
    before = weights(run)
    assert "eval/nsp_loss" not in run.run()
    changed = {name for name, tensor in weights(run).items() if not torch.equal(before[name], tensor)}
    assert not any("pooler" in name or "seq_relationship" in name for name in changed)
    assert "bert.embeddings.word_embeddings.weight" in changed


def test_the_second_phase_takes_longer_sequences_from_its_first_step(tmp_path: Path) -> None:
    shard = token_shard(tmp_path, 80)
    loaders = []
    for length in (24, 48):
        source = [DrawnInstances.of(shard, "shard", 0, MaskConfig(sequence_length=length), vocabulary())]
        loaders.append(Loader(lambda epoch, source=source: source, 4, 1))
    phases = Phases([(0, loaders[0]), (5, loaders[1])])
    assert max(phases.batch(4).lengths) <= 24 < max(phases.batch(5).lengths)
    np.testing.assert_array_equal(phases.batch(6).tokens, loaders[1].batch(1).tokens)


def test_padding_is_not_computed(tmp_path: Path) -> None:
    run = training(tmp_path)
    batch = run._feed.of(0).parts[0]
    assert len(batch.input_ids) == int(batch.layout.lengths.sum()) == run.train_step()


def test_published_weights_are_evaluated_before_they_are_trained(tmp_path: Path) -> None:
    at_start = config(init_from="somewhere", max_steps=3)
    run = training(tmp_path, at_start)
    before = run.evaluate()
    run.run()
    assert run.state.history.curves[0] == {"step": 0, **before}
    (tmp_path / "other").mkdir()
    other = training(tmp_path / "other", config(max_steps=3))
    other.run()
    assert [row["step"] for row in other.state.history.curves if "eval/loss" in row] == [3]
    for name, tensor in weights(run).items():
        assert torch.equal(weights(other)[name], tensor), name


def test_a_growing_batch_is_resumed_with_the_same_bits(tmp_path: Path) -> None:
    settings = config(batch_size_start=2, batch_ramp_share=0.5)
    sizes: list[int] = []
    whole = training(tmp_path, settings)
    compute = whole._gradients.compute
    whole._gradients.compute = lambda step, prepared: (
        sizes.append(prepared.parts[0].layout.batch_size) or compute(step, prepared)
    )
    whole.run()
    assert sizes == [2, 3, 4, 5, 6, 7, *[8] * 6]
    (tmp_path / "other").mkdir()
    first = training(tmp_path / "other", settings)
    for _ in range(4):
        first.train_step()
    first._keeper.save()
    second = training(tmp_path / "other", settings)
    second.run()
    for name, tensor in weights(whole).items():
        assert torch.equal(weights(second)[name], tensor), name


def test_every_group_follows_the_schedule_at_its_own_peak(tmp_path: Path) -> None:
    rates = {"embedding_learning_rate": 2e-2, "head_learning_rate": 1e-3, "vector_learning_rate": 1e-2}
    run = training(tmp_path, config(optimizer="muon", **rates))
    for _ in range(3):  # two steps of warm-up, and the first of 10 from the peak down
        run.train_step()
    names = {parameter: name for name, parameter in run.model.named_parameters()}
    found = {
        names[each]: group["lr"] for group in run._optimizer.param_groups for each in group["params"] if each in names
    }
    assert len(found) == len(names)
    for name, expected in {
        "bert.embeddings.word_embeddings.weight": 2e-2,
        "bert.embeddings.position_embeddings.weight": 2e-2,
        "bert.pooler.dense.weight": 1e-3,
        "bert.encoder.layer.0.attention.qkv.weight": 5e-3,
        "bert.encoder.layer.1.output_norm.weight": 1e-2,
        "cls.predictions.bias": 1e-2,
    }.items():
        assert found[name] == pytest.approx(expected), name
    assert run._train_metrics()["train/learning_rate"] == pytest.approx(5e-3)


def test_the_matrices_of_the_layers_have_a_decay_of_their_own(tmp_path: Path) -> None:
    run = training(tmp_path, config(optimizer="muon", weight_decay=0.01, hidden_weight_decay=0.3))
    names = {parameter: name for name, parameter in run.model.named_parameters()}
    for group in run._optimizer.param_groups:
        for name, matrix in ((names[each], each.ndim == 2) for each in group["params"] if each in names):
            assert group["weight_decay"] == (0.0 if not matrix else 0.3 if ".layer." in name else 0.01), name


def test_the_second_phase_is_evaluated_at_its_own_length_too(tmp_path: Path) -> None:
    settings = config(second_phase=LongerPhase(share=0.5), eval_steps=4)
    run = training(tmp_path, settings)
    longer = [DrawnInstances.of(token_shard(tmp_path, 80), "shard", 0, MaskConfig(sequence_length=40), vocabulary())]
    run._heldout_longer = HeldOut(longer, 10, run._accelerator, run._control, SIZE, SECOND_PHASE)
    final = run.run()
    rows = {int(row["step"]): row for row in run.state.history.curves if "eval/loss" in row}
    assert "eval_second_phase/loss" not in rows[4] and "eval_second_phase/loss" in rows[8]
    assert final["eval_second_phase/heldout_sequences"] == 10 < final["eval/heldout_sequences"]
    alone = run._heldout_longer.evaluate(run._module, run._objective.weights, 12, lambda: None)
    assert alone == {name: value for name, value in final.items() if name.startswith("eval_second_phase/")}
    assert alone["eval_second_phase/mlm_loss"] != final["eval/mlm_loss"]
