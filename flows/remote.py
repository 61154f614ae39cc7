"""The DVC remote that BERTCORE_DVC_REMOTE names: a stage is pulled before it would run, and pushed after it has run.

A directory, `s3://BUCKET/PATH` or `ssh://HOST/PATH`. Nothing of it is written into .dvc/config, and credentials come
from where the storage's own tools look for them. Beside the outs DVC's run cache goes both ways, and with it the outs
that DVC keeps no cache of: a clone elsewhere has everything, and computes nothing that was computed once.

`python -m flows.remote pull NAME… | stage NAME | push`: what the flow runs, each in a process of its own.
"""

import contextlib
import importlib.util
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dvc.fs import known_implementations
from dvc.repo import Repo
from dvc.stage import Stage
from dvc.stage.cache import RunCacheNotFoundError
from dvc.stage.serialize import to_single_stage_lockfile

from bertcore.errors import INTERRUPTED, without_password
from flows.environment import REMOTE
from flows.graph import INPUTS_STAGE, repro_command
from flows.locks import hold
from tasks.link_checks import all_files_here

_PLUGINS = {"s3": ("dvc_s3", "dvc-s3"), "ssh": ("dvc_ssh", "dvc-ssh")}
"""Scheme -> the module that DVC needs for it, and its distribution."""
_EXPECTED = "expected a directory, s3://BUCKET/PATH or ssh://[USER@]HOST/PATH"
_NAME = "bertcore"


class RemoteError(Exception):
    """The remote cannot be used as it is named, or not now. One line, without credentials."""


def remote_url(base: Path) -> str | None:
    """What BERTCORE_DVC_REMOTE names, a directory relative to `base` as an absolute path; None where it is not set.

    Raises `RemoteError` for what cannot be a remote.
    """
    url = os.environ.get(REMOTE)
    if not url:
        return None
    scheme, separator, rest = url.partition("://")
    if not separator and re.match(r"[^/]+:", url):
        raise RemoteError(f"{REMOTE}: found {url!r}, {_EXPECTED}")
    if not separator:
        return str((base / Path(url).expanduser()).resolve())
    if re.match(r"[^/]*:[^/]*@", rest):
        raise RemoteError(
            f"{REMOTE}: found a password in an address of {scheme}://, expected none, because addresses are logged; "
            "give credentials where the storage's own tools look for them (AWS_ACCESS_KEY_ID, ~/.aws, ~/.ssh)"
        )
    if scheme not in _PLUGINS:
        raise RemoteError(f"{REMOTE}: found {url!r}, {_EXPECTED}")
    module, distribution = _PLUGINS[scheme]
    if importlib.util.find_spec(module) is None:
        raise RemoteError(
            f"{REMOTE}: {scheme}:// needs {distribution}; pip install -r requirements-remote.lock, or name a directory"
        )
    return url


def _only_own_outs(repo: Repo) -> None:
    """Let no entry of the run cache be restored that has other outs than its stage: DVC checks out what stands there,
    and what others have written to a remote could be a module of this tree."""
    load = repo.stage_cache._load

    def own(stage: Stage) -> Any:
        entry = load(stage)
        others = {out["path"] for out in (entry or {}).get("outs", [])} - {out.def_path for out in stage.outs}
        if not others:
            return entry
        print(f"{stage.addressing}: the run cache names other outs, {', '.join(sorted(others))}: not taken", flush=True)
        return None

    repo.stage_cache._load = own


class Remote:
    """The remote `url` of the DVC repository in the working directory."""

    def __init__(self, url: str) -> None:
        self.url = url
        known_implementations["ssh"]["class"] = "flows.ssh.KnownHosts"

    def pull(self, names: list[str]) -> None:
        """Fetch the run cache, then check out the outs of those of these stages that anybody has computed.

        Parents stand before children. A stage has been computed where its deps and params are those of dvc.lock or of
        an entry in the run cache. Before them, files come that `dvc add` has recorded and that are missing here.
        """
        with self._used("be pulled from") as repo:
            _only_own_outs(repo)
            store = repo.cloud.get_remote_odb(_NAME, "fetch --run-cache", hash_name="md5-dos2unix")
            repo.stage_cache.transfer(store, repo.cache.legacy, force=False)
            recorded = [stage for stage in repo.index.stages if not stage.cmd]
            if missing := [stage.addressing for stage in recorded if not all(out.exists for out in stage.outs)]:
                repo.pull(missing, remote=_NAME, allow_missing=True)
            for name in names:
                (stage,) = repo.stage.collect(name)
                if not all(dep.exists for dep in stage.deps):
                    continue  # what it reads was not computed by anybody either
                if name == INPUTS_STAGE and all_files_here(Path.cwd()):
                    continue  # this machine's own files are linked, whatever lay elsewhere under their names
                with _kept_out(repo, stage), repo.lock, contextlib.suppress(RunCacheNotFoundError):
                    repo.stage_cache.restore(stage, pull=True)
                    for out in stage.outs:
                        if not out.use_cache:  # is git's or the stage's, and no link into the cache
                            repo.cache.local.unprotect(out.fs_path)

    def push(self, names: list[str]) -> None:
        """Copy to the remote what it does not have of the outs of these stages, and of the run cache."""
        with self._used("be pushed to") as repo:
            for name in names:
                (stage,) = repo.stage.collect(name)
                with _kept_out(repo, stage):
                    self._push_outs(repo, stage)
            store = repo.cloud.get_remote_odb(_NAME, "push --run-cache", hash_name="md5-dos2unix")
            repo.stage_cache.transfer(repo.cache.legacy, store, force=False)

    def _push_outs(self, repo: Repo, stage: Stage) -> None:
        """All of its outs, if they are as they were recorded, and its entry in the run cache.

        A file that `dvc add` has recorded is a stage without a command, which no run cache has.
        """
        if not all(out.hash_info for out in stage.outs) or any(out.changed() for out in stage.outs):
            return
        whole: Stage = stage
        if stage.cmd and all(dep.exists for dep in stage.deps):  # of a clone, git has some outs and no data
            # As DVC restores a stage from the run cache: there, every out has a cache.
            whole = repo.stage_cache._create_stage(to_single_stage_lockfile(stage), wdir=stage.wdir)
            with repo.lock:
                if stage.addressing == INPUTS_STAGE:
                    _commit(whole)
                else:  # DVC itself leaves out stages with outs that it keeps no cache of, but metrics and plots
                    repo.stage_cache.save(stage)
        for objects in whole.get_used_objs().values():
            with _failures() as causes:
                failed = repo.cloud.push(objects, remote=_NAME).failed
            if failed:
                count = f"{len(failed)} of {len(objects)} files of stage {stage.addressing} were not written"
                raise RemoteError(": ".join([count, *map(_said, causes[:1])]))

    @contextlib.contextmanager
    def _used(self, how: str) -> Iterator[Repo]:
        """The repository with this remote as its own; what fails inside is a `RemoteError` in one line."""
        config = {"core": {"remote": _NAME}, "remote": {_NAME: {"url": self.url}}}
        try:
            with Repo(config=config, _wait_for_lock=True) as repo:
                yield repo
        except AssertionError:
            raise
        except Exception as error:  # the errors of DVC, botocore and asyncssh have no class in common
            raise RemoteError(
                f"{REMOTE}={self.url} cannot {how} ({_said(error)}); correct the variable or the storage's "
                "credentials, see that it can be reached, and run this again: nothing that was computed is lost"
            ) from error


def _commit(stage: Stage) -> None:
    """Put the files of its outs into the cache, and leave what lies in the tree as it is: DVC's own `save` would put
    copies there."""
    for out in stage.outs:
        out.commit(relink=False)


@contextlib.contextmanager
def _kept_out(repo: Repo, stage: Stage) -> Iterator[None]:
    """Where `stage` is the one that links files, take from the cache, which trees share, what the directories of its
    outs hold, before and after: without it, DVC puts none of them back."""
    if stage.addressing != INPUTS_STAGE:
        yield
        return
    with hold(Path(repo.cache.local.path).parent / "inputs.lock", f"process {os.getpid()}", wait=True):
        _forget(repo, stage)
        try:
            yield
        finally:
            _forget(repo, stage)


def _forget(repo: Repo, stage: Stage) -> None:
    for out in stage.outs:
        if out.hash_info:
            Path(repo.cache.local.oid_to_path(out.hash_info.value)).unlink(missing_ok=True)


@contextlib.contextmanager
def _failures() -> Iterator[list[BaseException]]:
    """Why files could not be written, which DVC logs in a line for each and does not raise; here nothing is logged."""
    causes: list[BaseException] = []

    def keep(record: logging.LogRecord) -> bool:
        if record.exc_info is None or record.exc_info[1] is None:
            return True
        causes.append(record.exc_info[1])
        return False

    logger = logging.getLogger("dvc_data.hashfile.transfer")
    logger.addFilter(keep)
    try:
        yield causes
    finally:
        logger.removeFilter(keep)


def _said(error: BaseException) -> str:
    """The first line of the innermost error that says anything."""
    said = type(error).__name__
    current: BaseException | None = error
    while current is not None:
        said = next((line.strip() for line in str(current).splitlines() if line.strip()), said)
        current = current.__cause__
    return without_password(said)


def _stage(remote: Remote, name: str) -> int:
    """Pull, `dvc repro --single-item` and push; the status of dvc.

    A run has pulled once when this begins: where the remote is away now, the stage computes what may be there. A push
    that fails is made again at the run's end.
    """
    try:
        remote.pull([name])
    except RemoteError as error:
        print(f"warning: not pulled: {error}", flush=True)
    if name == INPUTS_STAGE:  # also what a killed push has left
        with Repo() as repo, _kept_out(repo, repo.stage.collect(name)[0]):
            pass
    before = signal.signal(signal.SIGINT, lambda *_: None)  # is for the stage, which stops, and dvc, which waits for it
    try:
        status = subprocess.run(repro_command(name, Path.cwd()), check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    if status == 0:
        try:
            remote.push([name])
        except RemoteError as error:
            print(f"warning: not pushed: {error}", flush=True)
    return status


def main(arguments: list[str]) -> int:
    try:
        url = remote_url(Path.cwd())
        if url is None:
            raise RemoteError(f"{REMOTE} is not set; name a directory, s3://BUCKET/PATH or ssh://HOST/PATH")
        remote = Remote(url)
        match arguments:
            case ["pull", *names]:
                remote.pull(names)
            case ["push"]:
                with Repo() as repo:
                    names = [stage.addressing for stage in repo.index.stages]
                remote.push(names)
            case ["stage", name]:
                return _stage(remote, name)
            case _:
                print("usage: python -m flows.remote pull NAME... | stage NAME | push", file=sys.stderr)
                return 2
    except RemoteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
