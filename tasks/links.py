"""Links below data/inputs to files of this machine that params.yaml names: DVC watches their content through them."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bertcore.corpus.sources import source_of
from bertcore.corpus.sources.local import LocalSource
from bertcore.errors import BertcoreError, InputError
from bertcore.files import visible_files
from tasks import params
from tasks.paths import INPUTS, SOURCE


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
    """The first name of texts or examples in the params.yaml of the tree `root` that leads to other files than are
    linked there: to one more or less than when they were linked, or to files of which copies were pulled.

    DVC sees what changes in a file that is linked, and knows nothing of the others. None where params.yaml cannot be
    read, which stage `inputs` tells.
    """
    with contextlib.chdir(root), contextlib.suppress(BertcoreError, AttributeError, KeyError, TypeError):
        for uri, place, files in _named(params.read()):
            if not place.is_dir() or (place / SOURCE).is_file():
                continue
            linked = [path for path in place.rglob("*") if path.is_symlink() or path.is_file()]
            links = all(path.is_symlink() for path in linked)
            if not links or {path.resolve() for path in linked} != {path.resolve() for path in files}:
                return uri
    return None


def are_here(root: Path) -> bool:
    """Whether the params.yaml of the tree `root` names texts or examples, and some of them lie on this machine."""
    with contextlib.chdir(root), contextlib.suppress(BertcoreError, AttributeError, KeyError, TypeError):
        return any(True for _ in _named(params.read()))
    return False


def _named(values: Mapping[str, Any]) -> Iterator[tuple[str, Path, list[Path]]]:
    """Names of texts and examples that lie here, where their links are, and the files that they lead to now."""
    corpus, pairs = values["corpus"], (values.get("minimal_pairs") or {}).get("pairs")
    sources = [entry["uri"] if isinstance(entry, Mapping) else entry for entry in corpus["sources"]]
    for index, uri in enumerate(sources):
        with contextlib.suppress(BertcoreError):
            source = source_of(uri)
            if isinstance(source, LocalSource):
                yield uri, INPUTS / "corpus" / str(index), list(source.files)
    texts = enumerate((corpus.get("contamination") or {}).get("texts") or [])
    others = [(name, INPUTS / "corpus" / "contamination" / str(index)) for index, name in texts]
    listed = enumerate(pairs if isinstance(pairs, list) else [pairs])
    others += [(name, INPUTS / "minimal_pairs" / str(index)) for index, name in listed]
    others += [((values.get("embed") or {}).get("pairs"), INPUTS / "embed")]
    others += [(entry["data"], INPUTS / name) for name, entry in params.task_entries(values).items()]
    for name, place in others:
        if name is not None and (files := _files(name)):
            yield name, place, files


def _files(name: str) -> list[Path]:
    """Empty where there is no such file or directory here."""
    path = Path(name).expanduser()
    return visible_files(path) if path.is_dir() else [path] if path.is_file() else []
