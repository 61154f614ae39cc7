"""A training of seconds, whatever its objective, and that it is resumed with the same bits."""

from collections.abc import Callable
from pathlib import Path

import torch

from bertcore.instances.sources import DrawnInstances, MaskConfig
from bertcore.model.config import build_pretraining
from bertcore.training import distributed
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
    return Pretraining(settings, model, data, distributed.make_accelerator(), Checkpoints(directory / "checkpoints"))


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
