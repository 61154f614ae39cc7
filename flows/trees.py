"""A git worktree for one run with parameters of its own, on the DVC cache of the user's tree, which stays as it is.

It begins as the user's tracked files stand. It is named after what it is to compute, so that a run that was stopped is
continued in it by the next one with the same parameters; results become a branch, and the worktree is removed.
"""

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configobj import ConfigObj

from bertcore.errors import ConfigError
from bertcore.files import is_locked
from flows.environment import ROOT, complaint, error_among, run_to_end
from flows.locks import hold
from tasks import params

TREES = ROOT / ".worktrees"
RESULTS = ("dvc.lock", "metrics/curves", "metrics/summary.json", "reports")
"""What a run leaves for git, beside params.yaml."""
_MADE = "made"
"""Beside a worktree that shares the cache: one without it was stopped while it was made."""
_BEGUN = "begun-"
"""Before a run's id, beside its worktree: the commit that it began as. A run that crashed is begun again by itself,
when the user has edited on."""
_AUTHOR = {"NAME": "bertcore", "EMAIL": "bertcore@localhost"}


class TreeError(ConfigError):
    """No worktree can be made for the run. One line for the user."""


class DoneError(Exception):
    """What was to be done has been done meanwhile. One line for the user."""


@dataclass(frozen=True)
class RunTree:
    """The worktree of a run."""

    root: Path
    """Where dvc.yaml lies."""
    changes: Mapping[str, Any]

    def keep(self, name: str, results: Sequence[str] = RESULTS, said: str = "") -> str:
        """Commit params.yaml and `results`, with `said` in the message. Results that are not listed are left out: they
        are an earlier run's. The branch: `runs/NAME`, numbered where it is taken."""
        paths = [path for path in ("params.yaml", *results) if (self.root / path).exists()]
        _git(self.root, "add", "--all", "--force", "--", *paths)
        if others := [path for path in RESULTS if path not in results]:
            _git(self.root, "rm", "-r", "--cached", "--quiet", "--ignore-unmatch", "--", *others)
        what = ", ".join(f"{key}={json.dumps(value)}" for key, value in self.changes.items())
        # A worker has nobody at hand to unlock the key of a signature.
        _git(
            self.root,
            "commit",
            "--quiet",
            "--no-gpg-sign",
            "--allow-empty",
            "--message",
            f"{name}: {what}\n\n{said}".strip(),
        )
        for branch in _numbered("runs/" + (re.sub(r"[^\w-]+", "-", name).strip("-") or "run")):
            with contextlib.suppress(TreeError):
                _git(self.root, "branch", branch, "HEAD")
                return branch
        raise TreeError(f"no branch can be made for the run {name}; its results are committed in {self.root}")


def _numbered(name: str) -> Iterator[str]:
    yield name
    for number in range(2, 100):
        yield f"{name}-{number}"


@contextlib.contextmanager
def run_tree(
    changes: Mapping[str, Any], holder: str, commit: str | None = None, *, run: str | None = None, again: bool = False
) -> Iterator[RunTree]:
    """The worktree for a run with `changes`, held for the block and removed when it ends without an exception.

    It begins as `commit` is, any name that git knows; None: as the tracked files stand. Where `run`, the run's id, is
    given and has a worktree, it begins as it did then. `again`: it may still be at work, and is waited for. Raises
    `TreeError` in one line for changes that the pipeline cannot take (before anything is made) and for a tree that git
    cannot copy, `HeldError` where the very same run is at work, begun by somebody else, and `DoneError` where the run
    that was waited for has come to its end.
    """
    begun = _beginning(run)
    commit = begun or (snapshot(ROOT) if commit is None else resolve_commit(commit))
    text = _varied(_git(ROOT, "show", f"{commit}:./params.yaml"), changes)
    name = hashlib.sha256(f"{_git(ROOT, 'rev-parse', f'{commit}^{{tree}}')} {text}".encode()).hexdigest()[:12]
    place = TREES / name
    with hold(TREES / f"{name}.lock", holder, wait=again):
        if begun and _beginning(run) is None:
            raise DoneError("another process of this run has come to its end: its results are a git branch already")
        worktree = place / "tree"
        root = worktree / _git(ROOT, "rev-parse", "--show-prefix")
        with hold(TREES / "lock", holder, wait=True):
            if run is not None:
                place.mkdir(exist_ok=True)
                (place / f"{_BEGUN}{run}").write_text(commit, encoding="utf-8")
            if not ((place / _MADE).exists() and root.is_dir()):
                _make(worktree, commit)
                _share(root)
                (place / _MADE).touch()
        (root / "params.yaml").write_text(text, encoding="utf-8")
        link_inputs(root, params.values_of(text), TREES)
        yield RunTree(root, changes)
        with hold(TREES / "lock", holder, wait=True):
            (place / _MADE).unlink()
            _git(ROOT, "worktree", "remove", "--force", "--force", str(worktree))
        shutil.rmtree(place, ignore_errors=True)


def _beginning(run: str | None) -> str | None:
    """The commit that the run has begun as; None where it has no worktree."""
    if run is None:
        return None
    for note in TREES.glob(f"*/{_BEGUN}{run}"):
        with contextlib.suppress(TreeError):
            return resolve_commit(note.read_text(encoding="utf-8"))
    return None


def is_at_work(run: str) -> bool:
    """Whether somebody works in the worktree of the run with this id."""
    return any(is_locked(TREES / f"{note.parent.name}.lock") for note in TREES.glob(f"*/{_BEGUN}{run}"))


def snapshot(root: Path) -> str:
    """A commit of the tracked files, params, lock and results as they stand; HEAD itself where nothing differs.

    Neither the index nor a branch is touched.
    """
    with tempfile.TemporaryDirectory() as directory:
        index = Path(directory) / "index"
        _git(root, "read-tree", "HEAD", index=index)
        own = root / _git(root, "rev-parse", "--git-path", "index")
        if own.is_file():  # which names what was added since the last commit, too
            shutil.copy2(own, index)  # with its time, by which git sees what has changed within the same second
        _git(root, "add", "--update", "--", ":/", index=index)
        for path in RESULTS:
            if (root / path).exists() and not _ignored(root, path):
                _git(root, "add", "--all", "--", path, index=index)
        tree = _git(root, "write-tree", index=index)
    if tree == _git(root, "rev-parse", "HEAD^{tree}"):
        return _git(root, "rev-parse", "HEAD")
    return _git(root, "commit-tree", tree, "-p", "HEAD", "-m", "The tree as a run with its own parameters found it")


def resolve_commit(commit: str) -> str:
    """The commit that git knows by this name; `TreeError` where there is none."""
    try:
        return _git(ROOT, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    except TreeError:
        raise TreeError(
            f"parameter commit: found {commit!r}, expected a commit, branch or tag of {ROOT}; correct the name"
        ) from None


def _ignored(root: Path, path: str) -> bool:
    return run_to_end(["git", "check-ignore", "--quiet", path], root).returncode == 0


def _varied(text: str, changes: Mapping[str, Any]) -> str:
    given = json.dumps({"params": text, "changes": dict(changes)})
    done = run_to_end([sys.executable, "-m", "tasks.variation"], ROOT, input=given)
    if done.returncode == 0:
        return done.stdout
    said = error_among(done.stderr.splitlines(), done.returncode)
    raise TreeError("parameter params: " + said.removeprefix("params.yaml: "))


def _make(worktree: Path, commit: str) -> None:
    shutil.rmtree(worktree, ignore_errors=True)
    _git(ROOT, "worktree", "prune")
    _git(ROOT, "worktree", "add", "--quiet", "--detach", str(worktree), commit)


def _share(root: Path) -> None:
    """Have the worktree use the DVC cache and the local settings of the user's tree, and check out what it holds."""
    settings = ROOT / ".dvc" / "config.local"
    if settings.is_file():
        shutil.copy(settings, root / ".dvc" / "config.local")
    # What DVC remembers of a tree, it keeps elsewhere on the machine by default, where nothing would remove it.
    share_cache(root, site_cache_dir=str(root / ".dvc" / "tmp" / "site"))
    _dvc(root, "checkout", "--allow-missing")


def share_cache(root: Path, **core: str) -> None:
    """Have the tree at `root` use the DVC cache of the user's tree, with settings of its own for DVC's `core`."""
    # Not by `dvc config`, which writes no path with other letters than ASCII's.
    settings = ConfigObj(str(root / ".dvc" / "config.local"), encoding="utf-8", default_encoding="utf-8")
    settings.merge({"cache": {"dir": _dvc(ROOT, "cache", "dir")}, **({"core": core} if core else {})})
    settings.write()


def link_inputs(root: Path, values: Any, within: Path) -> None:
    """Let relative paths of the params `values`, which are checked, lead from the tree at `root` where they lead from
    the user's tree.

    Links are made below `within`; `TreeError` for a path that leads further up.
    """
    from tasks.links import named  # of a quarter of a second

    for text in (each.uri or "" for each in named(params.complete(values)) if each.local):
        if Path(text).is_absolute() or text.startswith("~") or Path(text) == Path():
            continue
        for name in [text] if (ROOT / text).exists() else glob.glob(text, root_dir=ROOT, recursive=True):
            source, link = Path(os.path.normpath(ROOT / name)), Path(os.path.normpath(root / name))
            if not link.is_relative_to(within):
                above = len(root.relative_to(within).parts)
                raise TreeError(f"params.yaml: found {text!r}, expected a path at most {above} directories above the "
                                "tree for a run in a tree of its own; write an absolute path")  # fmt: skip
            _link(link, source)


def _link(link: Path, source: Path) -> None:
    """Let `link` lead to `source`; where git tracks a part of a directory, each thing that is missing there."""
    if source.is_dir() and link.is_dir() and not link.is_symlink():
        for each in source.iterdir():
            _link(link / each.name, each)
    elif not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            link.symlink_to(source)


def _git(root: Path, *arguments: str, index: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    if arguments[0] in ("commit", "commit-tree") and not _knows_author(root, environment):
        for role in ("AUTHOR", "COMMITTER"):
            environment |= {f"GIT_{role}_{key}": value for key, value in _AUTHOR.items()}
    # Without hooks: those of `dvc install` want the cache, which a tree that is being made does not know yet.
    done = run_to_end(["git", "-c", "core.hooksPath=/dev/null", *arguments], root, environment)
    if done.returncode:
        said = complaint(done)
        if not _has_commit(root):
            said += "; a run with its own parameters needs a git repository with a commit in it: git init, git add, "
            said += "git commit"
        raise TreeError(f"{root}: git {arguments[0]}: {said}")
    return done.stdout.strip()


def _has_commit(root: Path) -> bool:
    return run_to_end(["git", "rev-parse", "HEAD"], root).returncode == 0


def _knows_author(root: Path, environment: Mapping[str, str]) -> bool:
    """Whether there is an address that somebody has set, and a name that goes with it."""
    commands = (["git", "config", "user.email"], ["git", "var", "GIT_COMMITTER_IDENT"])
    return all(run_to_end(command, root, environment).returncode == 0 for command in commands)


def _dvc(root: Path, *arguments: str) -> str:
    done = run_to_end([sys.executable, "-m", "dvc", *arguments], root)
    if done.returncode:
        raise TreeError(f"{root}: dvc {arguments[0]}: {complaint(done, 0)}")
    return done.stdout.strip()
