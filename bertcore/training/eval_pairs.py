"""Minimal pairs scored while a model is trained: a curve of how often it prefers the right sentence."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.minimal_pairs.pairs import Pair, score
from bertcore.minimal_pairs.results import outcomes
from bertcore.minimal_pairs.scoring import encode, sentence_scorer
from bertcore.model.encoder import EncoderModule
from bertcore.training.control import Control

_AT_ONCE = 64
"""Pairs between two looks at whether the training is to stop."""


class EvalPairs:
    """Some pairs and the tokenizer that cuts them. The first process scores them; all are told the result."""

    def __init__(self, pairs: Sequence[Pair] = (), tokenizer: Tokenizer | None = None) -> None:
        self._pairs, self._tokenizer = sorted(pairs, key=lambda pair: len(pair.good)), tokenizer  # alike ones together

    def check(self, model: EncoderModule) -> None:
        """`InputError` for a sentence that `model` cannot read, in every process and before any work."""
        if (tokenizer := self._tokenizer) is None:
            return

        def only_read(sentences: Sequence[str]) -> NDArray[np.float64]:
            encode(tokenizer, sentences, model.config.max_sequence_length)
            return np.zeros(len(sentences))

        score(self._pairs, only_read)

    def evaluate(self, model: EncoderModule, control: Control, between: Callable[[], None]) -> dict[str, float]:
        """`eval/pairs_accuracy`, the share of the pairs whose good sentence `model` finds likelier, ties half; nothing
        where there are no pairs. `between` is called before every few pairs, by every process."""
        if self._tokenizer is None or not self._pairs:
            return {}
        scorer, found = sentence_scorer(model, self._tokenizer, shown=False), []
        for start in range(0, len(self._pairs), _AT_ONCE):
            between()
            if control.main:
                found.append(outcomes(score(self._pairs[start : start + _AT_ONCE], scorer)))
        share, *_ = control.gather(float(np.concatenate(found).mean()) if control.main else 0.0)
        return {"eval/pairs_accuracy": share}
