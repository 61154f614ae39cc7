"""A directory of SentenceTransformers: an encoder as Hugging Face has it, and how its states become one vector.

Written in the form that all of its versions read; read as far as it is a mean, a maximum or [CLS], of length 1 or not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertcore.compressed import json_object, read_json
from bertcore.errors import ArtifactError
from bertcore.files import replace_directory, write_json
from bertcore.model.encoder import Encoder
from bertcore.model.huggingface import save_pretrained
from bertcore.tokens.kind import SETTINGS_FILE, max_length_of

MODULES = "modules.json"
_POOLING, _NORMALIZE = "1_Pooling", "2_Normalize"
_READING, _ABOUT = "sentence_bert_config.json", "config_sentence_transformers.json"
_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Keys of 1_Pooling/config.json, and what version 6 calls their values."""
_KNOWN = ("cls", "mean", "max")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a directory says that the states of a text become its vector."""

    pooling: str
    """`cls`, `mean` or `max`."""
    normalize: bool
    """Whether vectors have the length 1."""
    max_length: int | None
    """Tokens of a text at most; None where nothing is said."""


def save(model: Encoder, directory: Path, tokenizer_directory: Path, sequence_length: int, card: str) -> None:
    """Write `model`, whose vectors are means of length 1, so that `SentenceTransformer(directory)` loads it, and
    `AutoModel` the encoder; the same model, the same bytes."""
    with replace_directory(directory) as beside:
        save_pretrained(model, beside / "encoder", tokenizer_directory, card=card)
        for path in (beside / "encoder").iterdir():
            path.rename(beside / path.name)
        (beside / "encoder").rmdir()
        for name, content in _files(model.config.hidden_size, sequence_length).items():
            write_json(beside / name, content)


def _files(width: int, sequence_length: int) -> dict[str, Any]:
    modules = {"": "Transformer", _POOLING: "Pooling", _NORMALIZE: "Normalize"}
    return {
        MODULES: [
            {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{name}"}
            for place, (path, name) in enumerate(modules.items())
        ],
        f"{_POOLING}/config.json": {
            "word_embedding_dimension": width,
            **{key: mode == "mean" for key, mode in _MODES.items()},
            "include_prompt": True,
        },
        f"{_NORMALIZE}/config.json": {},  # nothing to say, but DVC and git keep no empty directories
        _READING: {"max_seq_length": sequence_length, "do_lower_case": False},
        _ABOUT: {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    }


def read(directory: Path) -> Reading | None:
    """What `directory` says of its vectors; None where it is none of SentenceTransformers.

    `ArtifactError` for modules, poolings or prompts that are not known here: other vectors would come out.
    """
    if not (directory / MODULES).is_file():
        return None
    modules = {each["type"].rpartition(".")[2]: each["path"] for each in _modules(directory / MODULES)}
    if list(modules)[:2] != ["Transformer", "Pooling"] or set(modules) - {"Transformer", "Pooling", "Normalize"}:
        raise _foreign(directory / MODULES, "type", list(modules), "Transformer, Pooling and, if it likes, Normalize")
    if modules["Transformer"]:
        raise _foreign(directory / MODULES, "path", modules["Transformer"], "the encoder in the directory itself")
    about, reading = (json_object(directory / name) for name in (_ABOUT, _READING))
    if name := about.get("default_prompt_name"):
        raise _foreign(directory / _ABOUT, "default_prompt_name", name, "null")
    if reading.get("do_lower_case"):
        raise _foreign(directory / _READING, "do_lower_case", True, "false, as the tokenizer says it")
    path = directory / modules["Pooling"] / "config.json"
    pooling = _pooling(json_object(path))
    if pooling not in _KNOWN:
        raise _foreign(path, "pooling_mode", pooling, " or ".join(_KNOWN))
    # SentenceTransformers 6 keeps it with the tokenizer.
    longest = reading.get("max_seq_length") or max_length_of(json_object(directory / SETTINGS_FILE))
    return Reading(pooling=pooling, normalize="Normalize" in modules, max_length=longest)


def module_folders(directory: Path) -> list[str]:
    """The folders of `directory` that are modules of SentenceTransformers; none where it is not of it."""
    path = directory / MODULES
    paths = [each["path"] for each in _modules(path)] if path.is_file() else []
    return [each for each in paths if each and (directory / each).is_dir()]


def _modules(path: Path) -> list[dict[str, str]]:
    """What modules.json lists."""
    found = read_json(path)
    if not isinstance(found, list) or not all(
        isinstance(each, dict) and isinstance(each.get("type"), str) and isinstance(each.get("path"), str)
        for each in found
    ):
        raise _foreign(path, "modules", found, "a list of objects, each with a type and a path")
    return found


def _pooling(values: Mapping[str, Any]) -> str:
    """One name, or several joined by +."""
    found = values.get("pooling_mode", [mode for key, mode in _MODES.items() if values.get(key)])
    return found if isinstance(found, str) else "+".join(found)


def _foreign(path: Path, key: str, found: object, expected: str) -> ArtifactError:
    return ArtifactError(
        f"{path}: {key}: found {found!r}, expected {expected}; use the directory with SentenceTransformers itself, or "
        "remove modules.json to use its encoder alone"
    )
