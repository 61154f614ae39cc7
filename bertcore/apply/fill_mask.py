"""The words that a masked language model expects in place of [MASK]."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from bertcore.apply.uses import require
from bertcore.errors import TextError
from bertcore.finetune.encoder_tokenizer import tokenizer_for
from bertcore.finetune.inference import by_length
from bertcore.minimal_pairs.scoring import load_masked_language_model
from bertcore.model.encoder import EncoderModule
from bertcore.model.layout import Layout
from bertcore.tokens.tokenizer import Vocabulary, tokenizer_kind

MASK = "[MASK]"
"""How a mask may always be written, whatever the tokenizer's own word for it."""
TOKENS_AT_ONCE = 4096
_MASKS_AT_ONCE = 64
"""Whose probabilities, each a number for every entry of the vocabulary, are kept at a time."""


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModel:
    """A model with its masked-LM head and its tokenizer, on the GPU where there is one."""

    directory: Path
    model: EncoderModule
    tokenizer: Tokenizer
    vocabulary: Vocabulary

    @classmethod
    def load(cls, directory: Path) -> "MaskedLanguageModel":
        """`ArtifactError` where the directory has no such head."""
        require(directory, "fill-mask")
        model = load_masked_language_model(directory)
        tokenizer = tokenizer_for(directory, model.config)
        return cls(directory=directory, model=model, tokenizer=tokenizer, vocabulary=Vocabulary.of(tokenizer))

    def word(self, index: int) -> str:
        """An entry of the vocabulary as text, a piece that continues a word with the mark that says so."""
        return self.tokenizer.decode([index]).strip() or str(self.tokenizer.id_to_token(index))

    def put(self, before: str, index: int, after: str) -> str:
        """An entry between two texts: a piece that continues a word stands at the end of the word before it."""
        word = self.word(index)
        if not self.vocabulary.continues[index]:
            return before + word + after
        piece = word if tokenizer_kind(self.tokenizer).blank else word.removeprefix("##")
        return before.rstrip(" ") + piece + after


def fill_mask(model: MaskedLanguageModel, texts: Sequence[str], top: int = 5) -> list[dict[str, Any]]:
    """For each text its `masks`, in their order: the `top` likeliest words, each with `word`, `probability` and `text`,
    the text with that word in the mask's place. Several masks are filled independently of each other.

    `TextError` for a text without a mask, or one that is longer than the model reads.
    """
    own = tokenizer_kind(model.tokenizer).special.mask
    written, sequences = masked_sequences(model, texts)
    found: list[list[list[dict[str, Any]]]] = [[] for _ in texts]
    for rows in by_length(np.asarray([len(ids) for ids in sequences]), TOKENS_AT_ONCE):
        batch = [sequences[row] for row in rows]
        places = [np.flatnonzero(ids == model.vocabulary.mask) for ids in batch]
        probabilities = _probabilities(model.model, batch, places)
        for row, of_text in zip(rows, places, strict=True):
            found[row] = [_best(model, written[row], own, nth, next(probabilities), top) for nth in range(len(of_text))]
    return [{"masks": of_text} for of_text in found]


def masked_sequences(model: MaskedLanguageModel, texts: Sequence[str]) -> tuple[list[str], list[NDArray[np.int64]]]:
    """Each text with the model's own mask, and its ids; `TextError` as `fill_mask`."""
    written = [text.replace(MASK, tokenizer_kind(model.tokenizer).special.mask) for text in texts]
    encodings = model.tokenizer.encode_batch_fast(written)
    sequences = [np.asarray(encoding.ids, dtype=np.int64) for encoding in encodings]
    longest = model.model.config.max_sequence_length
    for place, (text, ids) in enumerate(zip(texts, sequences, strict=True)):
        if not (ids == model.vocabulary.mask).any():
            message = f"{text[:60]!r}: found no {MASK}, expected one where a word is to be found; write it"
            raise TextError(place, message)
        if len(ids) > longest:
            raise TextError(
                place,
                f"{text[:60]!r}…: found {len(ids)} tokens, expected at most the {longest} that the model reads; "
                f"give less of the text around {MASK}",
            )
    return written, sequences


@torch.inference_mode()
def _probabilities(
    model: EncoderModule, batch: Sequence[NDArray[np.int64]], places: Sequence[NDArray[np.int64]]
) -> Iterator[NDArray[np.float64]]:
    """(V,) of each mask of the sequences, in their order."""
    device = next(model.parameters()).device
    lengths = np.asarray([len(ids) for ids in batch])
    starts = np.cumsum(lengths) - lengths
    ids = torch.from_numpy(np.concatenate(batch)).to(device)
    layout = Layout.from_lengths(torch.from_numpy(lengths)).to(device)
    positions = torch.from_numpy(np.concatenate([first + own for first, own in zip(starts, places, strict=True)]))
    logits, *_ = model(ids, torch.zeros_like(ids), layout, positions.to(device))
    for part in logits[: len(positions)].split(_MASKS_AT_ONCE):
        yield from torch.softmax(part.double(), dim=1).cpu().numpy()


def _best(
    model: MaskedLanguageModel, text: str, mask: str, nth: int, row: NDArray[np.float64], top: int
) -> list[dict[str, Any]]:
    # Entries of an embedding table that is larger than the vocabulary are no words.
    order = np.argsort(-row[: model.vocabulary.size], kind="stable")[:top]
    parts = text.split(mask)
    before, after = mask.join(parts[: nth + 1]), mask.join(parts[nth + 1 :])
    return [
        {
            "word": model.word(int(index)),
            "probability": float(row[index]),
            "text": model.put(before, int(index), after),
        }
        for index in order
    ]
