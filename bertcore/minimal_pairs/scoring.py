"""How likely a pre-trained model finds a sentence: pseudo-log-likelihoods, one masked token at a time.

The score of a sentence is the sum, over its tokens, of the log-probability of the token where it is masked and all
others are seen (Wang & Cho 2019; Salazar et al. 2020). In words of several pieces the later pieces give an earlier one
away; `within_word_l2r` masks them as well (Kauf & Ivanova 2023).

A sentence of n tokens needs n masked copies of it, and attention in both directions lets them share nothing. So speed
comes from how they are computed: copies of one length at a time, without padding; equal ones once, such as those of
both sentences of a pair with the only token masked that differs; and logits at the masked token alone.

A model that tells replaced tokens from original ones needs each sentence once: the score is the sum, over its tokens,
of the log-probability that the token is the original one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from torch import Tensor
from torch.nn import functional

from bertcore.errors import ArtifactError, ConfigError, TextError
from bertcore.minimal_pairs.pairs import Scorer, Variant
from bertcore.model.config import architecture_of, build_discriminator, build_pretraining
from bertcore.model.encoder import EncoderModule
from bertcore.model.huggingface import checked_config, load_kind, load_pretrained
from bertcore.model.layout import Layout
from bertcore.precision import autocast, device
from bertcore.progress import Progress
from bertcore.tokens.tokenizer import Vocabulary

TOKENS_AT_ONCE = {"cpu": 4096, "cuda": 2**16}
"""Of a batch of masked copies, at most. On a CPU: the fastest of 1,024 to 8,192 (mini, 30,522 entries, BLiMP)."""
PLACES_AT_ONCE = 2**23
"""Tokens of the masked copies that are made, and compared with each other, at once."""
LOGIT_ROWS = 64
"""Rows of logits that are normalised at a time, so that they stay in the processor's cache."""


ORIGINALITY = "originality"
"""In place of a variant: the way of models that tell replaced tokens from original ones."""


@dataclass(frozen=True)
class Sentences:
    """N sentences of one length L, special tokens included."""

    places: NDArray[np.int64]
    """(N,) of each among all sentences."""
    ids: NDArray[np.int32]
    """(N, L)."""
    words: NDArray[np.int32]
    """(N, L) the word that a token is a piece of; -1 for special tokens, which are not scored."""

    def blocks(self) -> Iterator["Sentences"]:
        """The same sentences, as many at a time as `PLACES_AT_ONCE` allows."""
        size = max(1, PLACES_AT_ONCE // self.ids.shape[1] ** 2)
        for start in range(0, len(self.ids), size):
            rows = slice(start, start + size)
            yield Sentences(self.places[rows], self.ids[rows], self.words[rows])


@dataclass(frozen=True)
class MaskedCopies:
    """C different masked copies of sentences of one length L, and the Q >= C predictions that are read from them."""

    ids: NDArray[np.int32]
    """(C, L)."""
    read: NDArray[np.int64]
    """(C,) the place in its sequence at which a copy is read."""
    copy: NDArray[np.int64]
    """(Q,) the copy that a prediction is read from, ascending."""
    target: NDArray[np.int64]
    """(Q,) the token that was masked."""
    sentence: NDArray[np.int64]
    """(Q,) its sentence, among all sentences."""

    @classmethod
    def of(cls, sentences: Sentences, variant: Variant, mask: int) -> "MaskedCopies":
        ids, words = sentences.ids, sentences.words
        row, read = np.nonzero(words >= 0)  # (Q,) each
        place = np.arange(ids.shape[1])
        hidden = place == read[:, None]
        if variant == "within_word_l2r":
            hidden = (place >= read[:, None]) & (words[row] == words[row, read][:, None])
        keyed = np.column_stack([np.where(hidden, mask, ids[row]), read]).astype(np.int32)
        different, copy = np.unique(keyed, axis=0, return_inverse=True)
        order = np.argsort(copy.reshape(-1), kind="stable")
        row, read = row[order], read[order]
        return cls(
            ids=different[:, :-1],
            read=different[:, -1].astype(np.int64),
            copy=copy.reshape(-1)[order],
            target=ids[row, read].astype(np.int64),
            sentence=sentences.places[row],
        )


def load_language_model(directory: Path) -> EncoderModule:
    """`load_masked_language_model`, or the encoder with its head for replaced tokens where the directory has that."""
    if load_kind(directory) != "replaced_tokens":
        return load_masked_language_model(directory)
    return _load(build_discriminator(checked_config(directory)), directory, "head for replaced tokens")


def load_masked_language_model(directory: Path) -> EncoderModule:
    """The encoder of a Hugging Face directory with its masked-LM head, in evaluation mode, on the GPU where there is
    one. `ArtifactError` where the directory has no such head."""
    return _load(build_pretraining(checked_config(directory)), directory, "masked-LM head")


def _load(model: EncoderModule, directory: Path, head: str) -> EncoderModule:
    row = architecture_of(model.config)
    beside = (f"{row.prefix}.", *row.pair_head)  # the encoder is whole, or it would not have been read
    missing = [name for name in load_pretrained(model, directory).missing if not name.startswith(beside)]
    if missing:
        raise ArtifactError(
            f"{directory}: found no {', '.join(missing)}, expected a model with its {head}; give a directory "
            "such as models/pretrained"
        )
    return model.to(device()).eval()


@torch.inference_mode()
def pseudo_log_likelihoods(
    model: EncoderModule,
    tokenizer: Tokenizer,
    sentences: Sequence[str],
    variant: Variant = "original",
    shown: bool = True,
) -> NDArray[np.float64]:
    """(S,) pseudo-log-likelihoods, in nats, by a `model` as `bertcore.model` gives them for pre-training.

    The model must be in evaluation mode; it computes where its weights are, in the precision that autocast says.
    `InputError` for a sentence that is longer than its positions. `shown`: with progress.
    """
    groups = encode(tokenizer, sentences, model.config.max_sequence_length)
    mask = Vocabulary.of(tokenizer).mask
    result = np.zeros(len(sentences))
    progress = Progress("masked copies", sum(int((group.words >= 0).sum()) for group in groups), shown=shown)
    for copies in (MaskedCopies.of(block, variant, mask) for group in groups for block in group.blocks()):
        for predictions, log_probabilities in _predicted(model, copies):
            np.add.at(result, copies.sentence[predictions], log_probabilities)
            progress.advance(steps=len(log_probabilities))
    progress.close()
    return result


def encode(tokenizer: Tokenizer, sentences: Sequence[str], longest: int) -> list[Sentences]:
    """The sentences by their length in tokens, the shortest first; special tokens are added around them. `TextError`
    for one of more than `longest`, or without any."""
    groups: dict[int, list[tuple[int, Encoding]]] = {}
    for place, encoding in enumerate(tokenizer.encode_batch(list(sentences))):
        if len(encoding) > longest:
            raise TextError(
                place,
                f"{sentences[place][:60]!r}…: found {len(encoding)} tokens, expected at most the {longest} positions "
                "of the model; shorten or remove it",
            )
        require_token(place, sentences[place], encoding)
        groups.setdefault(len(encoding), []).append((place, encoding))
    return [_group(groups[length]) for length in sorted(groups)]


def require_token(place: int, sentence: str, encoding: Encoding) -> None:
    """`TextError` for the sentence at `place` where it has none: a sum of no terms would be the likeliest of all."""
    if all(encoding.special_tokens_mask):
        raise TextError(place, f"{sentence[:60]!r}: found no token, expected words; correct or remove it")


def _group(members: list[tuple[int, Encoding]]) -> Sentences:
    places, encodings = zip(*members, strict=True)
    words = [
        [-1 if special else word for special, word in zip(each.special_tokens_mask, each.word_ids, strict=True)]
        for each in encodings
    ]
    ids = [each.ids for each in encodings]
    return Sentences(np.array(places, np.int64), np.array(ids, np.int32), np.array(words, np.int32))


def _predicted(model: EncoderModule, copies: MaskedCopies) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Some of the predictions at a time, as a slice of them, and their log-probabilities."""
    place, (count, length) = next(model.parameters()).device, copies.ids.shape
    size = _at_once(place, length)
    for start in range(0, count, size):
        rows = copies.ids[start : start + size]
        first, last = np.searchsorted(copies.copy, [start, start + len(rows)])
        predictions = slice(int(first), int(last))
        input_ids = torch.from_numpy(rows.reshape(-1).astype(np.int64)).to(place)
        layout = Layout.from_lengths(torch.full((len(rows),), length)).to(place)
        positions = torch.from_numpy(np.arange(len(rows)) * length + copies.read[start : start + size]).to(place)
        logits, *_ = model(input_ids, torch.zeros_like(input_ids), layout, positions)
        copy = torch.from_numpy(copies.copy[predictions] - start).to(place)
        target = torch.from_numpy(copies.target[predictions]).to(place)
        yield predictions, _log_probabilities(logits[: len(rows)], copy, target).cpu().numpy().astype(np.float64)


def _log_probabilities(logits: Tensor, rows: Tensor, targets: Tensor) -> Tensor:
    """(C, V) logits -> (Q,) log-probabilities of `targets` in `rows`, without an array of all probabilities."""
    chunk = LOGIT_ROWS if logits.device.type == "cpu" else len(logits)
    normaliser = torch.cat([torch.logsumexp(part.float(), 1) for part in logits.split(chunk)])
    return logits[rows, targets].float() - normaliser[rows]


def _at_once(place: torch.device, length: int) -> int:
    """Sequences of `length` tokens, at least one."""
    return max(1, TOKENS_AT_ONCE.get(place.type, TOKENS_AT_ONCE["cpu"]) // length)


@torch.inference_mode()
def originality(model: EncoderModule, tokenizer: Tokenizer, sentences: Sequence[str]) -> NDArray[np.float64]:
    """(S,) log-probabilities that no token of a sentence is a replaced one, in nats, each token for itself.

    `model` and errors as in `pseudo_log_likelihoods`; the model gives (T,) logits of replaced tokens.
    """
    place, result = next(model.parameters()).device, np.zeros(len(sentences))
    for group in encode(tokenizer, sentences, model.config.max_sequence_length):
        length = group.ids.shape[1]
        size = _at_once(place, length)
        for rows in np.split(np.arange(len(group.ids)), range(size, len(group.ids), size)):
            input_ids = torch.from_numpy(group.ids[rows].reshape(-1).astype(np.int64)).to(place)
            layout = Layout.from_lengths(torch.full((len(rows),), length)).to(place)
            logits = model(input_ids, torch.zeros_like(input_ids), layout)
            of_tokens = functional.logsigmoid(-logits.double()).view(-1, length).cpu().numpy()
            result[group.places[rows]] = np.sum(of_tokens, axis=1, where=group.words[rows] >= 0)
    return result


def pseudo_likelihood_scorer(
    model: EncoderModule, tokenizer: Tokenizer, variant: Variant = "original", shown: bool = True
) -> Scorer:
    """`pseudo_log_likelihoods` of a model, which is put into evaluation mode, and into the machine's precision, for as
    long as it computes."""
    return _evaluating(model, lambda sentences: pseudo_log_likelihoods(model, tokenizer, sentences, variant, shown))


def sentence_scorer(
    model: EncoderModule, tokenizer: Tokenizer, variant: Variant = "original", shown: bool = True
) -> Scorer:
    """`pseudo_likelihood_scorer`, or of a model that tells replaced tokens from original ones `originality`, with a
    `ConfigError` for a variant that it has not."""
    if model.kind != "replaced_tokens":
        return pseudo_likelihood_scorer(model, tokenizer, variant, shown)
    check_variant(variant)
    return _evaluating(model, lambda sentences: originality(model, tokenizer, sentences))


def _evaluating(model: EncoderModule, scorer: Scorer) -> Scorer:
    def evaluating(sentences: Sequence[str]) -> NDArray[np.float64]:
        was_training = model.training
        model.eval()
        try:
            with autocast(next(model.parameters()).device):
                return scorer(sentences)
        finally:
            model.train(was_training)

    return evaluating


def check_variant(variant: Variant, where: str = "variant") -> None:
    """Raise `ConfigError` naming `where` if a model for replaced tokens is to mask some."""
    if variant != "original":
        raise ConfigError(
            f"{where}: found {variant!r}, but the model tells replaced tokens from original ones, and "
            "nothing is masked; expected 'original'"
        )
