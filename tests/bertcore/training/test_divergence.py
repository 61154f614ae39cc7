"""Steps that must not be taken are caught before they are, written down, and passed over where that is wanted."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bertcore.errors import TrainingError
from bertcore.instances.config import MaskConfig
from bertcore.instances.sources import DrawnInstances
from bertcore.training.divergence import LossWatch
from bertcore.training.flight_record import part_of, rows_of
from bertcore.training.loader import Loader
from bertcore.training.loop import Pretraining
from tests.bertcore.training.test_loop import config, training, weights
from tests.samples import token_shard, vocabulary


def poison(run: Pretraining, *steps: int) -> Pretraining:
    """The gradient of one weight is not a number in `steps`."""
    weight = next(weight for name, weight in run.model.named_parameters() if part_of(name).endswith("layer.1"))
    weight.register_hook(lambda gradient: gradient * (float("nan") if run.state.step in steps else 1.0))
    return run


def test_a_step_that_is_not_finite_is_never_applied(tmp_path: Path) -> None:
    run = poison(training(tmp_path, config()), 5)
    before = None
    with pytest.raises(TrainingError, match=r"step 5: found loss \d.* and gradient norm nan, .*skip_on_divergence"):
        while True:
            before = weights(run)
            run.train_step()
    for name, tensor in weights(run).items():
        assert before is not None and torch.equal(tensor, before[name]), name


def test_the_flight_record_tells_what_the_step_was(tmp_path: Path) -> None:
    run = poison(training(tmp_path, config(checkpoint_steps=2)), 5)
    run._guard._rows = lambda step: [{"shard": "train-00000.arrow", "rows": [step]}]
    with pytest.raises(
        TrainingError, match=r"record is \S+/diverged-step-00000005.json \(`python -m tasks.training.replay"
    ):
        run.run()
    record = json.loads((tmp_path / "checkpoints" / "diverged-step-00000005.json").read_text())
    assert record["step"] == 5 and record["checkpoint_step"] == 4 and record["world_size"] == 1
    assert record["gradient_norm"] == "nan" and record["gradient_norms"]["bert.encoder.layer.1"] == "nan"
    assert record["gradient_norms"]["bert.encoder.layer.0"] > 0
    assert record["loss"] == pytest.approx(sum(record["loss_terms"].values())) and record["learning_rate"] > 0
    assert record["rows"] == [{"shard": "train-00000.arrow", "rows": [5]}]


def test_skipping_leaves_out_exactly_the_rows_of_the_step(tmp_path: Path) -> None:
    """The model, the dropout and the other batches are as if the step had not been there."""
    settings = config(skip_on_divergence=True)
    skipping = poison(training(tmp_path, settings), 5)
    skipping.run()
    (tmp_path / "other").mkdir()
    without = training(tmp_path / "other", settings)
    without.state.watch.skipped[:] = [5]
    without.run()
    assert skipping.state.watch.skipped == [5] and skipping.state.step == 12
    assert skipping.state.history.curves == without.state.history.curves
    for name, tensor in weights(skipping).items():
        assert torch.equal(tensor, weights(without)[name]), name


def test_the_skipped_steps_are_in_the_checkpoint(tmp_path: Path) -> None:
    first = poison(training(tmp_path, config(skip_on_divergence=True, checkpoint_steps=7)), 5)
    first.run()
    second = training(tmp_path, config(skip_on_divergence=True, checkpoint_steps=7))
    second.resume(most=7)
    assert second.state.step == 7 and second.state.watch.skipped == [5]


def test_ten_skipped_in_a_row_are_no_accident(tmp_path: Path) -> None:
    run = poison(training(tmp_path, config(skip_on_divergence=True, max_steps=40)), *range(3, 40))
    with pytest.raises(TrainingError, match="step 12: .* 10 steps in a row: it is not the data"):
        run.run()


def test_a_spike_is_told_from_the_noise_after_the_first_steps() -> None:
    watch = LossWatch(2.0)
    for loss in np.linspace(9.0, 5.0, 20):
        assert watch.problem(20.0, 1.0) is None, "there is no mean yet"
        watch.add(loss)
    assert watch.mean == pytest.approx(7.0)
    assert watch.problem(13.9, 1.0) is None
    assert watch.problem(14.1, 1.0) == "found loss 14.1, expected at most pretrain.loss_spike (2) times the 7 before"
    again = LossWatch(2.0)
    again.restore(watch.state())
    watch.add(3.0)
    again.add(3.0)
    assert again.mean == watch.mean
    assert LossWatch(None).problem(1e9, 1.0) is None
    assert LossWatch(None).problem(float("inf"), 1.0) is not None


def test_a_spike_is_warned_of_once() -> None:
    watch = LossWatch(None)
    for _ in range(20):
        assert not watch.spikes(100.0), "there is no mean yet"
        watch.add(5.0)
    assert [watch.spikes(loss) for loss in (6.4, 6.6, 9.0, 6.0, 7.0)] == [False, True, False, False, True]
    assert watch.problem(9.0, 1.0) is None


def test_a_spike_ends_the_training_at_its_step(tmp_path: Path) -> None:
    """So slow a training that its noise is taken for one."""
    settings = config(max_steps=60, loss_spike=1.0001, learning_rate=1e-6)
    with pytest.raises(TrainingError, match=r"step [2-5]\d: found loss .*, expected at most pretrain.loss_spike"):
        training(tmp_path, settings).run()


def test_parts_of_the_model() -> None:
    assert part_of("bert.encoder.layer.11.output.dense.weight") == "bert.encoder.layer.11"
    assert part_of("bert.embeddings.word_embeddings.weight") == "bert.embeddings"
    assert part_of("cls.predictions.bias") == "cls.predictions"


def test_rows_and_documents_of_a_step_are_those_of_its_batch(tmp_path: Path) -> None:
    shards = [token_shard(tmp_path, 40, seed) for seed in (1, 2)]
    mask = MaskConfig(sequence_length=48)

    def sources(epoch: int) -> list[DrawnInstances]:
        # As many sequences in every epoch as the mask stage has counted in the first.
        counts = [len(DrawnInstances.of(shard, "s", 0, mask, vocabulary())) for shard in shards]
        return [
            DrawnInstances.of(shard, f"shard-{index}", epoch, mask, vocabulary(), counts[index])
            for index, shard in enumerate(shards)
        ]

    loader = Loader(sources, 16, 1)
    for step in (0, loader.sequences_per_epoch // 16, 40):
        found = rows_of(loader, step)
        assert sum(len(entry["rows"]) for entry in found) == 16
        lengths = sorted(loader.batch(step).lengths)
        own = []
        for entry in found:
            source = sources(entry["epoch"])[int(entry["shard"][-1])]
            own += list(source.take(np.array(entry["rows"])).lengths)
            for row, documents in zip(entry["rows"], entry["documents"], strict=True):
                first, end = source.packed.row_offsets[source.rows_of(np.array([row]))[0] :][:2]
                starts = source.packed.starts[first:end]
                begins = source.shard.sentence_offsets[source.shard.document_offsets]
                assert {max(np.flatnonzero(begins <= start)) for start in starts} == set(documents)
        assert sorted(own) == lengths
