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

from bertcore.corpus.sources import source_of
from bertcore.corpus.sources.local import ENDINGS
from bertcore.embedding.config import FROM_CORPUS, EmbedConfig
from bertcore.embedding.pairs import read_pairs as read_text_pairs
from bertcore.errors import BertcoreError, InputError
from bertcore.examples import formats
from bertcore.files import replace_directory
from bertcore.finetune.config import TaskConfig
from bertcore.finetune.encoder_tokenizer import check_size, tokenizer_directory
from bertcore.minimal_pairs.pairs import MinimalPairsConfig, read_pairs
from bertcore.model.huggingface import check_pretrained, load_config
from bertcore.objectives.pretraining import models_of
from bertcore.tokens.tokenizer import KINDS, TokenizerConfig, load_tokenizer
from bertcore.training.initial import check_vocabulary
from tasks import contradictions, environment, params
from tasks.links import link, link_files, note
from tasks.paths import (
    DERIVED,
    EXAMPLES,
    FINETUNED,
    INPUTS,
    MERGES,
    METRICS,
    PREDICTIONS,
    VOCABULARY,
)
from tasks.sections import RESERVED, check, check_no_output
from tasks.stage import main
from tasks.tracking import lineage
from tasks.tracking.runs import StageRun

logger = logging.getLogger(__name__)

TIMING = METRICS / "timing" / "finetune"


def run(_: StageRun) -> None:
    environment.check()
    values = params.read()
    configs, tasks = check(values)
    entries = params.task_entries(values)
    with replace_directory(INPUTS) as beside:
        for index, uri in enumerate(configs["corpus"].sources):
            _link_source(uri, beside / "corpus" / str(index), f"params.yaml: corpus.sources[{index}]")
        if contamination := configs["corpus"].contamination:
            for index, name in enumerate(contamination.texts):
                where = f"corpus.contamination.texts[{index}]"
                link(name, beside / "corpus" / "contamination" / str(index), where)
        _link_vocabulary(configs["tokenizer"], beside)
        _link_model(configs["pretrain"].init_from, beside / "init_from", "pretrain.init_from")
        _check_vocabulary(configs["pretrain"].init_from, configs["tokenizer"])
        models = models_of(configs["pretrain"].objective, configs["pretrain"].objective_options)
        for option, name in models.items():
            _link_model(name, beside / "objective" / option, f"pretrain.objective_options.{option}")
        if not models:
            note(None, beside / "objective")
        _link_pairs(configs["minimal_pairs"], beside / "minimal_pairs")
        _link_text_pairs(configs["embed"], beside / "embed")
        for name, task in tasks.items():
            where = f"finetune.tasks.{name}"
            link(None if task.data == DERIVED else task.data, beside / name, f"{where}.data")
            check_no_output(f"{where}.init_from", task.init_from, FINETUNED)
            _link_model(task.init_from, beside / "encoders" / name, f"{where}.init_from", with_tokenizer=True)
            teacher = task.distillation.teacher if task.distillation else None
            _link_model(teacher, beside / "teachers" / name, f"{where}.distillation.teacher", with_tokenizer=True)
            _read_examples(name, task, entries[name], configs, beside / name)
            _write_options(entries[name], beside / "options" / f"{name}.json")
    for directory in (EXAMPLES, METRICS / "examples", METRICS / "finetune"):
        directory.mkdir(parents=True, exist_ok=True)  # without any task, stages that depend on them find none
    _clear_removed({*tasks, *RESERVED})


def _link_vocabulary(config: TokenizerConfig, beside: Path) -> None:
    """The files of an existing vocabulary, read once so that one that cannot be used is told now; or a note."""
    link(config.vocab_file, beside / VOCABULARY.relative_to(INPUTS), "tokenizer.vocab_file")
    if config.vocab_file is None:
        return
    files = [Path(config.vocab_file)]
    if config.merges_file is not None:
        link(config.merges_file, beside / MERGES.relative_to(INPUTS), "tokenizer.merges_file")
        files.append(Path(config.merges_file))
    KINDS[config.kind].read(files, config.lowercase, f"params.yaml: tokenizer.vocab_file: {config.vocab_file}")


def _link_model(name: str | None, place: Path, where: str, with_tokenizer: bool = False) -> None:
    """The files of a model, looked at so that one that cannot be used is told now; or a note."""
    link(name, place, where)
    if name is None:
        return
    try:
        check_pretrained(Path(name))
        if with_tokenizer:
            with tokenizer_directory(Path(name)) as directory:
                check_size(load_tokenizer(directory), load_config(Path(name)), name)
    except BertcoreError as error:
        raise InputError(f"params.yaml: {where}: {error}") from None


def _check_vocabulary(published: str | None, config: TokenizerConfig) -> None:
    """Whether the ids of the weights that the training starts from mean what those of the given vocabulary do. Stage
    pretrain compares with the tokenizer that was made."""
    given = None if config.vocab_file is None else Path(config.vocab_file)
    if published is not None and given is not None and given.name == KINDS[config.kind].vocabulary_files[0]:
        check_vocabulary(Path(published), given.parent, published, "params.yaml: pretrain.init_from")


def _link_pairs(config: MinimalPairsConfig, directory: Path) -> None:
    """The files of minimal pairs, read once so that one that cannot be used is told now; or a note."""
    for index, name in enumerate(config.files):
        link(name, directory / str(index), f"minimal_pairs.pairs[{index}]")
        read_pairs(Path(name).expanduser())
    if not config.files:
        link(None, directory, "minimal_pairs.pairs")


def _link_text_pairs(config: EmbedConfig, place: Path) -> None:
    """The pairs of texts of stage embed, read once so that a line that is none is told now; or a note."""
    file = config.file
    if file is not None and (not file.exists() or not sum(1 for _ in read_text_pairs(file))):
        raise InputError(
            f"params.yaml: embed.pairs: found {config.pairs!r}, expected {', '.join(FROM_CORPUS)}, or JSON lines "
            "(a file .jsonl or a directory of such) with anchor and positive; correct it"
        )
    link(None if file is None else str(file), place, "embed.pairs")


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
    change. DVC's cache has what it has recorded. Of models and predictions, which no stage depends on, all else is the
    user's own, and stays."""
    recorded = lineage.recorded_hashes()
    for directory in (EXAMPLES, FINETUNED, PREDICTIONS, METRICS / "examples", METRICS / "finetune", TIMING):
        for path in directory.iterdir() if directory.is_dir() else ():
            if path.name.startswith(".") or path.name.removesuffix(".json") in tasks:
                continue
            if directory in (FINETUNED, PREDICTIONS) and str(path) not in recorded:
                continue
            if path.is_symlink() and path.is_dir():
                continue  # of a run in a tree of its own: it leads to a model of the user's tree that init_from names
            logger.info("removed %s: params.yaml names no such task", path)
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _link_source(uri: str, directory: Path, where: str) -> None:
    source = source_of(uri)
    if unread := source.unread:
        named = ", ".join(map(str, unread[:3])) + (", …" if len(unread) > 3 else "")
        logger.warning(
            "%s: %s: files left out, as they end in none of %s: %d (%s)", where, uri, ENDINGS, len(unread), named
        )
    if files := list(source.files):
        link_files(files, Path(os.path.commonpath([file.parent for file in files])), directory)
    else:
        note(uri, directory)


def _write_options(entry: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(entry.get("options", {}), indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main("inputs", run))
