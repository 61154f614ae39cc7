"""All of params.yaml as dataclasses, checked before anything begins: each section, and then all beside each other."""

import glob
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from bertcore.config import describe, parse, suggest
from bertcore.corpus.config import CorpusConfig
from bertcore.embedding.config import EmbedConfig
from bertcore.errors import ConfigError
from bertcore.examples.formats import FORMATS, parse_options
from bertcore.examples.hub import check_format, check_options
from bertcore.finetune.config import TaskConfig
from bertcore.instances.config import MaskConfig
from bertcore.minimal_pairs.pairs import MinimalPairsConfig
from bertcore.recipes.recipe import NAMES
from bertcore.shards.store import ShardsConfig
from bertcore.tokens.tokenizer import TokenizerConfig
from bertcore.training.config import PretrainConfig
from tasks import contradictions, links, params
from tasks.paths import DERIVED, FINETUNED, OUTPUTS

RESERVED = (
    *("corpus", "vocabulary", "init_from", "objective", "options", "encoders", "teachers", "minimal_pairs", "embed"),
    "eval_pairs",
    *("pretrained", "embedding"),
)
"""Folders of data/inputs and predictions, and registered models, that no task may be named after."""

_LONGEST_NAME = 100
"""Characters of a task's name, which is part of the names of files."""

SECTIONS = {
    "corpus": CorpusConfig,
    "tokenizer": TokenizerConfig,
    "shards": ShardsConfig,
    "mask": MaskConfig,
    "pretrain": PretrainConfig,
    "minimal_pairs": MinimalPairsConfig,
    "embed": EmbedConfig,
}


def check(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, TaskConfig]]:
    """All sections and all fine-tuning tasks as dataclasses; `ConfigError` for the first thing that cannot work."""
    _check_names(values)
    configs: dict[str, Any] = {
        name: parse(cls, {} if values[name] is None else values[name], f"params.yaml: {name}")
        for name, cls in SECTIONS.items()
    }
    entries = params.task_entries(values)
    for name, entry in entries.items():
        _check_options_place(name, entry)
    tasks = {name: params.parse_task(name, entry, TaskConfig) for name, entry in entries.items()}
    _check_paths(values)
    contradictions.check_pretraining(configs)
    for name, task in tasks.items():
        _check_task(name, task)
        contradictions.check_task(name, task, configs)
        where = f"params.yaml: finetune.tasks.{name}.options"
        options = parse_options(task.format, entries[name].get("options", {}), where)
        if task.data.startswith("hf://"):
            with params.naming(f"finetune.tasks.{name}.options"):
                check_options(task.data, options)
    _check_derived(tasks, configs["corpus"])
    return configs, tasks


def _check_names(values: dict[str, Any]) -> None:
    """Whether all sections are there, and no other one."""
    known = ["recipe", *SECTIONS, "finetune"]
    for name in values:
        if name not in known:
            raise ConfigError(f"params.yaml: unknown section {name!r}; {suggest(str(name), known)}")
    if "recipe" not in values:  # DVC would run a stage that reads it, and then not record it
        raise ConfigError(
            f"params.yaml: recipe: found nothing, expected {', '.join(NAMES)} or null; add `recipe: null` at the top"
        )
    for name in (*SECTIONS, "finetune"):
        if name not in values:
            raise ConfigError(
                f"params.yaml: {name}: found nothing, expected a section, which DVC watches; add "
                + ("`finetune: {tasks: {}}` for no tasks" if name == "finetune" else f"`{name}: {{}}` for its defaults")
            )
    if not isinstance(values["finetune"], Mapping):
        found = describe(values["finetune"])
        raise ConfigError(
            f"params.yaml: finetune: found {found}, expected a section with the key tasks; correct it, or write "
            "`finetune: {tasks: {}}` for none"
        )
    if unknown := [key for key in values["finetune"] if key != "tasks"]:
        raise ConfigError(f"params.yaml: finetune: unknown key {unknown[0]!r}; {suggest(str(unknown[0]), ['tasks'])}")


def _check_options_place(name: str, entry: Any) -> None:
    """`ConfigError` for an option of the task's format that stands beside its other keys."""
    if not isinstance(entry, Mapping):
        return
    row, own = FORMATS.get(str(entry.get("format"))), {field.name for field in fields(TaskConfig)}
    for field in fields(row.options) if row else ():
        if field.name in entry and field.name not in own:
            raise ConfigError(
                f"params.yaml: finetune.tasks.{name}.{field.name}: found an option of the format {entry['format']}, "
                f"expected it below options; write `options: {{{field.name}: …}}`"
            )


def _check_paths(values: dict[str, Any]) -> None:
    """Whether what must be local is, and nothing is named that the pipeline writes anew."""
    for each in links.named(values):
        where = f"params.yaml: {each.key}"
        if each.uri == "":
            raise ConfigError(f"{where}: found '', expected a path; correct it")
        if each.uri is None:
            continue
        if not each.key.startswith("corpus.") and not each.key.endswith(".data"):  # those say themselves what they read
            if "://" in each.uri:
                raise ConfigError(f"{where}: found {each.uri!r}, expected a local path; download it first")
            if each.uri.startswith("~") and "pairs[" not in each.key:
                raise ConfigError(f"{where}: found {each.uri!r}, expected a path without ~; write it out")
        # A task may begin with what the pipeline has written, and `inputs` looks with which.
        if "://" not in each.uri and not re.fullmatch(r"finetune\.tasks\..+\.init_from", each.key):
            check_no_output(each.key, each.uri, *OUTPUTS)


def check_no_output(where: str, path: str | None, *outputs: Path) -> None:
    """What the pipeline writes anew, it cannot begin with: DVC removes the outputs of a stage before it runs."""
    if path is None:
        return
    place, written = Path(path).expanduser(), [output.resolve() for output in outputs]
    found = {place}
    if glob.has_magic(path):
        found = {Path(file).parent for file in glob.iglob(str(place), recursive=True)}
    if any(each.resolve().is_relative_to(output) for each in found for output in written):
        other = f", or `make finetune MODEL={path}`" if outputs == (FINETUNED,) else ""
        remedy = f"move it to a folder of your own, such as texts/{other}"
        if place.is_dir():
            copy = f"{place.name}-before"
            remedy = f"copy it, `cp -rL {path} {copy}`, and set it to {copy}{other}"
        raise ConfigError(
            f"params.yaml: {where}: found {path!r}, which the pipeline writes, expected a path that no stage writes; "
            f"{remedy}"
        )
    inside = [output for output in outputs if place.is_dir() and output.resolve().is_relative_to(place.resolve())]
    if inside:
        raise ConfigError(
            f"params.yaml: {where}: found {path!r}, in which the pipeline writes {inside[0]}, expected a folder of "
            "your own; move your files to one, such as texts/"
        )


def _check_derived(tasks: dict[str, TaskConfig], corpus: CorpusConfig) -> None:
    """Whether there is the source that tasks are made from."""
    derived = [name for name, task in tasks.items() if task.data == DERIVED]
    if derived and "pydoc" not in corpus.uris:
        others = "remove them" if len(derived) < len(tasks) else "write `finetune: {tasks: {}}` in their place"
        raise ConfigError(
            f"params.yaml: finetune.tasks: found {', '.join(derived)}, made from the source pydoc, but corpus.sources "
            f"is {corpus.uris}; {others}, or add pydoc to the sources"
        )


def _check_task(name: str, task: TaskConfig) -> None:
    where = f"params.yaml: finetune.tasks.{name}"
    if name in RESERVED:
        raise ConfigError(f"{where}: found the task name {name!r}, which is reserved for a folder; rename it")
    # DVC would read a name of digits as a number, and find no stage of that name.
    if not name[:1].isalpha() or not name.replace("_", "").replace("-", "").isalnum() or len(name) > _LONGEST_NAME:
        raise ConfigError(
            f"{where}: found the task name {name!r}, expected a letter, then letters, digits, - and _, at most "
            f"{_LONGEST_NAME} in all; rename it"
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
        try:
            check_format(task.data, task.format)
        except ConfigError as error:
            raise ConfigError(f"{where}.data: {error}") from None
    elif "://" in task.data:
        raise ConfigError(
            f"{where}.data: found {task.data!r}, expected a local path or hf://ORG/NAME; download it first"
        )
