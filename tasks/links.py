"""Links below data/inputs to files of this machine that params.yaml names: DVC watches their content through them."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bertcore.corpus.sources import source_of
from bertcore.corpus.sources.local import LocalSource
from bertcore.errors import BertcoreError, ConfigError, InputError
from bertcore.files import visible_files
from tasks import params
from tasks.paths import DERIVED, INPUTS, OBJECTIVE, SOURCE, VOCABULARY


def link(uri: str | None, directory: Path, where: str) -> None:
    """A file, or all files of a directory; of what is neither, a note. `InputError` where there is none."""
    if uri is None or "://" in uri:
        if uri is not None:
            source_of(uri)
        note(uri, directory)
        return
    if not (files := _files(uri)):
        raise InputError(
            f"params.yaml: {where}: found {uri!r}, expected a file or a directory with files; correct the path"
        )
    path = Path(uri).expanduser()
    link_files(files, path if path.is_dir() else path.parent, directory)


def link_files(files: list[Path], root: Path, directory: Path) -> None:
    """The `files`, which lie below `root`, in the same order of folders."""
    for file in files:
        place = directory / file.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        # data/inputs is filled beside its final place, at the same depth, so the relative target holds after the
        # rename.
        place.symlink_to(os.path.relpath(file.resolve(), place.parent.resolve()))


def note(uri: str | None, directory: Path) -> None:
    """What is not a local file leaves a note, so that every input is a directory with a file in it."""
    directory.mkdir(parents=True)
    (directory / SOURCE).write_text(json.dumps({"uri": uri}) + "\n", encoding="utf-8")


def other_files(root: Path) -> str | None:
    """The first name in the params.yaml of the tree `root` that leads to other files than are linked there: to one more
    or less than when they were linked, or to files of which copies were pulled.

    DVC sees what changes in a file that is linked, and knows nothing of the others. None where a file is not on this
    machine: what lies in data/inputs then came from elsewhere. None, too, where params.yaml cannot be read, which stage
    `inputs` tells.
    """
    with contextlib.chdir(root), _telling_nothing():
        linked = [each for each in _named(params.read()) if each[1].is_dir() and not (each[1] / SOURCE).is_file()]
        if all(files for _, _, files in linked):
            return next((name for name, place, files in linked if not _are_linked(place, files)), None)
    return None


def are_here(root: Path) -> bool:
    """Whether the params.yaml of the tree `root` names files, and all of them lie on this machine."""
    from bertcore.embedding.config import FROM_CORPUS  # which needs torch, and is asked for where a stage is pulled
    from bertcore.minimal_pairs.pairs import EMBEDDED

    words = {DERIVED, EMBEDDED, *FROM_CORPUS}
    with contextlib.chdir(root), _telling_nothing():
        named = [files for name, _, files in _named(params.read()) if files or name not in words]
        return bool(named) and all(named)
    return False


def _telling_nothing() -> contextlib.suppress:
    """Of what is wrong with params.yaml, or with a path in it."""
    return contextlib.suppress(BertcoreError, AttributeError, KeyError, TypeError, OSError, RuntimeError)


def _are_linked(place: Path, files: list[Path]) -> bool:
    linked = [path for path in place.rglob("*") if path.is_symlink() or path.is_file()]
    links = all(path.is_symlink() for path in linked)
    return links and {path.resolve() for path in linked} == {path.resolve() for path in files}


def _named(values: Mapping[str, Any]) -> Iterator[tuple[str, Path, list[Path]]]:
    """All that stage `inputs` links: the name in params.yaml, where its links lie, and the files that it leads to now,
    none where there is nothing. Words that name no file, such as `corpus`, are among them."""
    corpus, tokenizer, pretrain = (values.get(name) or {} for name in ("corpus", "tokenizer", "pretrain"))
    for index, entry in enumerate(corpus["sources"]):
        source = source_of(entry["uri"] if isinstance(entry, Mapping) else entry)
        if isinstance(source, LocalSource):
            files: list[Path] = []
            with contextlib.suppress(ConfigError):
                files += source.files
            yield source.uri, INPUTS / "corpus" / str(index), files
    if (name := tokenizer.get("vocab_file")) is not None:
        merges = tokenizer.get("merges_file")
        yield name, VOCABULARY, _files(name) + (_files(merges) if merges else [])
    texts = (corpus.get("contamination") or {}).get("texts") or []
    pairs = (values.get("minimal_pairs") or {}).get("pairs")
    others = [(name, INPUTS / "corpus" / "contamination" / str(index)) for index, name in enumerate(texts)]
    others += [(pretrain.get("init_from"), INPUTS / "init_from")]
    others += [((pretrain.get("objective_options") or {}).get("teacher"), OBJECTIVE / "teacher")]
    listed = pairs if isinstance(pairs, list) else [pairs]
    others += [(name, INPUTS / "minimal_pairs" / str(index)) for index, name in enumerate(listed)]
    others += [((values.get("embed") or {}).get("pairs"), INPUTS / "embed")]
    for task, entry in params.task_entries(values).items():
        others += [(entry["data"], INPUTS / task), (entry.get("init_from"), INPUTS / "encoders" / task)]
        others += [((entry.get("distillation") or {}).get("teacher"), INPUTS / "teachers" / task)]
    for name, place in others:
        if name is not None and "://" not in name:
            yield name, place, _files(name)


def _files(name: str) -> list[Path]:
    """Empty where there is no such file or directory here."""
    path = Path(name).expanduser()
    return visible_files(path) if path.is_dir() else [path] if path.is_file() else []
