"""Reading and writing models in Hugging Face's layout: config.json and model.safetensors in a directory."""

import dataclasses
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertcore.config import parse
from bertcore.errors import ArtifactError, ConfigError
from bertcore.files import replace_directory, write_json
from bertcore.model.config import ARCHITECTURES, architecture_of, build_pretraining, kinds_by_class
from bertcore.model.encoder import EncoderModule, Kind
from bertcore.model.encoder_config import EncoderConfig
from bertcore.tokens.kind import max_length_of

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
CRF = "crf"
"""Key of a tagger's config.json under which the scores of its chain of tags are kept: no class of Hugging Face has a
tensor for them."""
READING = "finetuning"
"""Key of a saved model's config.json: how its texts are read and its answers made, so that what applies the model does
exactly what was scored. `transformers` passes over it."""
FAMILY = "family"
"""Under `READING`: the head family that trained the model, which is the one to predict with it."""
PAIRS = "pairs"
"""Under `READING`, of classes and numbers: whether all examples were pairs of texts, or none; left out where some
were."""

CARD_FILE = "README.md"
TOKENIZER_FILES = (
    *("vocab.txt", "vocab.json", "merges.txt"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loaded:
    """What `load_pretrained` could not match; both lists are sorted."""

    missing: list[str]
    """Parameters of the model (heads, pooler) that the directory has not: they keep their initial values."""
    unused: list[str]
    """Tensors of the directory that the model has no place for, such as the heads of another task."""


def load_config(directory: Path) -> EncoderConfig:
    """The config of a Hugging Face directory; `ArtifactError` if it is none or of a kind that is not supported."""
    path = directory / "config.json"
    raw = _read_json(path)
    kind = raw.get("model_type", "bert")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        known = " or ".join(map(repr, ARCHITECTURES))
        raise ArtifactError(f"{path}: model_type: found {kind!r}, expected {known}; give such an encoder")
    row = ARCHITECTURES[kind]
    try:
        return parse(row.config, row.config.read(raw, path), str(path))
    except ConfigError as error:
        raise ArtifactError(str(error)) from None


def load_kind(directory: Path) -> Kind | None:
    """What the class that config.json names gives; None where it names none, several, or one that is not known."""
    names = _read_json(directory / "config.json").get("architectures") or []
    return kinds_by_class().get(names[0]) if len(names) == 1 else None


def load_pretrained(model: EncoderModule, directory: Path) -> Loaded:
    """Read the weights of `directory` into `model`, whose `config` must describe the same encoder.

    Heads are read too where the names agree; then the shapes must agree as well.
    `ArtifactError` if a file is missing or damaged, if the sizes differ, or if a tensor of the encoder is missing.
    """
    found, loaded = _matched(model, directory, _read_tensors(directory, load_file))
    model.load_state_dict({name: tensor for name, tensor in found.items() if name in model.state_dict()}, strict=False)
    return loaded


def checked_config(directory: Path) -> EncoderConfig:
    """`load_config` where the weights of the encoder have the sizes that it says, `ArtifactError` as of
    `load_pretrained`: before anything so large is allocated."""
    config = load_config(directory)
    with torch.device("meta"):
        model = build_pretraining(config).base_model
    look_at_pretrained(model, directory)
    return config


def look_at_pretrained(model: EncoderModule, directory: Path) -> Loaded:
    """What `load_pretrained` would find: told by the headers of the files, without reading a weight."""
    return _matched(model, directory, _read_tensors(directory, _shapes))[1]


def _matched(model: EncoderModule, directory: Path, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Loaded]:
    """The tensors of `directory` by the names of `model`, and what of both has no counterpart."""
    _same_encoder(model.config, load_config(directory), directory)
    row, own = architecture_of(model.config), model.state_dict()
    parts = tuple(f"{name}." for name, _ in model.base_model.named_children())
    prefix = f"{model.prefix}." if model.prefix else ""
    bare = f"{row.prefix}."
    found = {
        (prefix + rest if (rest := name.removeprefix(bare)).startswith(parts) else name): tensor
        for name, tensor in row.names.from_huggingface(tensors).items()
        if not name.endswith(row.redundant)
    }
    missing = sorted(own.keys() - found.keys())
    optional = tuple(prefix + part for part in row.optional)
    for name in missing:
        if name.startswith(tuple(prefix + part for part in parts)) and not name.startswith(optional):
            raise ArtifactError(
                f"{directory}: found no tensor for {name!r}, expected the whole encoder; give a complete directory"
            )
    for name in own.keys() & found.keys():
        if own[name].shape != found[name].shape:
            raise ArtifactError(
                f"{directory}: {name}: found shape {tuple(found[name].shape)}, expected {tuple(own[name].shape)}; "
                "give a model of the same sizes and labels"
            )
    return found, Loaded(missing=missing, unused=sorted(found.keys() - own.keys()))


def label_names(labels: Sequence[str]) -> dict[str, Any]:
    """Hugging Face's two mappings between indices and names."""
    return {
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def with_labels(values: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a config.json with the names of its labels, which transformers leaves out where they are two and
    have none of their own."""
    if "id2label" in values or "label2id" in values:
        return dict(values)
    return {**values, **label_names([f"LABEL_{index}" for index in range(int(values.get("num_labels") or 2))])}


def save_pretrained(
    model: EncoderModule,
    directory: Path,
    tokenizer_directory: Path | None = None,
    extra_config: Mapping[str, Any] | None = None,
    card: str | None = None,
) -> None:
    """Write `model.published` as `directory`, replacing it in one move, so that `transformers` loads it; same model,
    same bytes.

    `model` has the attributes `config` and `architecture`, Hugging Face's class name. `extra_config` are more keys of
    config.json, such as a head's `id2label`. The files of `tokenizer_directory` are copied, with the model's positions
    as the longest sequence; `ArtifactError` if it has none, or if its vocabulary is larger than the model's. `card` is
    its README.md.
    """
    with replace_directory(directory) as beside:
        if tokenizer_directory is not None:
            _copy_tokenizer(tokenizer_directory, beside, model.config)
        _write_config(model, beside / "config.json", extra_config or {})
        if card is not None:
            (beside / CARD_FILE).write_text(card, encoding="utf-8")
        state = model.published.state_dict()
        tensors = sorted(architecture_of(model.config).names.to_huggingface(state).items())
        ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors}
        save_file(ready, beside / WEIGHTS, metadata={"format": "pt"})


def _same_encoder(expected: EncoderConfig, found: EncoderConfig, directory: Path) -> None:
    if type(found) is not type(expected):
        raise ArtifactError(
            f"{directory}/config.json: model_type: found {found.model_type!r}, expected {expected.model_type!r}; build "
            "the same model"
        )
    for field in dataclasses.fields(expected):
        here, there = getattr(expected, field.name), getattr(found, field.name)
        if field.name not in expected.free and here != there:
            remedy = "use the tokenizer saved with it" if field.name == "vocab_size" else "build the same model"
            raise ArtifactError(f"{directory}/config.json: {field.name}: found {there!r}, expected {here!r}; {remedy}")


def _shapes(file: Path) -> dict[str, Tensor]:
    """The tensors of a file, without their content."""
    with safe_open(file, "pt") as opened:
        shapes = {name: opened.get_slice(name).get_shape() for name in opened.keys()}  # noqa: SIM118 - not iterable
    return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}


def _read_tensors(directory: Path, read: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
    names = [WEIGHTS]
    if not (directory / WEIGHTS).exists():
        if not (directory / INDEX).exists():
            raise ArtifactError(
                f"{directory}: found neither {WEIGHTS} nor {INDEX}, expected one of them; "
                "save the model again in the safetensors format"
            )
        places = _read_json(directory / INDEX).get("weight_map")
        if not isinstance(places, dict) or not all(_is_name(each) for each in places.values()):
            raise ArtifactError(f"{directory / INDEX}: found no weight_map of names to files beside it; fetch it again")
        names = sorted(set(places.values()))
    tensors: dict[str, Tensor] = {}
    for name in names:
        try:
            tensors |= read(directory / name)
        except (SafetensorError, FileNotFoundError) as error:
            raise ArtifactError(f"{directory / name}: not readable ({error}); fetch it again") from None
    return tensors


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and Path(value).name == value


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(f"{path}: not found, expected a Hugging Face model directory; correct the path") from None
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: not valid JSON ({error}); fetch it again") from None
    if not isinstance(content, dict):
        raise ArtifactError(f"{path}: found {type(content).__name__}, expected a JSON object; fetch it again")
    return content


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


def _write_config(model: EncoderModule, path: Path, extra: Mapping[str, Any]) -> None:
    content = model.config.write() | {"architectures": [model.architecture], "dtype": "float32"} | dict(extra)
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _copy_tokenizer(source: Path, target: Path, config: EncoderConfig) -> None:
    names = [name for name in TOKENIZER_FILES if (source / name).exists()]
    if not names:
        raise ArtifactError(f"{source}: found no tokenizer, expected {' or '.join(TOKENIZER_FILES)}; correct the path")
    for name, entries in (("vocab.txt", _lines), ("vocab.json", _read_json)):
        if name in names and (found := len(entries(source / name))) > config.vocab_size:
            raise ArtifactError(
                f"{source}/{name}: found {found} entries, expected at most the model's vocab_size "
                f"{config.vocab_size}; use the tokenizer that the model was trained with"
            )
    for name in names:
        shutil.copyfile(source / name, target / name)
    settings = target / "tokenizer_config.json"
    if settings.exists():  # without a length, `truncation=True` cuts nothing, and the model fails at longer texts
        values = json.loads(settings.read_text(encoding="utf-8"))
        longest = min(max_length_of(values) or sys.maxsize, config.max_sequence_length)
        write_json(settings, values | {"model_max_length": longest})
