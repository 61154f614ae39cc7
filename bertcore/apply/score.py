"""How likely a masked language model finds texts: pseudo-perplexities, and minimal pairs without any training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcore.apply.fill_mask import MaskedLanguageModel
from bertcore.minimal_pairs.pairs import MinimalPairsConfig, Variant, read_pairs, score, subset
from bertcore.minimal_pairs.results import MODEL, summarize
from bertcore.minimal_pairs.scoring import encode, pseudo_likelihood_scorer


def score_texts(
    model: MaskedLanguageModel, texts: Sequence[str], variant: Variant = "original"
) -> list[dict[str, Any]]:
    """For each text its `tokens`, its `pseudo_log_likelihood` in nats and its `pseudo_perplexity`, exp of minus the
    mean of the tokens (Salazar et al. 2020, section 2.4). `TextError` for a text without a token."""
    tokens = token_counts(model, texts)
    sums = pseudo_likelihood_scorer(model.model, model.tokenizer, variant)(texts)
    return [
        {
            "tokens": int(count),
            "pseudo_log_likelihood": float(value),
            "pseudo_perplexity": float(np.exp(-value / count)),
        }
        for count, value in zip(tokens, sums, strict=True)
    ]


def token_counts(model: MaskedLanguageModel, texts: Sequence[str]) -> NDArray[np.int64]:
    """(texts,) tokens of each, without special ones. `TextError` for a text without a token."""
    tokens = np.zeros(len(texts), dtype=np.int64)
    for group in encode(model.tokenizer, texts, model.model.config.max_sequence_length):
        tokens[group.places] = (group.words >= 0).sum(axis=1)
    return tokens


def score_pairs(model: MaskedLanguageModel, config: MinimalPairsConfig) -> dict[str, Any]:
    """How often the model prefers the good sentences in the files of `config`; see `results.summarize`."""
    pairs = subset([pair for name in config.files for pair in read_pairs(Path(name))], config.share)
    scores = score(pairs, pseudo_likelihood_scorer(model.model, model.tokenizer, config.variant))
    return {"variant": config.variant, "share": config.share, **summarize(pairs, {MODEL: scores})}
