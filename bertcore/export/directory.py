"""A saved model directory, read strictly: the keys, tensors and tokenizer that Hugging Face's class expects, no other.

`bertcore.model.huggingface` reads what others wrote and forgives; this reads what we give to others.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from bertcore.errors import ArtifactError
from bertcore.export.kinds import ROWS, kind_of_class
from bertcore.export.padded import PADDED
from bertcore.finetune.encoder_tokenizer import check_files, same_entries
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import CRF, READING, WEIGHTS, load_config, with_labels
from bertcore.tokens.tokenizer import Vocabulary, load_tokenizer

OTHER_KEYS = {
    *("add_cross_attention", "architectures", "bos_token_id", "chunk_size_feed_forward", "classifier_dropout", "dtype"),
    *("eos_token_id", "id2label", "is_decoder", "is_encoder_decoder", "label2id", "model_type", "output_attentions"),
    *("output_hidden_states", "position_embedding_type", "problem_type", "return_dict", "tie_word_embeddings"),
    *("torch_dtype", "transformers_version", "use_cache"),
}
"""What else transformers knows, in version 4 or 5."""
OWN_KEYS = {CRF, READING}
"""What it passes over: the scores of a chain of tags, and how a fine-tuned model reads its texts."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What config.json says."""

    directory: Path
    config: EncoderConfig
    architecture: str
    num_labels: int
    """Those that have names, or the one logit of each choice; 0 where the class has no number of labels."""


def read_config(directory: Path, *, forgive: bool = False) -> Saved:
    """`ArtifactError` if a key of config.json is missing, unknown or contradicts another one.

    `forgive` keys that are missing or unknown, as published models have them: the defaults are Hugging Face's.
    """
    config, path = load_config(directory), directory / "config.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    if not forgive:  # a default of transformers may be another one than ours, so every key of the encoder must be there
        keys = set(config.write()) - OTHER_KEYS
        _same_keys(path, set(raw), keys, OTHER_KEYS | OWN_KEYS, "save the model again")
    names = raw.get("architectures")
    if not isinstance(names, list) or len(names) != 1:
        raise ArtifactError(f"{path}: architectures: found {names!r}, expected one name; save the model again")
    kind = kind_of_class(names[0], path)
    labels = _labels(path, with_labels(raw)) if ROWS[kind].labelled else int(kind == "multiple_choice")
    return Saved(directory=directory, config=config, architecture=names[0], num_labels=labels)


def read_model(saved: Saved) -> nn.Module:
    """The model from `bertcore.export.padded`, for evaluation; `ArtifactError` if a tensor is missing, too much, or of
    another shape or type."""
    path = saved.directory / WEIGHTS
    try:
        found = load_file(path)
    except (SafetensorError, FileNotFoundError) as error:
        raise ArtifactError(f"{path}: not readable ({error}); save the model again") from None
    with torch.device("meta"):
        model = PADDED[saved.architecture](saved.config, saved.num_labels)
    expected = model.state_dict()
    _same_keys(path, set(found), set(expected), set(), f"save the model again as {saved.architecture}")
    for name, tensor in expected.items():
        here, there = found[name], (tuple(tensor.shape), torch.float32)
        if (tuple(here.shape), here.dtype) != there:
            raise ArtifactError(
                f"{path}: {name}: found {tuple(here.shape)} {here.dtype}, expected {there[0]} {there[1]} by "
                "config.json; save the model again"
            )
    model.load_state_dict(found, assign=True)
    return model.eval()


def check_tokenizer(saved: Saved, source: Path | None = None) -> None:
    """`ArtifactError` unless the tokenizer lays texts out as its kind does, and has ids that the model has embeddings
    for; with `source`, the directory of the tokenizer that the model was trained with, unless it has the same entries
    as that one."""
    path = saved.directory / "tokenizer.json"
    tokenizer = load_tokenizer(saved.directory)
    entries = tokenizer.get_vocab(with_added_tokens=True)
    if max(entries.values(), default=-1) >= saved.config.vocab_size:
        raise ArtifactError(
            f"{path}: found {len(entries)} entries, expected at most the model's vocab_size {saved.config.vocab_size}; "
            "save the tokenizer that the model was trained with"
        )
    try:
        vocabulary = Vocabulary.of(tokenizer)
    except ArtifactError as error:
        raise ArtifactError(f"{saved.directory}/{error}; save it again") from None
    if (pad := vocabulary.pad) != saved.config.pad_token_id:
        raise ArtifactError(
            f"{saved.directory}/config.json: pad_token_id: found {saved.config.pad_token_id}, expected {pad}, "
            f"the id of {tokenizer.id_to_token(pad)} in tokenizer.json; save the model again"
        )
    check_files(saved.directory, tokenizer, vocabulary)
    if source is not None:
        known = load_tokenizer(source).get_vocab(with_added_tokens=True)
        same_entries(path, entries, source / "tokenizer.json", known)


def _labels(path: Path, raw: dict[str, Any]) -> int:
    names, indices = raw.get("id2label"), raw.get("label2id")
    if (
        not isinstance(names, dict)
        or not names
        or set(names) != {str(index) for index in range(len(names))}
        or indices != {str(label): int(index) for index, label in names.items()}  # names may be numbers
    ):
        raise ArtifactError(
            f"{path}: id2label, label2id: found {names!r} and {indices!r}, expected indices from 0 with names and the "
            "reverse; save the model with the names of its labels"
        )
    return len(names)


def _same_keys(path: Path, found: set[str], expected: set[str], allowed: set[str], remedy: str) -> None:
    missing, unexpected = sorted(expected - found), sorted(found - expected - allowed)
    if missing or unexpected:
        parts = [
            f"{len(keys)} {kind} ({', '.join(keys[:3])}{', …' if len(keys) > 3 else ''})"
            for kind, keys in (("missing", missing), ("unexpected", unexpected))
            if keys
        ]
        raise ArtifactError(f"{path}: found {' and '.join(parts)} of {len(expected)} keys expected; {remedy}")
