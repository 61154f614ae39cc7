"""Windows of local attention that widen while a training goes on: what stands near a token is learned first, and sooner
where nothing else is seen."""

import math

from bertcore.model.encoder import EncoderModule
from bertcore.model.modernbert import see
from bertcore.model.modernbert_config import ModernBertConfig
from bertcore.training.config import PretrainConfig


class Windows:
    """Lets the local layers of a model see further from time to time (`pretrain.local_attention_start`)."""

    def __init__(self, model: EncoderModule, config: PretrainConfig) -> None:
        self._model, self._first, self._steps = model, config.local_attention_start, config.window_steps
        self._last = model.config.local_attention if isinstance(model.config, ModernBertConfig) else 0

    def widen(self, step: int) -> None:
        """Let the layers see as far as `step` has them."""
        if self._first is not None:
            see(self._model, window(self._first, self._last, step, self._steps))


def window(first: int, last: int, step: int, steps: int) -> int:
    """Tokens seen in `step`: `first`, doubled at equal distances, and `last` from step `steps` on."""
    doublings = max(0, math.ceil(math.log2(last / first)))
    done = doublings * step // steps if step < steps else doublings
    return first * 2**done if done < doublings else last
