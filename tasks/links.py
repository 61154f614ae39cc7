"""What params.yaml names of this machine, and the links to it below data/inputs: DVC watches the files through them."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bertcore.corpus.sources import source_of
from bertcore.corpus.sources.local import LocalSource
from bertcore.embedding import FROM_CORPUS
from bertcore.errors import BertcoreError, InputError
from bertcore.files import visible_files
from bertcore.minimal_pairs.pairs import EMBEDDED
from tasks import params
from tasks.paths import (
    DERIVED,
    ENCODERS,
    EVAL_PAIRS,
    INPUTS,
    MERGES,
    MINIMAL_PAIRS,
    OBJECTIVE,
    SOURCE,
    TEACHERS,
    VOCABULARY,
)


@dataclass(frozen=True)
class Named:
    """What one key of params.yaml names: files of this machine, an address, or nothing."""

    key: str
    uri: str | None
    """None, too, for a word that stands for what the pipeline makes itself."""
    place: Path
    """Where its links lie, in data/inputs."""

    @property
    def local(self) -> bool:
        """Whether it names files of the user."""
        return self.uri is not None and "://" not in self.uri

    @cached_property
    def files(self) -> list[Path]:
        """Those on this machine, sorted; empty where there are none."""
        if self.uri is None or not self.local:
            return []
        path = Path(self.uri).expanduser()
        return visible_files(path) if path.is_dir() else [path] if path.is_file() else []

    @cached_property
    def root(self) -> Path:
        """The directory of whose folders the links keep the order."""
        path = Path(self.uri or "").expanduser()
        return path if path.is_dir() else path.parent


class NamedSource(Named):
    """One of `corpus.sources`, which may be a glob, and of whose directories only texts are read."""

    @property
    def local(self) -> bool:
        return isinstance(source_of(self.uri or ""), LocalSource)

    @cached_property
    def files(self) -> list[Path]:
        """As above, and of sources of other kinds what decides what they give; `ConfigError` where the user's are not
        there."""
        return list(source_of(self.uri or "").files)

    @cached_property
    def root(self) -> Path:
        return Path(os.path.commonpath([file.parent for file in self.files]))


def named(values: Mapping[str, Any]) -> Iterator[Named]:
    """Everything that stage `inputs` links, of the values of params.yaml: files, and what leaves only a note."""
    corpus, tokenizer, pretrain = (values.get(name) or {} for name in ("corpus", "tokenizer", "pretrain"))
    for index, entry in enumerate(_listed(corpus["sources"])):
        uri = entry["uri"] if isinstance(entry, Mapping) else entry
        yield NamedSource(f"corpus.sources[{index}]", uri, INPUTS / "corpus" / str(index))
    for index, uri in enumerate(_listed((corpus.get("contamination") or {}).get("texts"))):
        place = INPUTS / "corpus" / "contamination" / str(index)
        yield Named(f"corpus.contamination.texts[{index}]", uri, place)
    if (exclude := corpus.get("exclude")) is not None:
        yield Named("corpus.exclude", exclude, INPUTS / "corpus" / "exclude")
    yield Named("tokenizer.vocab_file", tokenizer.get("vocab_file"), VOCABULARY)
    if (merges := tokenizer.get("merges_file")) is not None:
        yield Named("tokenizer.merges_file", merges, MERGES)
    yield Named("pretrain.init_from", pretrain.get("init_from"), INPUTS / "init_from")
    yield from _models(pretrain)
    yield from minimal_pairs(values)
    anchors = (values.get("embed") or {}).get("pairs")
    yield Named("embed.pairs", None if anchors in FROM_CORPUS else anchors, INPUTS / "embed")
    for task, entry in params.task_entries(values).items():
        key, data = f"finetune.tasks.{task}", entry["data"]
        yield Named(f"{key}.data", None if data == DERIVED else data, INPUTS / task)
        yield Named(f"{key}.init_from", entry.get("init_from"), ENCODERS / task)
        yield Named(f"{key}.distillation.teacher", (entry.get("distillation") or {}).get("teacher"), TEACHERS / task)


def _listed(value: Any) -> list[Any]:
    """A list, of which nobody may have checked yet that it is one: a text would be a list of characters."""
    return value if isinstance(value, list) else []


def minimal_pairs(values: Mapping[str, Any]) -> Iterator[Named]:
    """Those among them that are files of minimal pairs: of the stage, and of the evaluations of the pre-training."""
    pretrain = values.get("pretrain") or {}
    for key, section, place in (
        ("minimal_pairs", values.get("minimal_pairs"), MINIMAL_PAIRS),
        ("pretrain.eval_pairs", pretrain.get("eval_pairs"), EVAL_PAIRS),
    ):
        yield from _pairs(f"{key}.pairs", (section or {}).get("pairs"), place)


def _models(pretrain: Mapping[str, Any]) -> Iterator[Named]:
    """Those of the objective's options; nothing where they name none, for which no torch is imported."""
    options = pretrain.get("objective_options") or {}
    models: dict[str, str] = {}
    if any(isinstance(value, str) for value in options.values()):
        from bertcore.objectives.pretraining import models_of
        from bertcore.training.config import PretrainConfig

        models = models_of(pretrain.get("objective", PretrainConfig.objective), options)
    for option, uri in models.items():
        yield Named(f"pretrain.objective_options.{option}", uri, OBJECTIVE / option)
    if not models:
        yield Named("pretrain.objective_options", None, OBJECTIVE)


def _pairs(key: str, given: str | list[str] | None, place: Path) -> Iterator[Named]:
    if given is None or given == EMBEDDED:
        yield Named(key, None, place)
        return
    for index, uri in enumerate(given if isinstance(given, list) else [given]):
        yield Named(f"{key}[{index}]", uri, place / str(index))


def link(each: Named, place: Path) -> None:
    """Its files at `place`, in the same order of folders; where it leads to none here a note, so that every input is a
    directory with a file in it. `InputError` where it should, and as its source raises, with the key."""
    try:
        _link(each, place)
    except BertcoreError as error:
        raise type(error)(f"params.yaml: {each.key}: {error}") from None


def _link(each: Named, place: Path) -> None:
    if each.files:
        for file in each.files:
            there = place / file.relative_to(each.root)
            there.parent.mkdir(parents=True, exist_ok=True)
            # data/inputs is filled beside its final place, at the same depth, so the relative target holds after the
            # rename.
            there.symlink_to(os.path.relpath(file.resolve(), there.parent.resolve()))
        return
    if each.local:
        what = "without a file in it" if Path(each.uri or "").is_dir() else "where nothing is"
        raise InputError(f"found {each.uri!r}, {what}, expected a file or a directory with files; correct the path")
    if each.uri is not None:
        source_of(each.uri)
    place.mkdir(parents=True)
    write_note(place, each.uri)


def write_note(directory: Path, uri: str | None) -> None:
    """What stands in `directory` in place of files, see `SOURCE`."""
    (directory / SOURCE).write_text(json.dumps({"uri": uri}) + "\n", encoding="utf-8")
