"""Reading and writing BERT models in Hugging Face's layout: config.json and model.safetensors in a directory."""

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertcore.config import parse
from bertcore.errors import ArtifactError, ConfigError
from bertcore.files import replace_directory
from bertcore.model.bert import BertModule
from bertcore.model.config import BertConfig
from bertcore.model.names import from_huggingface, to_huggingface

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TOKENIZER_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")

_ENCODER = ("embeddings.", "encoder.", "pooler.")
_OPTIONAL = "pooler."  # Hugging Face's masked-LM, tagging and question-answering models are saved without it
# Copies of tied parameters, and buffers that old versions saved.
_REDUNDANT = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "embeddings.position_ids")
# Fields that may differ between a checkpoint and the model that reads it: they change no tensor's meaning.
_FREE = {"hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range", "initializer", "pad_token_id"}
# What this implementation takes for granted: key of config.json -> (the value it must have, also when absent).
_REQUIRED = {
    "model_type": "bert",
    "is_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loaded:
    """What `load_pretrained` could not match; both lists are sorted."""

    missing: list[str]
    """Parameters of the model (heads, pooler) that the directory has not: they keep their initial values."""
    unused: list[str]
    """Tensors of the directory that the model has no place for, such as the heads of another task."""


def load_config(directory: Path) -> BertConfig:
    """The config of a Hugging Face BERT directory; `ArtifactError` if it is none or of a kind that is not supported."""
    path = directory / "config.json"
    raw = _read_json(path)
    for key, expected in _REQUIRED.items():
        if raw.get(key, expected) != expected:
            raise ArtifactError(f"{path}: {key}: found {raw[key]!r}, expected {expected!r}; give a BERT encoder")
    known = {field.name for field in dataclasses.fields(BertConfig)}
    try:
        return parse(BertConfig, {key: raw[key] for key in raw if key in known and raw[key] is not None}, str(path))
    except ConfigError as error:
        raise ArtifactError(str(error)) from None


def load_pretrained(model: BertModule, directory: Path) -> Loaded:
    """Read the weights of `directory` into `model`, whose `config` must describe the same encoder.

    Heads are read too where the names agree; then the shapes must agree as well.
    `ArtifactError` if a file is missing or damaged, if the sizes differ, or if a tensor of the encoder is missing.
    """
    _same_encoder(model.config, load_config(directory), directory)
    own = model.state_dict()
    prefix = "bert." if any(name.startswith("bert.") for name in own) else ""
    found = {_with_prefix(name, prefix): tensor for name, tensor in from_huggingface(_read_tensors(directory)).items()}
    found = {name: tensor for name, tensor in found.items() if not name.endswith(_REDUNDANT)}
    missing = sorted(own.keys() - found.keys())
    for name in missing:
        if name.startswith(tuple(prefix + part for part in _ENCODER)) and not name.startswith(prefix + _OPTIONAL):
            raise ArtifactError(
                f"{directory}: found no tensor for {name!r}, expected the whole encoder; give a complete BERT directory"
            )
    for name in own.keys() & found.keys():
        if own[name].shape != found[name].shape:
            raise ArtifactError(
                f"{directory}: {name}: found shape {tuple(found[name].shape)}, expected {tuple(own[name].shape)}; "
                "give a model of the same sizes and labels"
            )
    model.load_state_dict({name: found[name] for name in own if name in found}, strict=False)
    return Loaded(missing=missing, unused=sorted(found.keys() - own.keys()))


def save_pretrained(
    model: BertModule,
    directory: Path,
    tokenizer_directory: Path | None = None,
    extra_config: Mapping[str, Any] | None = None,
) -> None:
    """Write `model` as `directory`, replacing it in one move, so that `transformers` loads it; same model, same bytes.

    `model` has the attributes `config` and `architecture`, Hugging Face's class name. `extra_config` are more keys of
    config.json, such as a head's `id2label`. The files of `tokenizer_directory` are copied; `ArtifactError` if it has
    none, or if its vocabulary is larger than the model's.
    """
    with replace_directory(directory) as beside:
        if tokenizer_directory is not None:
            _copy_tokenizer(tokenizer_directory, beside, model.config.vocab_size)
        _write_config(model, beside / "config.json", extra_config or {})
        tensors = sorted(to_huggingface(model.state_dict()).items())
        ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors}
        save_file(ready, beside / WEIGHTS, metadata={"format": "pt"})


def _with_prefix(name: str, prefix: str) -> str:
    bare = name.removeprefix("bert.")
    return prefix + bare if bare.startswith(_ENCODER) else name


def _same_encoder(expected: BertConfig, found: BertConfig, directory: Path) -> None:
    for field in dataclasses.fields(BertConfig):
        here, there = getattr(expected, field.name), getattr(found, field.name)
        if field.name not in _FREE and here != there:
            remedy = "use the tokenizer saved with it" if field.name == "vocab_size" else "build the same model"
            raise ArtifactError(f"{directory}/config.json: {field.name}: found {there!r}, expected {here!r}; {remedy}")


def _read_tensors(directory: Path) -> dict[str, Tensor]:
    names = [WEIGHTS]
    if not (directory / WEIGHTS).exists():
        if not (directory / INDEX).exists():
            raise ArtifactError(
                f"{directory}: found neither {WEIGHTS} nor {INDEX}, expected one of them; "
                "save the model again in the safetensors format"
            )
        names = sorted(set(_read_json(directory / INDEX)["weight_map"].values()))
    tensors: dict[str, Tensor] = {}
    for name in names:
        try:
            tensors |= load_file(directory / name)
        except (SafetensorError, FileNotFoundError) as error:
            raise ArtifactError(f"{directory / name}: not readable ({error}); fetch it again") from None
    return tensors


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ArtifactError(f"{path}: not found, expected a Hugging Face model directory; correct the path") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{path}: not valid JSON ({error}); fetch it again") from None
    if not isinstance(content, dict):
        raise ArtifactError(f"{path}: found {type(content).__name__}, expected a JSON object; fetch it again")
    return content


def _write_config(model: BertModule, path: Path, extra: Mapping[str, Any]) -> None:
    config = dataclasses.asdict(model.config)
    del config["initializer"]
    content = config | _REQUIRED | {"architectures": [model.architecture], "dtype": "float32"} | dict(extra)
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _copy_tokenizer(source: Path, target: Path, vocab_size: int) -> None:
    names = [name for name in TOKENIZER_FILES if (source / name).exists()]
    if not names:
        raise ArtifactError(f"{source}: found no tokenizer, expected {' or '.join(TOKENIZER_FILES)}; correct the path")
    if "vocab.txt" in names:
        entries = len((source / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n"))
        if entries > vocab_size:
            raise ArtifactError(
                f"{source}/vocab.txt: found {entries} entries, expected at most the model's vocab_size {vocab_size}; "
                "use the tokenizer that the model was trained with"
            )
    for name in names:
        shutil.copyfile(source / name, target / name)
