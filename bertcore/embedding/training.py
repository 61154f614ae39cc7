"""The contrastive training of an encoder on pairs of texts: the same arguments give the same weights."""

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from bertcore import draws
from bertcore.embedding.caching import backward
from bertcore.embedding.config import EmbedConfig
from bertcore.embedding.loss import matryoshka, same_text
from bertcore.embedding.pairs import Pair
from bertcore.embedding.vectors import cutting, encode
from bertcore.finetune.short_training import ShortTraining
from bertcore.memory import explained
from bertcore.model.encoder import Encoder
from bertcore.training.metrics import Report, silent


class ContrastiveTraining(ShortTraining):
    """The training of `model` on `pairs`, step by step."""

    remedy = "lower embed.learning_rate or raise embed.warmup_ratio"
    _model: Encoder
    _config: EmbedConfig

    def __init__(
        self,
        model: Encoder,
        tokenizer: Tokenizer,
        pairs: list[Pair],
        config: EmbedConfig,
        accelerator: Accelerator,
        report: Report = silent,
    ) -> None:
        """`ValueError` for dimensions that the model's vectors have not."""
        config.check_width(model.config.hidden_size)
        super().__init__(model, config, batches(len(pairs), config), accelerator, report)
        texts = list(dict.fromkeys(text for pair in pairs for text in pair.texts))
        place = {text: number for number, text in enumerate(texts)}
        self._pairs = [np.asarray([place[text] for text in pair.texts]) for pair in pairs]
        self._features = encode(cutting(tokenizer, config.sequence_length), texts)

    @property
    def truncated(self) -> int:
        """Texts whose end the model does not see."""
        return self._features.counts["truncated"]

    def backward(self, step: int, rows: NDArray[np.int64]) -> Tensor:
        config, pairs = self._config, [self._pairs[row] for row in rows]
        anchors = np.stack([pair[0] for pair in pairs])
        candidates = np.concatenate([np.stack([pair[1] for pair in pairs]), *(pair[2:] for pair in pairs)])
        texts = np.concatenate([anchors, candidates])
        parts = [texts[at : at + config.chunk_size] for at in range(0, len(texts), config.chunk_size)]
        ids = torch.from_numpy(texts).to(self._accelerator.device)
        excluded = same_text(ids[: len(anchors)], ids[len(anchors) :])

        def loss(vectors: Tensor) -> Tensor:
            first, second = vectors[: len(anchors)], vectors[len(anchors) :]
            return matryoshka(first, second, config.temperature, config.dimensions, excluded)

        with explained(f"step {step}: {len(parts[0])} texts at once do", "embed.chunk_size or embed.batch_size lower"):
            return backward(lambda chunk: self._vectors(step, chunk, parts[chunk]), len(parts), loss)

    def _vectors(self, step: int, chunk: int, texts: NDArray[np.int64]) -> Tensor:
        """(texts, H) with the dropout of this chunk of this step, which is the same whenever it is computed."""
        torch.manual_seed(draws.key("embed dropout", self._config.seed, step, chunk) >> 1)
        batch = self._features.batch(texts).to(self._accelerator.device)
        with self._accelerator.autocast():
            hidden = self._model.hidden_states(batch.input_ids, batch.token_type_ids, batch.layout)
        return batch.layout.mean(hidden.float())


def batches(pairs: int, config: EmbedConfig) -> list[NDArray[np.int64]]:
    """The pairs of every step, all batches of one size: what an epoch has left over is not trained on in it."""
    size = min(config.batch_size, pairs)
    per_epoch = pairs // size
    steps = config.max_steps or config.epochs * per_epoch
    found: list[NDArray[np.int64]] = []
    for epoch in range(-(-steps // per_epoch)):
        order = draws.permutation(draws.key("embed", config.seed, epoch), pairs)
        found += [order[at * size : (at + 1) * size] for at in range(per_epoch)]
    return found[:steps]
