"""A training of seconds, whatever its objective, and that it is resumed with the same bits."""

from collections.abc import Callable
from pathlib import Path

import torch

from bertcore.instances.sources import DrawnInstances, MaskConfig
from bertcore.model.config import ModelConfig, build_pretraining
from bertcore.training import machine
from bertcore.training.checkpoint import Checkpoints
from bertcore.training.config import PretrainConfig
from bertcore.training.loader import Loader
from bertcore.training.loop import Pretraining, TrainingData
from tests.samples import token_shard, vocabulary

FIELDS = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1, "max_position_embeddings": 48}


def small_training(directory: Path, settings: PretrainConfig, mask: MaskConfig) -> Pretraining:
    """Of 80 documents that lie above `directory`, with checkpoints in it."""
    source = [DrawnInstances.of(token_shard(directory.parent, 80), "shard", 0, mask, vocabulary())]
    torch.manual_seed(settings.seed)
    model = build_pretraining(settings.model.build(vocabulary().size))
    data = TrainingData(batches=Loader(lambda epoch: source, settings.batch_size, settings.seed), heldout=source)
    return Pretraining(settings, model, data, machine.make_accelerator(), Checkpoints(directory / "checkpoints"))


def training_of_visible_tokens(directory: Path, objective: str) -> Pretraining:
    """Of a ModernBERT, by an objective that asks something of unmasked tokens, and long enough to learn it."""
    settings = PretrainConfig(
        model=ModelConfig(architecture="modernbert", fields={**FIELDS, "num_hidden_layers": 2}),
        objective=objective,
        **{"batch_size": 8, "max_steps": 40, "warmup_steps": 2, "learning_rate": 5e-3, "eval_steps": 20},  # type: ignore[arg-type]
    )
    return small_training(directory, settings, MaskConfig(sequence_length=48, packing="full_sentences", duplicates=0))


def assert_resumes(make: Callable[[], Pretraining], whole: Pretraining, after: int = 5) -> Pretraining:
    """One of what `make` gives is stopped after some steps; the next one, which is returned, ends as `whole` did."""
    stopped = make()
    for _ in range(after):
        stopped.train_step()
    stopped.keep()
    resumed = make()
    resumed.run()
    assert resumed.state.resumed_from == {"step": after, "run_id": ""}
    found = resumed._trained.state_dict()
    for name, tensor in whole._trained.state_dict().items():
        assert torch.equal(found[name], tensor), name
    return resumed
