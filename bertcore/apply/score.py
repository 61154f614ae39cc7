"""How likely a masked language model finds texts: pseudo-perplexities, and minimal pairs without any training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Encoding

from bertcore.apply.fill_mask import MaskedLanguageModel
from bertcore.minimal_pairs.pairs import MinimalPairsConfig, Variant, read_pairs, score, subset
from bertcore.minimal_pairs.results import MODEL, summarize
from bertcore.minimal_pairs.scoring import pseudo_likelihood_scorer, require_token


def score_texts(
    model: MaskedLanguageModel, texts: Sequence[str], variant: Variant = "original"
) -> list[dict[str, Any]]:
    """For each text its `tokens`, its `pseudo_log_likelihood` in nats and its `pseudo_perplexity`, exp of minus the
    mean of the tokens (Salazar et al. 2020, section 2.4); None of a text that is longer than the model reads.
    `TextError` for a text without a token."""
    encodings = encoded(model, texts)
    read = [place for place, each in enumerate(encodings) if len(each) <= model.model.config.max_sequence_length]
    sums = pseudo_likelihood_scorer(model.model, model.tokenizer, variant)([texts[place] for place in read])
    rows: list[dict[str, Any]] = [
        {"tokens": each.special_tokens_mask.count(0), "pseudo_log_likelihood": None, "pseudo_perplexity": None}
        for each in encodings
    ]
    for place, value in zip(read, sums, strict=True):
        rows[place]["pseudo_log_likelihood"] = float(value)
        rows[place]["pseudo_perplexity"] = float(np.exp(-value / rows[place]["tokens"]))
    return rows


def encoded(model: MaskedLanguageModel, texts: Sequence[str]) -> list[Encoding]:
    """The texts as the model reads them. `TextError` for one without a token."""
    encodings = model.tokenizer.encode_batch(list(texts))
    for place, (text, encoding) in enumerate(zip(texts, encodings, strict=True)):
        require_token(place, text, encoding)
    return encodings


def score_pairs(model: MaskedLanguageModel, config: MinimalPairsConfig) -> dict[str, Any]:
    """How often the model prefers the good sentences in the files of `config`; see `results.summarize`."""
    pairs = subset([pair for name in config.files for pair in read_pairs(Path(name))], config.share)
    scores = score(pairs, pseudo_likelihood_scorer(model.model, model.tokenizer, config.variant))
    return {"variant": config.variant, "share": config.share, **summarize(pairs, {MODEL: scores})}
