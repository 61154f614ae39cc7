"""The model that a pre-training starts from: random weights of a given shape, or a published encoder."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from bertcore.compressed import json_object
from bertcore.errors import ArtifactError
from bertcore.model.encoder import EncoderModule
from bertcore.model.encoder_config import EncoderConfig
from bertcore.model.huggingface import load_config, load_pretrained
from bertcore.objectives.pretraining import build_model
from bertcore.tokens.kind import SETTINGS_FILE, TOKENIZER_FILE
from bertcore.tokens.tokenizer import (
    ENTRIES_FILES,
    KINDS,
    TokenizerConfig,
    Vocabulary,
    check_entries,
    entries_in,
    load_tokenizer,
    tokenizer_kind,
)
from bertcore.tokens.wordpiece import make_tokenizer
from bertcore.training.config import PretrainConfig

logger = logging.getLogger(__name__)

POSITIONS = "position_embeddings.weight"
"""How the name of a table of learned positions ends."""


def initial_model(
    config: PretrainConfig, vocabulary: Vocabulary, tokenizer: Path, published: Path
) -> tuple[EncoderModule, list[str]]:
    """A model for `vocabulary`; the weights come from the directory `published` where `config.init_from` is given.

    Beside it, the names of the weights (of heads) that the directory has not: they are random.
    `tokenizer` is the directory of the pipeline's tokenizer. Entries that it has behind all of the published ones
    begin as the mean of the pieces that the published vocabulary makes of them; more positions than the published
    model has, as its own ones. `ArtifactError` where the published model has another vocabulary, read texts with other
    letters or cut otherwise, or has other sizes than `config.model` asks for.
    """
    if config.init_from is None:
        return build_model(config.objective, config.model.build(vocabulary.size, vocabulary.pad)), []
    known = entries_in(published)
    if known and _kind_in(published) != "wordpiece":
        known = []
    new = _entries(tokenizer)[len(known) :] if known else []
    check_vocabulary(published, tokenizer, config.init_from, new_entries=len(new))
    theirs = load_config(published)
    wanted = config.model.adapt(theirs).with_padding(vocabulary.pad, config.init_from)
    model = build_model(config.objective, replace(wanted, max_position_embeddings=theirs.max_position_embeddings))
    missing = load_pretrained(model, published).missing
    if new:
        logger.info("%s new entries begin as the mean of their pieces in the vocabulary of %s", len(new), published)
        lowercase = bool(load_tokenizer(tokenizer).normalizer.lowercase)
        old = make_tokenizer({entry: index for index, entry in enumerate(known)}, lowercase)
        pieces = [encoding.ids for encoding in old.encode_batch(new, add_special_tokens=False)]
        model = with_entries(model, len(known), pieces)
    if wanted.max_position_embeddings != theirs.max_position_embeddings:
        model = with_positions(model, wanted.max_position_embeddings)
    return model, missing


def with_entries(model: EncoderModule, known: int, pieces: Sequence[Sequence[int]]) -> EncoderModule:
    """`model` with the first `known` entries of its vocabulary, and one more for each element of `pieces`: the ids of
    the entries, one at least, whose mean its rows are, in the embeddings and in the bias of the logits."""
    state = model.state_dict()
    with torch.device("meta"):  # what has a row for each entry has one more there
        larger = type(model)(replace(model.config, vocab_size=model.config.vocab_size + 1)).state_dict()
    for name, tensor in state.items():
        if tensor.shape != larger[name].shape:
            new = torch.stack([tensor[list(ids)].mean(0) for ids in pieces])
            state[name] = torch.cat([tensor[:known], new])
    return _of(type(model), replace(model.config, vocab_size=known + len(pieces)), state)


def with_positions(model: EncoderModule, positions: int) -> EncoderModule:
    """`model` with more positions: a table of learned ones is repeated behind itself, which is nearer to what it must
    become than random rows are (Beltagy et al. 2020, Longformer, section 5). Rotary positions need nothing."""
    config, state = model.config, model.state_dict()
    reserved = config.max_position_embeddings - config.max_sequence_length  # rows that stand for no position
    rows = torch.arange(positions)
    rows[reserved:] = reserved + (rows[reserved:] - reserved) % config.max_sequence_length
    for name, tensor in state.items():
        if name.endswith(POSITIONS):
            state[name] = tensor[rows]
    return _of(type(model), replace(config, max_position_embeddings=positions), state)


def _of(kind: type[EncoderModule], config: EncoderConfig, state: Mapping[str, torch.Tensor]) -> EncoderModule:
    model = kind(config)
    model.load_state_dict(state)
    return model


def check_vocabulary(
    published: Path, tokenizer: Path, name: str, where: str = "pretrain.init_from", new_entries: int = 0
) -> None:
    """`ArtifactError` unless every id means the same to the model in `published` (called `name` at `where` in
    params.yaml) and the pipeline, but for the last `new_entries` of the pipeline, and both read texts alike."""
    remedy = vocabulary_remedy(_kind_in(tokenizer), name)
    entries, size = _entries(tokenizer), load_config(published).vocab_size
    entries = entries[: len(entries) - new_entries]
    if len(entries) > size:
        raise ArtifactError(
            f"{where}: {name}: found a model with vocab_size {size}, expected at least the {len(entries)} "
            f"entries of {tokenizer}; {remedy}"
        )
    theirs = _entries(published)
    check_entries(theirs, entries, f"{where}: {name}", str(tokenizer), remedy)
    if len(theirs) != len(entries):
        raise ArtifactError(
            f"{where}: {name}: found {len(theirs)} entries, expected the {len(entries)} of {tokenizer}; {remedy}"
        )
    mine = load_tokenizer(tokenizer)
    if new_entries:
        mine = tokenizer_kind(mine).first(mine, len(entries))
    check_reading(published, mine, f"{where}: {name}", str(tokenizer))


def check_reading(published: Path, tokenizer: Tokenizer, name: str, whose: str) -> None:
    """`ArtifactError`, which calls the model in `published` by `name`, unless it read texts with the letters and the
    words of `tokenizer`, which is that of `whose`, as far as `published` says how."""
    _check_normalization(published, tokenizer, name, whose)
    if not (published / TOKENIZER_FILE).is_file():
        return
    theirs = load_tokenizer(published)
    if (text := _read_otherwise(theirs, tokenizer)) is None:
        return
    remedy = _NO_REMEDY
    if tokenizer_kind(tokenizer).name == "wordpiece":
        lowercase = not tokenizer.normalizer.lowercase
        other = make_tokenizer(tokenizer.get_vocab(with_added_tokens=True), lowercase)
        if _read_otherwise(theirs, other) is None:
            remedy = _lowercase_remedy(lowercase)
    found, expected = (" ".join(each.encode(text, add_special_tokens=False).tokens) for each in (theirs, tokenizer))
    raise ArtifactError(
        f"{name}: found a model that reads {text!r} as {found}, expected {expected} as by {whose}; {remedy}"
    )


PROBES = ("Don't cut WELL-known words.", " A leading blank", "Café, naïve, Łódź", "漢字とかな 한국어", "3.14 in 2024")
"""Texts by which ways to cut are told apart: capitals, accents, apostrophes, scripts without blanks, digits."""
_NO_REMEDY = "no tokenizer of the pipeline does that; give another model"


def _lowercase_remedy(lowercase: bool) -> str:
    return f"set tokenizer.lowercase: {str(lowercase).lower()} and run `dvc repro tokenizer`"


def _read_otherwise(one: Tokenizer, other: Tokenizer) -> str | None:
    """The first of `PROBES` that the two do not give the same ids."""
    for text in PROBES:
        first, second = (each.encode(text, add_special_tokens=False).ids for each in (one, other))
        if first != second:
            return text
    return None


def _check_normalization(published: Path, tokenizer: Tokenizer, name: str, whose: str) -> None:
    theirs, mine = _normalization(published), _flags(json.loads(tokenizer.to_str())["normalizer"], _NORMALIZER)
    if not theirs or not mine or theirs == mine:
        return
    found, expected = (", ".join(f"{key} {value}" for key, value in each.items()) for each in (theirs, mine))
    usual = theirs["strip_accents"] == theirs["lowercase"] and theirs["handle_chinese_chars"]
    remedy = _lowercase_remedy(theirs["lowercase"]) if usual else _NO_REMEDY
    raise ArtifactError(f"{name}: found a model of texts with {found}, expected {expected} as in {whose}; {remedy}")


def _normalization(directory: Path) -> dict[str, bool]:
    """What BERT's normaliser does to texts, from tokenizer.json or else tokenizer_config.json; empty where neither says
    whether it lower-cases."""
    whole = _flags(json_object(directory / TOKENIZER_FILE).get("normalizer"), _NORMALIZER)
    return whole or _flags(json_object(directory / SETTINGS_FILE), _SETTINGS)


_NORMALIZER = ("lowercase", "strip_accents", "handle_chinese_chars")
_SETTINGS = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
"""The same in tokenizer_config.json."""


def _flags(found: Any, names: Sequence[str]) -> dict[str, bool]:
    """Those of BERT's normaliser by their names in tokenizer.json, from an object that has them as `names`."""
    lowercase, strip_accents, chinese = (found.get(name) if isinstance(found, dict) else None for name in names)
    if not isinstance(lowercase, bool):
        return {}
    return {
        "lowercase": lowercase,
        "strip_accents": strip_accents if isinstance(strip_accents, bool) else lowercase,  # null: as it lower-cases
        "handle_chinese_chars": chinese is not False,
    }


def vocabulary_remedy(kind: str, name: str) -> str:
    """What to write into params.yaml so that the tokenizer, of that kind, is that of the directory `name`."""
    keys = (f"{key} to {file}" for key, file in vocabulary_keys(kind, name).items())
    return f"set {' and '.join(keys)}, and tokenizer.lowercase as it was trained"


def vocabulary_keys(kind: str, name: str) -> dict[str, str]:
    """The dotted keys of params.yaml by which the tokenizer, of that kind, is that of the directory `name`."""
    keys = ("tokenizer.vocab_file", "tokenizer.merges_file")
    return {key: f"{name}/{file}" for key, file in zip(keys, KINDS[kind].files, strict=False)}


def check_lowercase(published: Path, config: TokenizerConfig, name: str, where: str) -> None:
    """`ArtifactError` where WordPiece by `config` would read other letters than the model in `published` (called `name`
    at `where`) has read, as far as that says which."""
    theirs, mine = _normalization(published).get("lowercase"), config.lowercase is not False
    if config.kind == "wordpiece" and theirs not in (None, mine):
        said = "null, which is true for wordpiece" if config.lowercase is None else str(mine).lower()
        raise ArtifactError(
            f"params.yaml: tokenizer.lowercase: found {said}, expected {str(theirs).lower()} as {where}: {name} was "
            f"trained; set it to {str(theirs).lower()}"
        )


def _kind_in(directory: Path) -> str:
    """Of the tokenizer there, by the files of its vocabulary."""
    for kind in KINDS.values():
        if kind.vocabulary_files and (directory / kind.entries_file).is_file():
            return kind.name
    return tokenizer_kind(load_tokenizer(directory)).name


def _entries(directory: Path) -> list[str]:
    """By id; `ArtifactError` where there are none."""
    if found := entries_in(directory):
        return found
    *files, last = ENTRIES_FILES
    raise ArtifactError(
        f"{directory}: found neither {', '.join(files)} nor {last}, expected one, to see that every id means "
        "the same there and here; copy it there from where the model is from"
    )
