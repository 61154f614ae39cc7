"""`make doctor`: whether the pipeline can run here, a line for each thing looked at and a remedy where it is not ok.

The checks are those of `tasks.doctor`, in a process of their own because they need torch; DVC and Prefect are added
here. Exit status: 1 if anything fails, else 0.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bertcore.errors import ConfigError
from bertcore.files import unwritable
from flows import prefect_api, server
from flows.devices import stages_at_once
from flows.environment import REMOTE, ROOT, UTF8, complaint, project_environment, run_to_end
from tasks.doctor.findings import Finding, fail, failed, load, ok

CHECKS = [sys.executable, "-m", "tasks.doctor"]
TIMEOUT = 120.0
"""Seconds after which the checks are given up; they take about five."""
ATTEMPTS = 3
"""How often a Prefect server is asked, a second apart: one that is busy with a run's start may be late once."""


class DoctorError(Exception):
    """The pipeline cannot run here; what fails, each with its remedy."""


def main() -> int:
    os.environ.update(project_environment())  # what asks the servers reads proxies there
    findings = examine(dict(os.environ))
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for finding in findings:
        print("\n".join(finding.lines(colour)))
    return 1 if failed(findings) else 0


def examine(environment: dict[str, str], root: Path = ROOT, stages: Iterable[str] = ()) -> list[Finding]:
    """All findings, in the tree `root` and with these variables; where `stages` are given, of a run of these alone."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **UTF8}
    with subprocess.Popen([*CHECKS, *stages], cwd=root, env=environment, **pipes) as process:
        try:
            others = [check_dvc(environment, root), check_prefect(environment), check_flow()]
            output, errors = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            return [_unfinished(f"no end after {TIMEOUT:.0f} s"), *others]
        except BaseException:
            process.kill()
            raise
    try:
        return [*load(output), *others]
    except (ValueError, TypeError):
        last = [line for line in errors.splitlines() if line.strip()][-1:]
        return [_unfinished(last[0] if last else f"exit status {process.returncode}"), *others]


def _unfinished(reason: str) -> Finding:
    remedy = f"run `{' '.join(CHECKS)}` to see all of it; is everything of requirements.lock installed?"
    return fail("checks", f"cannot be made: {reason}", remedy)


def raise_for(findings: list[Finding]) -> None:
    """`DoctorError` with the remedies where anything fails."""
    if problems := failed(findings):
        lines = [f"doctor: {each.name}: {each.text}; remedy: {each.remedy}" for each in problems]
        raise DoctorError("\n".join(lines))


def check_dvc(environment: Mapping[str, str], root: Path = ROOT) -> Finding:
    """Whether this is a repository of git and DVC whose cache can be written to."""
    if without_git := _without_git(environment, root):
        return without_git
    remedy = "git init, then dvc init; or take the tree from its repository again"
    if not (root / ".dvc").is_dir():
        return fail("dvc", f"{root} is no DVC repository: it has no .dvc", remedy)
    told = run_to_end([sys.executable, "-m", "dvc", "cache", "dir"], root, environment)
    if told.returncode:
        return fail("dvc", complaint(told, 0).removeprefix("ERROR: "), remedy)
    cache = Path(told.stdout.strip())
    if found := unwritable(cache):
        text = f"the cache {cache} cannot be written to ({': '.join(map(str, found))})"
        remedy = "make it writable, or name another one: dvc cache dir --local DIRECTORY"
        return fail("dvc", text, remedy)
    return ok("dvc", f"cache {cache}" + ("" if cache.is_dir() else ", which will be made"))


def _without_git(environment: Mapping[str, str], root: Path) -> Finding | None:
    try:
        told = run_to_end(["git", "rev-parse", "--git-dir"], root, {**environment, "LC_ALL": "C"})
    except FileNotFoundError:
        text = "git is not installed: DVC keeps the history of the tree in it"
        return fail("dvc", text, "install git")
    if told.returncode == 0:
        return None
    said = complaint(told, 0).removeprefix("fatal: ")
    remedy = f"cd {root} && git init && git add . && git commit -m begin"
    if not said.startswith("not a git repository"):
        remedy = f"cd {root} && git status, which says what to do"
    return fail("dvc", f"{root}: {said}", remedy)


def check_prefect(environment: Mapping[str, str]) -> Finding:
    """The server that PREFECT_API_URL names; without it commands find one or start their own."""
    try:
        url = server.address(environment)
    except server.LaunchError as error:
        return fail("prefect", str(error), "correct the variable, or unset it")
    if not url:
        text = "PREFECT_API_URL is not set; `make pretrain` and `make finetune` use the server that runs, or start one"
        return ok("prefect", text)
    if not any(_asked(url, attempt) for attempt in range(ATTEMPTS)):
        remedy = "start a Prefect server there (prefect server start), or unset PREFECT_API_URL"
        return fail("prefect", f"nothing answers at {url}", remedy)
    if prefect_api.refuses(url):
        return fail(
            "prefect",
            f"the server at {url} refuses the password, or that there is none",
            f"set {prefect_api.PASSWORD} as it has it",
        )
    return ok("prefect", f"server at {url}")


def _asked(url: str, attempt: int) -> bool:
    time.sleep(min(attempt, 1))
    return prefect_api.healthy(url)


def check_flow() -> Finding:
    """The variables that the flow itself reads."""
    from flows.remote import RemoteError, remote_url  # which needs all of DVC: meanwhile, the other checks are made

    try:
        stages, remote = stages_at_once(), remote_url(ROOT)
    except (ConfigError, RemoteError) as error:
        remedy = "correct the variable, or unset it"
        return fail("flow", str(error), remedy)
    text = f"at most {stages} stage{'s' if stages > 1 else ''} at once; {REMOTE}: {remote or 'not set'}"
    return ok("flow", text)


if __name__ == "__main__":
    sys.exit(main())
