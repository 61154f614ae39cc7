"""Stage `inputs`: check every parameter, and link the local files they name into data/inputs, where DVC watches them.

DVC's dependencies are fixed paths, but `corpus.sources` and the tasks' `data` name any number of files anywhere.
Linking them under a fixed path makes their content a dependency: a changed source re-runs what read it, and nothing
else. The `options` of a task's data may be absent, which DVC allows no params to be, so they are written there as well,
as is what the encoder's card says of its text.
"""

import contextlib
import json
import logging
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bertcore.corpus.candidates import excluded_ids
from bertcore.corpus.config import CorpusConfig
from bertcore.corpus.sources import source_of
from bertcore.corpus.sources.formats import ENDINGS
from bertcore.embedding import FROM_CORPUS
from bertcore.embedding.config import EmbedConfig
from bertcore.embedding.pairs import read_pair_sets
from bertcore.embedding.pairs import read_pairs as read_text_pairs
from bertcore.errors import BertcoreError, InputError
from bertcore.examples import formats, splits
from bertcore.examples.schema import ExampleSet
from bertcore.files import begun_in, clear_unfinished, replace_directory, visible_files
from bertcore.finetune.advice import letters_unlike_entries
from bertcore.finetune.config import TaskConfig
from bertcore.finetune.distillation import check_teacher, check_teachers_entries
from bertcore.finetune.encoder_tokenizer import check_size, readable_tokenizer, tokenizer_directory
from bertcore.finetune.families import FAMILIES
from bertcore.minimal_pairs.pairs import read_pairs
from bertcore.model.huggingface import checked_config, load_config
from bertcore.objectives.pretraining import models_of
from bertcore.tokens.tokenizer import KINDS, TokenizerConfig, Vocabulary
from bertcore.training.config import PretrainConfig
from bertcore.training.initial import check_reading
from tasks import contradictions, environment, params
from tasks.links import link, minimal_pairs, named
from tasks.paths import DERIVED, EXAMPLES, FINETUNED, INPUTS, METRICS, PREDICTIONS, TEXT
from tasks.sections import RESERVED, check, check_no_output
from tasks.stage import main
from tasks.tracking import lineage
from tasks.tracking.runs import StageRun

logger = logging.getLogger(__name__)

TIMING = METRICS / "timing" / "finetune"
_FEW_BYTES = 2**26
"""Of files of pairs that are split into those to train on and those to score: all are held at once. More have both."""


def run(_: StageRun) -> None:
    environment.check()
    values = params.read()
    configs, tasks = check(values)
    for line in contradictions.cautions(configs):
        logger.warning(line)
    entries = params.task_entries(values)
    for name, task in tasks.items():  # not among what `check` looks at: `finetune-flow` copies such a model first
        check_no_output(f"finetune.tasks.{name}.init_from", task.init_from, FINETUNED)
    _check_text_pairs(configs["embed"])
    with replace_directory(INPUTS) as beside:
        for each in named(values):
            link(each, beside / each.place.relative_to(INPUTS))
        _check_sources(configs["corpus"])
        with params.naming("corpus.exclude"):
            excluded_ids([] if configs["corpus"].exclude is None else [Path(configs["corpus"].exclude).expanduser()])
        _check_vocabulary(configs["tokenizer"])
        _check_pretraining(configs["pretrain"], configs["tokenizer"])
        for each in minimal_pairs(values):
            if each.uri is not None:
                read_pairs(Path(each.uri).expanduser())
        for name, task in tasks.items():
            teachers_tokenizer = _check_models(name, task, configs["tokenizer"])
            examples = _read_examples(name, task, entries[name], configs, beside / name)
            if examples is not None and teachers_tokenizer is not None:
                _check_labels(name, task, examples, teachers_tokenizer)
            _write(entries[name].get("options", {}), beside / "options" / f"{name}.json")
        text = {"sources": values["corpus"]["sources"], "language": configs["corpus"].language}
        _write(text, beside / TEXT.relative_to(INPUTS))
    for directory in (EXAMPLES, METRICS / "examples", METRICS / "finetune"):
        directory.mkdir(parents=True, exist_ok=True)  # without any task, stages that depend on them find none
    _clear_removed({*tasks, *RESERVED})


def _check_text_pairs(config: EmbedConfig) -> None:
    """Read the pairs of texts of stage embed once, so that a line that is none is told now, and so are too few."""
    file = config.file
    if file is not None and (not file.exists() or not sum(1 for _ in read_text_pairs(file))):
        raise InputError(
            f"params.yaml: embed.pairs: found {config.pairs!r}, expected {', '.join(FROM_CORPUS)}, or JSON lines "
            "(a file .jsonl or a directory of such) with anchor and positive; correct it"
        )
    if file is not None and sum(each.stat().st_size for each in visible_files(file) or [file]) <= _FEW_BYTES:
        read_pair_sets(config, file)


def _check_sources(config: CorpusConfig) -> None:
    """Look at the files that the sources read, and name those of directories that none reads."""
    for index, entry in enumerate(config.sources):
        with params.naming(f"corpus.sources[{index}]"):
            source = source_of(entry.uri, **entry.reading)
            source.look()
        if unread := source.unread:
            first = ", ".join(map(str, unread[:3])) + (", …" if len(unread) > 3 else "")
            logger.warning(
                "params.yaml: corpus.sources[%d]: %s: files left out, as they end in none of %s: %d (%s)",
                *(index, entry.uri, ENDINGS, len(unread), first),
            )


def _check_vocabulary(config: TokenizerConfig) -> None:
    """Read an existing vocabulary once, so that one that cannot be used is told now, and one of other letters, too."""
    if config.vocab_file is not None:
        for said, lowercase in letters_unlike_entries(_given_tokenizer(config)):
            logger.warning("params.yaml: tokenizer.lowercase: %s; set it to %s", said, lowercase)


def _given_tokenizer(config: TokenizerConfig) -> Tokenizer:
    """That of the vocabulary that params.yaml names."""
    files = [Path(name) for name in (config.vocab_file, config.merges_file) if name is not None]
    return KINDS[config.kind].read(files, config.lowercase, f"params.yaml: tokenizer.vocab_file: {config.vocab_file}")


def _check_pretraining(config: PretrainConfig, tokenizer: TokenizerConfig) -> None:
    """Whether the models that it begins with can be used, and read texts as the vocabulary that is given beside them
    has them read."""
    begun_with = {} if config.init_from is None else {"pretrain.init_from": config.init_from}
    for option, name in models_of(config.objective, config.objective_options).items():
        begun_with[f"pretrain.objective_options.{option}"] = name
    if not begun_with:
        return
    given = _given_tokenizer(tokenizer)
    for key, name in begun_with.items():
        _check_model(name, key)
        with params.naming(key), tokenizer_directory(Path(name)):  # looks at what stands beside a vocabulary alone
            check_reading(Path(name), given, name, str(tokenizer.vocab_file))
        if name == config.init_from:
            _check_padding(name, key, given)


def _check_padding(name: str, key: str, tokenizer: Tokenizer) -> None:
    """Whether the model can be saved with the tokenizer's id of the padding."""
    with params.naming(key):
        load_config(Path(name)).with_padding(Vocabulary.of(tokenizer).pad, name)


def _check_models(name: str, task: TaskConfig, config: TokenizerConfig) -> Tokenizer | None:
    """Whether the models that a task begins with can be used, and a teacher with the tokenizer of its student, where
    that is there already. The teacher's tokenizer, if there is one."""
    student = _check_model(task.init_from, f"finetune.tasks.{name}.init_from", with_tokenizer=True)
    if task.init_from is not None and student is not None:
        _check_padding(task.init_from, f"finetune.tasks.{name}.init_from", student)
    if task.distillation is None:
        return None
    teacher, key = task.distillation.teacher, f"finetune.tasks.{name}.distillation.teacher"
    theirs = _check_model(teacher, key, with_tokenizer=True)
    if task.init_from is None and config.vocab_file is not None and not config.new_entries:
        student = _given_tokenizer(config)
    if student is not None:
        with params.naming(key):
            check_teachers_entries(Path(teacher), teacher, student)
    return theirs


def _check_model(name: str | None, key: str, with_tokenizer: bool = False) -> Tokenizer | None:
    """Whether the model can be used; its tokenizer, where that is read."""
    if name is None:
        return None
    with params.naming(key):
        checked_config(Path(name))
        if not with_tokenizer:
            return None
        tokenizer = readable_tokenizer(Path(name))
        check_size(tokenizer, load_config(Path(name)), name)
        return tokenizer


def _read_examples(
    name: str, task: TaskConfig, entry: dict[str, Any], configs: dict[str, Any], links: Path
) -> ExampleSet | None:
    """Read a task's local data once, so that a file that cannot be used is told now and not after the pre-training; the
    examples, unless they are to be made or downloaded."""
    if task.data == DERIVED or "://" in task.data:
        return None
    given = Path(task.data)
    given = given if given.is_dir() else given.parent
    try:
        with _warning_of(given, links):
            examples = formats.read(task.format, links, entry.get("options", {}))
    except BertcoreError as error:
        said = str(error).replace(str(links), str(given))
        raise InputError(f"params.yaml: finetune.tasks.{name}.data: {said}") from None
    contradictions.check_pairs(name, task, examples, configs)
    return examples


@contextlib.contextmanager
def _warning_of(given: Path, links: Path) -> Iterator[None]:
    """Within it, what the readers of tasks' data log names the files as they are `given`, and not their `links`, whose
    place nobody knows."""

    def rename(record: logging.LogRecord) -> bool:
        record.msg, record.args = record.getMessage().replace(str(links), str(given)), ()
        return True

    splits.logger.addFilter(rename)
    try:
        yield
    finally:
        splits.logger.removeFilter(rename)


def _check_labels(name: str, task: TaskConfig, examples: ExampleSet, tokenizer: Tokenizer) -> None:
    """Whether the task's teacher, whose tokenizer is given, knows the labels of the examples."""
    assert task.distillation is not None, "a tokenizer of no teacher"
    teacher = task.distillation.teacher
    family = FAMILIES[examples.family](task, examples, tokenizer)
    with params.naming(f"finetune.tasks.{name}.distillation.teacher"):
        check_teacher(Path(teacher), teacher, family)


def _clear_removed(tasks: set[str]) -> None:
    """Remove what tasks have left that params.yaml names no more: stages that depend on the folders would take it for a
    change. DVC's cache has what it has recorded. Of models and predictions, which no stage depends on, all else is the
    user's own, and stays."""
    recorded = lineage.recorded_hashes()
    for directory in begun_in(EXAMPLES):
        clear_unfinished(directory)
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


def _write(values: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main("inputs", run))
