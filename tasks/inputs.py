"""Stage `inputs`: check every parameter, and link the local files they name into data/inputs, where DVC watches them.

DVC's dependencies are fixed paths, but `corpus.sources` and the tasks' `data` name any number of files anywhere.
Linking them under a fixed path makes their content a dependency: a changed source re-runs what read it, and nothing
else. The `options` of a task's data may be absent, which DVC allows no params to be, so they are written there as well.
"""

import json
import logging
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from bertcore.config import parse, suggest
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.sources import source_of
from bertcore.embedding.config import FROM_CORPUS, EmbedConfig
from bertcore.embedding.pairs import read_pairs as read_text_pairs
from bertcore.errors import BertcoreError, ConfigError, InputError
from bertcore.examples import formats
from bertcore.examples.files import visible_files
from bertcore.examples.formats import FORMATS, parse_options
from bertcore.examples.hub import check_format
from bertcore.files import replace_directory
from bertcore.finetune.config import TaskConfig
from bertcore.instances.config import MaskConfig
from bertcore.minimal_pairs.pairs import MinimalPairsConfig, read_pairs
from bertcore.objectives.pretraining import models_of
from bertcore.recipes import RECIPES
from bertcore.tokens.shards import ShardsConfig
from bertcore.tokens.tokenizer import KINDS, TokenizerConfig
from bertcore.training.config import PretrainConfig
from tasks import contradictions, environment, params
from tasks.paths import (
    DERIVED,
    EXAMPLES,
    FINETUNED,
    INPUTS,
    MERGES,
    METRICS,
    PREDICTIONS,
    PRETRAINED,
    SOURCE,
    VOCABULARY,
)
from tasks.stage import main
from tasks.tracking.runs import StageRun

logger = logging.getLogger(__name__)

TIMING = METRICS / "timing" / "finetune"

RESERVED = (
    *("corpus", "vocabulary", "init_from", "objective", "options", "encoders", "teachers", "minimal_pairs", "embed"),
)
"""Folders of data/inputs and predictions that no task may be named after."""

SECTIONS = {
    "corpus": CorpusConfig,
    "tokenizer": TokenizerConfig,
    "shards": ShardsConfig,
    "mask": MaskConfig,
    "pretrain": PretrainConfig,
    "minimal_pairs": MinimalPairsConfig,
    "embed": EmbedConfig,
}


def run(_: StageRun) -> None:
    environment.check()
    values = params.read()
    configs, tasks = check(values)
    with replace_directory(INPUTS) as beside:
        for index, uri in enumerate(configs["corpus"].sources):
            _link_source(uri, beside / "corpus" / str(index))
        if contamination := configs["corpus"].contamination:
            for index, name in enumerate(contamination.texts):
                where = f"corpus.contamination.texts[{index}]"
                _link(name, beside / "corpus" / "contamination" / str(index), where)
        _link_vocabulary(configs["tokenizer"], beside)
        _link(configs["pretrain"].init_from, beside / "init_from", "pretrain.init_from")
        models = models_of(configs["pretrain"].objective, configs["pretrain"].objective_options)
        for option, name in models.items():
            _link(name, beside / "objective" / option, f"pretrain.objective_options.{option}")
        if not models:
            _note(None, beside / "objective")
        _link_pairs(configs["minimal_pairs"], beside / "minimal_pairs")
        _link_text_pairs(configs["embed"], beside / "embed")
        for name, task in tasks.items():
            where = f"finetune.tasks.{name}"
            _link(None if task.data == DERIVED else task.data, beside / name, f"{where}.data")
            _check_no_output(f"{where}.init_from", task.init_from, FINETUNED)
            _link(task.init_from, beside / "encoders" / name, f"{where}.init_from")
            teacher = task.distillation.teacher if task.distillation else None
            _link(teacher, beside / "teachers" / name, f"{where}.distillation.teacher")
            _read_examples(name, task, _entries(values)[name], configs, beside / name)
            _write_options(_entries(values)[name], beside / "options" / f"{name}.json")
    for directory in (EXAMPLES, METRICS / "examples", METRICS / "finetune"):
        directory.mkdir(parents=True, exist_ok=True)  # without any task, stages that depend on them find none
    _clear_removed({*tasks, *RESERVED})


def _link_vocabulary(config: TokenizerConfig, beside: Path) -> None:
    """The files of an existing vocabulary, read once so that one that cannot be used is told now; or a note."""
    _link(config.vocab_file, beside / VOCABULARY.relative_to(INPUTS), "tokenizer.vocab_file")
    if config.vocab_file is None:
        return
    files = [Path(config.vocab_file)]
    if config.merges_file is not None:
        _link(config.merges_file, beside / MERGES.relative_to(INPUTS), "tokenizer.merges_file")
        files.append(Path(config.merges_file))
    KINDS[config.kind].read(files, config.lowercase, f"params.yaml: tokenizer.vocab_file: {config.vocab_file}")


def _link_pairs(config: MinimalPairsConfig, directory: Path) -> None:
    """The files of minimal pairs, read once so that one that cannot be used is told now; or a note."""
    for index, name in enumerate(config.files):
        _link(name, directory / str(index), f"minimal_pairs.pairs[{index}]")
        read_pairs(Path(name).expanduser())
    if not config.files:
        _link(None, directory, "minimal_pairs.pairs")


def _link_text_pairs(config: EmbedConfig, place: Path) -> None:
    """The pairs of texts of stage embed, read once so that a line that is none is told now; or a note."""
    file = config.file
    if file is not None and (not file.exists() or not sum(1 for _ in read_text_pairs(file))):
        raise InputError(
            f"params.yaml: embed.pairs: found {config.pairs!r}, expected {', '.join(FROM_CORPUS)}, or JSON lines "
            "(a file .jsonl or a directory of such) with anchor and positive; correct it"
        )
    _link(None if file is None else str(file), place, "embed.pairs")


def _read_examples(name: str, task: TaskConfig, entry: dict[str, Any], configs: dict[str, Any], links: Path) -> None:
    """Read a task's local data once, so that a file that cannot be used is told now and not after the pre-training."""
    if task.data == DERIVED or "://" in task.data:
        return
    try:
        examples = formats.read(task.format, links, entry.get("options", {}))
    except BertcoreError as error:
        given = Path(task.data)
        named = str(error).replace(str(links), str(given if given.is_dir() else given.parent))
        raise InputError(f"params.yaml: finetune.tasks.{name}.data: {named}") from None
    contradictions.check_pairs(name, task, examples, configs)


def _clear_removed(tasks: set[str]) -> None:
    """Remove what tasks have left that params.yaml names no more: stages that depend on the folders would take it for a
    change. DVC's cache has what it had recorded."""
    for directory in (EXAMPLES, FINETUNED, PREDICTIONS, METRICS / "examples", METRICS / "finetune", TIMING):
        for path in directory.iterdir() if directory.is_dir() else ():
            if path.name.startswith(".") or path.name.removesuffix(".json") in tasks:
                continue
            if path.is_symlink() and path.is_dir():
                continue  # of a run in a tree of its own: it leads to a model of the user's tree that init_from names
            logger.info("removed %s: params.yaml names no such task", path)
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def check(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, TaskConfig]]:
    """All sections and all fine-tuning tasks as dataclasses; `ConfigError` for the first thing that cannot work."""
    _check_names(values)
    configs: dict[str, Any] = {
        name: parse(cls, {} if values[name] is None else values[name], f"params.yaml: {name}")
        for name, cls in SECTIONS.items()
    }
    entries = _entries(values)
    tasks = {name: params.parse_task(name, entry, TaskConfig) for name, entry in entries.items()}
    _check_paths(configs, tasks)
    contradictions.check_pretraining(configs)
    for name, task in tasks.items():
        _check_task(name, task, configs["corpus"])
        contradictions.check_task(name, task, configs)
        parse_options(task.format, entries[name].get("options", {}), f"params.yaml: finetune.tasks.{name}.options")
    return configs, tasks


def _check_names(values: dict[str, Any]) -> None:
    """Whether all sections are there, and no other one."""
    known = ["recipe", *SECTIONS, "finetune"]
    for name in values:
        if name not in known:
            raise ConfigError(f"params.yaml: unknown section {name!r}; {suggest(str(name), known)}")
    if "recipe" not in values:  # DVC would run a stage that reads it, and then not record it
        raise ConfigError(
            f"params.yaml: recipe: found nothing, expected {', '.join(RECIPES)} or null; add `recipe: null` at the top"
        )
    for name in (*SECTIONS, "finetune"):
        if name not in values:
            raise ConfigError(
                f"params.yaml: {name}: found nothing, expected a section, which DVC watches; add `{name}: {{}}` to "
                "have its defaults"
            )
    if unknown := [key for key in values["finetune"] or {} if key != "tasks"]:
        raise ConfigError(f"params.yaml: finetune: unknown key {unknown[0]!r}; {suggest(str(unknown[0]), ['tasks'])}")


def _check_paths(configs: dict[str, Any], tasks: dict[str, TaskConfig]) -> None:
    """Whether what must be local is, and no model is named that the pipeline writes anew."""
    pretrain, tokenizer, embed = configs["pretrain"], configs["tokenizer"], configs["embed"]
    models = models_of(pretrain.objective, pretrain.objective_options)
    given = {
        "pretrain.init_from": pretrain.init_from,
        **{f"pretrain.objective_options.{option}": path for option, path in models.items()},
    }
    teachers = {
        f"finetune.tasks.{name}.distillation.teacher": task.distillation.teacher
        for name, task in tasks.items()
        if task.distillation
    }
    _check_local({
        **teachers,
        "tokenizer.vocab_file": tokenizer.vocab_file,
        **given,
        "tokenizer.merges_file": tokenizer.merges_file,
        **{f"minimal_pairs.pairs[{index}]": file for index, file in enumerate(configs["minimal_pairs"].files)},
        "embed.pairs": None if embed.file is None else str(embed.pairs),
        **{f"finetune.tasks.{name}.init_from": task.init_from for name, task in tasks.items()},
    })  # fmt: skip
    for where, path in given.items():
        _check_no_output(where, path, PRETRAINED)
    for where, path in teachers.items():
        _check_no_output(where, path, FINETUNED)


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


def _check_no_output(where: str, path: str | None, output: Path) -> None:
    """What the pipeline writes anew, it cannot begin with."""
    if path is not None and Path(path).resolve().is_relative_to(output.resolve()):
        copy = f"{Path(path).name}-before"
        other = ", or give it to finetune-flow" if where.endswith(".init_from") and output == FINETUNED else ""
        raise ConfigError(
            f"params.yaml: {where}: found {path!r}, which the pipeline writes, expected a directory that no stage "
            f"writes; copy it, `cp -rL {path} {copy}`, and set it to {copy}{other}"
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


def _link(uri: str | None, directory: Path, where: str) -> None:
    if uri is None or "://" in uri:
        if uri is not None:
            source_of(uri)
        _note(uri, directory)
        return
    path = Path(uri).expanduser()
    files = visible_files(path) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise InputError(
            f"params.yaml: {where}: found {uri!r}, expected a file or a directory with files; correct the path"
        )
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
    (directory / SOURCE).write_text(json.dumps({"uri": uri}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main("inputs", run))
