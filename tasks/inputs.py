"""Stage `inputs`: check every parameter, and link the local files they name into data/inputs, where DVC watches them.

DVC's dependencies are fixed paths, but `corpus.sources` and the tasks' `data` name any number of files anywhere.
Linking them under a fixed path makes their content a dependency: a changed source re-runs what read it, and nothing
else. The `options` of a task's data may be absent, which DVC allows no params to be, so they are written there as well.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from bertcore.config import parse, suggest
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.sources import source_of
from bertcore.errors import ConfigError, InputError
from bertcore.examples.formats import FORMATS, parse_options
from bertcore.examples.hub import check_format
from bertcore.files import replace_directory
from bertcore.finetune.config import TaskConfig
from bertcore.instances.config import MaskConfig
from bertcore.model.config import BertConfig
from bertcore.model.huggingface import load_config
from bertcore.objectives.packing import check_packing
from bertcore.recipes import RECIPES
from bertcore.tokens.shards import ShardsConfig
from bertcore.tokens.wordpiece import TokenizerConfig
from bertcore.training.config import PretrainConfig
from tasks import params
from tasks.paths import DERIVED, EXAMPLES, INPUTS, METRICS
from tasks.stage import main
from tasks.tracking.runs import StageRun

RESERVED = ("corpus", "vocabulary", "init_from", "options", "encoders")
"""Folders of data/inputs that no task may be named after."""

SECTIONS = {
    "corpus": CorpusConfig,
    "tokenizer": TokenizerConfig,
    "shards": ShardsConfig,
    "mask": MaskConfig,
    "pretrain": PretrainConfig,
}


def run(_: StageRun) -> None:
    values = params.read()
    configs, tasks = check(values)
    with replace_directory(INPUTS) as beside:
        for index, uri in enumerate(configs["corpus"].sources):
            _link_source(uri, beside / "corpus" / str(index))
        if contamination := configs["corpus"].contamination:
            for index, name in enumerate(contamination.texts):
                _link(name, beside / "corpus" / "contamination" / str(index))
        _link(configs["tokenizer"].vocab_file, beside / "vocabulary")
        _link(configs["pretrain"].init_from, beside / "init_from")
        for name, task in tasks.items():
            _link(None if task.data == DERIVED else task.data, beside / name)
            _link(task.init_from, beside / "encoders" / name)
            _write_options(_entries(values)[name], beside / "options" / f"{name}.json")
    for directory in (EXAMPLES, METRICS / "examples", METRICS / "finetune"):
        directory.mkdir(parents=True, exist_ok=True)  # without any task, stages that depend on them find none


def check(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, TaskConfig]]:
    """All sections and all fine-tuning tasks as dataclasses; `ConfigError` for the first thing that cannot work."""
    known = ["recipe", *SECTIONS, "finetune"]
    for name in values:
        if name not in known:
            raise ConfigError(f"params.yaml: unknown section {name!r}; {suggest(str(name), known)}")
    if "recipe" not in values:  # DVC would run a stage that reads it, and then not record it
        raise ConfigError(
            f"params.yaml: recipe: found nothing, expected {', '.join(RECIPES)} or null; add `recipe: null` at the top"
        )
    configs: dict[str, Any] = {
        name: parse(cls, values.get(name, {}), f"params.yaml: {name}") for name, cls in SECTIONS.items()
    }
    section = values.get("finetune") or {}
    if unknown := [key for key in section if key != "tasks"]:
        raise ConfigError(f"params.yaml: finetune: unknown key {unknown[0]!r}; {suggest(str(unknown[0]), ['tasks'])}")
    entries = _entries(values)
    tasks = {name: params.parse_task(name, entry, TaskConfig) for name, entry in entries.items()}
    _check_local({
        "tokenizer.vocab_file": configs["tokenizer"].vocab_file,
        "pretrain.init_from": configs["pretrain"].init_from,
        **{f"finetune.tasks.{name}.init_from": task.init_from for name, task in tasks.items()},
    })  # fmt: skip
    _check_phases(configs["mask"], configs["pretrain"])
    check_packing(configs["pretrain"].objective, configs["mask"].packing)
    _check_lengths(configs, tasks)
    for name, task in tasks.items():
        _check_task(name, task, configs["corpus"])
        parse_options(task.format, entries[name].get("options", {}), f"params.yaml: finetune.tasks.{name}.options")
    return configs, tasks


def _entries(values: dict[str, Any]) -> dict[str, Any]:
    tasks = (values.get("finetune") or {}).get("tasks") or {}
    for name in tasks:
        if not isinstance(name, str):
            raise ConfigError(
                f"params.yaml: finetune.tasks: found the task name {name!r} ({type(name).__name__}), expected a text "
                "that begins with a letter; rename it"
            )
    return dict(tasks)


def _check_local(paths: dict[str, str | None]) -> None:
    for where, path in paths.items():
        if path is not None and "://" in path:
            raise ConfigError(f"params.yaml: {where}: found {path!r}, expected a local path; download it first")


def _check_phases(mask: MaskConfig, pretrain: PretrainConfig) -> None:
    there, missing = ("mask", "pretrain") if mask.second_phase else ("pretrain", "mask")
    if bool(mask.second_phase) != bool(pretrain.second_phase):
        raise ConfigError(
            f"params.yaml: {missing}.second_phase: found nothing (null), but {there}.second_phase is given; expected "
            f"both (mask: the longer sequences, pretrain: the share of the steps) or neither; add or remove one"
        )


def encoder(configs: dict[str, Any], vocab_size: int) -> BertConfig:
    """The model that is pre-trained: of the shape that params.yaml gives, or of that of the published weights."""
    pretrain = configs["pretrain"]
    if pretrain.init_from is None:
        return pretrain.model.build(vocab_size)
    return pretrain.model.adapt(load_config(Path(pretrain.init_from)))


def _check_lengths(configs: dict[str, Any], tasks: dict[str, TaskConfig]) -> None:
    own = encoder(configs, configs["tokenizer"].vocab_size)
    lengths = [("mask", configs["mask"].phases[-1].sequence_length, own)]
    for name, task in tasks.items():
        model = load_config(Path(task.init_from)) if task.init_from else own
        lengths.append((f"finetune.tasks.{name}", task.sequence_length, model))
    for where, length, model in lengths:
        if length > model.max_position_embeddings:
            remedy = "lower it" if model is not own else "lower it or raise pretrain.model.max_position_embeddings"
            raise ConfigError(
                f"params.yaml: {where}.sequence_length: found {length} tokens, expected at most the "
                f"{model.max_position_embeddings} positions of the model; {remedy}"
            )


def _check_task(name: str, task: TaskConfig, corpus: CorpusConfig) -> None:
    where = f"params.yaml: finetune.tasks.{name}"
    # DVC would read a name of digits as a number, and find no stage of that name.
    if not name[:1].isalpha() or not name.replace("_", "").replace("-", "").isalnum() or name in RESERVED:
        raise ConfigError(
            f"{where}: found the task name {name!r}, expected a letter, then letters, digits, - and _; rename it"
        )
    if task.format not in FORMATS:
        raise ConfigError(f"{where}.format: found {task.format!r}; {suggest(task.format, FORMATS)}")
    if task.format.startswith("pydoc/") != (task.data == DERIVED):
        raise ConfigError(
            f"{where}.data: found {task.data!r} with format {task.format!r}, expected `data: corpus` for the "
            "formats pydoc/…, "
            "and files or hf://… for all others; correct one of them"
        )
    if task.data.startswith("hf://"):
        check_format(task.data, task.format)
    if task.data == DERIVED and "pydoc" not in corpus.sources:
        raise ConfigError(
            f"{where}: the format {task.format!r} is made from the source pydoc, but corpus.sources is "
            f"{corpus.sources}; "
            "add pydoc to the sources or remove the task"
        )


def _link_source(uri: str, directory: Path) -> None:
    if files := list(source_of(uri).files):
        _link_files(files, Path(os.path.commonpath([file.parent for file in files])), directory)
    else:
        _note(uri, directory)


def _link(uri: str | None, directory: Path) -> None:
    if uri is None or "://" in uri:
        if uri is not None:
            source_of(uri)
        _note(uri, directory)
        return
    path = Path(uri)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise InputError(f"params.yaml: found {uri!r}, expected a file or a directory with files; correct the path")
    _link_files(files, path if path.is_dir() else path.parent, directory)


def _link_files(files: list[Path], root: Path, directory: Path) -> None:
    for file in files:
        link = directory / file.relative_to(root)
        link.parent.mkdir(parents=True, exist_ok=True)
        # data/inputs is filled beside its final place, at the same depth, so the relative target holds after the
        # rename.
        link.symlink_to(os.path.relpath(file.resolve(), link.parent.resolve()))


def _write_options(entry: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(entry.get("options", {}), indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _note(uri: str | None, directory: Path) -> None:
    """What is not a local file leaves a note, so that every input is a directory with a file in it."""
    directory.mkdir(parents=True)
    (directory / "source.json").write_text(json.dumps({"uri": uri}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main("inputs", run))
