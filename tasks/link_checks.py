"""Whether the links below data/inputs lead to what params.yaml names now, and whether those files are on this machine.

Every function asks about the tree `root`. Where its params.yaml cannot be read there is nothing to find: stage `inputs`
says what is wrong with it.
"""

import contextlib
import os
import shutil
from pathlib import Path

from bertcore.errors import BertcoreError, ConfigError, InputError
from tasks import params
from tasks.links import Named, named
from tasks.paths import INPUTS, MERGES, SOURCE, VOCABULARY

_UNREADABLE = (BertcoreError, AttributeError, KeyError, TypeError, OSError, RuntimeError)
"""What `named` raises for a params.yaml that nobody has checked."""


def outdated_link(root: Path) -> str | None:
    """The first path in params.yaml whose files are no longer exactly those linked below data/inputs: one was added or
    removed, or a pulled copy stands in a link's place. DVC sees a linked file change, and knows nothing of the others.

    None, too, where a file is not on this machine: what lies in data/inputs then came from elsewhere.
    """
    with contextlib.chdir(root), contextlib.suppress(*_UNREADABLE):
        linked = [each for each in named(params.read()) if each.local and _is_linked(each.place)]
        if _have_files(linked):
            return next((each.uri for each in linked if not _leads_to(each.place, each.files)), None)
    return None


def remove_outdated_links(root: Path) -> str | None:
    """Remove data/inputs where `outdated_link` finds a path, so that stage `inputs` links anew; that path."""
    path = outdated_link(root)
    if path is not None:
        shutil.rmtree(root / INPUTS)
    return path


def all_files_here(root: Path) -> bool:
    """Whether params.yaml names local files, and all of them are on this machine; False where it cannot be read."""
    with contextlib.chdir(root), contextlib.suppress(*_UNREADABLE):
        local = [each for each in named(params.read()) if each.local]
        return bool(local) and _have_files(local)
    return False


def missing_files(root: Path) -> dict[str, bool]:
    """Each path in params.yaml without its files on this machine -> whether data/inputs holds a pulled copy of them."""
    with contextlib.chdir(root), contextlib.suppress(*_UNREADABLE):
        absent = [each for each in named(params.read()) if each.local and not _have_files([each])]
        return {each.uri or "": _is_copy(each.place) for each in absent}
    return {}


def _have_files(local: list[Named]) -> bool:
    with contextlib.suppress(ConfigError, InputError):
        return all(each.files for each in local)
    return False


def _is_copy(place: Path) -> bool:
    """Whether files stand there that stage `inputs` would have linked: its links are relative, DVC's into its cache
    absolute."""
    files = [path for path in place.rglob("*") if path.is_file() and path.name != SOURCE]
    return bool(files) and all(not path.is_symlink() or os.path.isabs(os.readlink(path)) for path in files)


def _is_linked(place: Path) -> bool:
    return place.is_dir() and not (place / SOURCE).is_file()


def _leads_to(place: Path, files: list[Path]) -> bool:
    found = [path for path in place.rglob("*") if path.is_symlink() or path.is_file()]
    if place == VOCABULARY:  # the folder of its merges lies in it
        found = [path for path in found if MERGES not in path.parents]
    links = all(path.is_symlink() for path in found)
    return links and {path.resolve() for path in found} == {path.resolve() for path in files}
