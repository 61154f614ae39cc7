"""What the page of a pipeline run begins with: what failed, and links to what belongs to it."""

import os
import re
import subprocess
from collections.abc import Mapping
from urllib.parse import urlsplit

from mlflow.entities import Run

from tasks.experiment import VIEW
from tasks.tracking.producers import FROM

ERROR = "error"
"""The tag of a run that failed."""
REPORT = "report.html"


def describe(parent: Run, children: Mapping[str, Run]) -> str:
    """Markdown for the run `parent`, whose newest `children` are given by their stages."""
    errors = [child.data.tags[ERROR] for child in children.values() if failed_with_words(child)]
    links = [_prefect(parent), _report(children.get("report")), _commit(parent), _cached(parent, children)]
    return "\n\n".join([*errors, *filter(None, links)])


def failed_with_words(run: Run) -> bool:
    return run.info.status == "FAILED" and ERROR in run.data.tags


def _prefect(parent: Run) -> str | None:
    key = parent.data.tags.get("prefect.flow_run_id")
    pages = os.environ.get("PREFECT_UI_URL") or os.environ.get("PREFECT_API_URL", "").rstrip("/").removesuffix("/api")
    return f"Prefect: [flow run]({pages}/runs/flow-run/{key})" if key and pages else None


def _report(report: Run | None) -> str | None:
    if report is None or report.info.status != "FINISHED":
        return None
    return f"Report: [{REPORT}]({_page(report.info.experiment_id, report.info.run_id, f'/artifacts/{REPORT}')})"


def _page(experiment: str, run_id: str, part: str = "") -> str:
    """On whatever server MLflow's pages are seen."""
    return f"#/experiments/{experiment}/runs/{run_id}{part}?{VIEW}"


def _commit(parent: Run) -> str | None:
    commit = parent.data.tags.get("git.commit")
    if commit is None:
        return None
    sha, edited = commit.removesuffix("-dirty"), commit.endswith("-dirty")
    command = ["git", "remote", "get-url", "origin"]
    origin = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    page = commit_page(origin, sha)
    return f"Commit: {f'[`{sha[:10]}`]({page})' if page else f'`{sha}`'}" + (" with edits" if edited else "")


def commit_page(origin: str, sha: str) -> str | None:
    """The page of a commit, where the repository at `origin` has pages; GitHub's and GitLab's form."""
    short = re.fullmatch(r"git@([\w.-]+):(.+)", origin)  # the form of scp, which is no URL
    parts = urlsplit(f"ssh://git@{short[1]}/{short[2]}" if short else origin)
    path = parts.path.strip("/").removesuffix(".git")
    if not parts.hostname or not path or not (parts.scheme in _WEB or (parts.scheme, parts.username) == ("ssh", "git")):
        return None
    port = f":{parts.port}" if parts.port and parts.scheme in _WEB else ""  # that of ssh is none of the pages'
    return f"{'http' if port and parts.scheme == 'http' else 'https'}://{parts.hostname}{port}/{path}/commit/{sha}"


_WEB = ("http", "https")


def _cached(parent: Run, children: Mapping[str, Run]) -> str | None:
    """The runs of stages that did not run this time, whose results were read."""
    named = {
        key.removeprefix(FROM).replace("/", "@", 1): run
        for key, run in parent.data.tags.items()
        if key.startswith(FROM)
    }
    experiment = parent.info.experiment_id
    links = [f"[{stage}]({_page(experiment, run)})" for stage, run in named.items() if stage not in children]
    return f"Cached, from earlier runs: {', '.join(links)}" if links else None
