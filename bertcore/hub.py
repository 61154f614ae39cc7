"""Data sets of the Hugging Face hub: their URIs, and loading them with every failure said in one line.

`HF_ENDPOINT` names another hub; `huggingface_hub` reads it when it is first imported.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from bertcore.config import suggest
from bertcore.errors import ConfigError, InputError, UnavailableError, may_pass

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_URI = re.compile(
    rf"hf://(?P<repository>{_NAME}/{_NAME})(/(?P<config>[^@?/]+))?(@(?P<revision>[^?]+))?(\?(?P<query>.*))?"
)
FORM = "hf://ORG/NAME[/CONFIG][@REVISION][?split=train&column=text]"

QUIET = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
"""Nothing is reported home; the second one is a request to another host for each data set."""


@dataclass(frozen=True, kw_only=True)
class HubLocation:
    """One data set on the hub."""

    repository: str
    """`ORG/NAME`."""
    config: str | None = None
    """Its configuration (subset), such as `cola` of GLUE."""
    revision: str | None = None
    """Branch, tag or commit; None takes the newest."""
    split: str = "train"
    """The split that a corpus is read from."""
    column: str = "text"
    """The column of a corpus' texts."""


def parse_uri(uri: str) -> HubLocation:
    """The location that `uri` of the form `FORM` names; `ConfigError` for any other form."""
    match = _URI.fullmatch(uri)
    if match is None:
        raise ConfigError(f"{uri}: not the name of a data set on the hub, expected {FORM}; correct it")
    if match["repository"].startswith("datasets/"):
        raise ConfigError(f"{uri}: found `datasets/` before the name, expected {FORM}; leave it out")
    query = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
    if unknown := sorted(query.keys() - {"split", "column"}):
        raise ConfigError(f"{uri}: unknown option {unknown[0]!r}; {suggest(unknown[0], ['split', 'column'])}")
    return HubLocation(repository=match["repository"], config=match["config"], revision=match["revision"], **query)


def load(location: HubLocation, *, split: str | None = None, streaming: bool = False) -> Any:
    """`datasets.load_dataset` of a location: one split, or all of them where `split` is None; of the commit that
    `commit_of` gives, where it gives one, so that what is recorded is what was read."""
    revision = commit_of(location) or location.revision
    with one_line_errors(location):
        from datasets import load_dataset  # only here: the import takes seconds and the training core does without it

        return load_dataset(location.repository, location.config, revision=revision, split=split, streaming=streaming)


def commit_of(location: HubLocation) -> str | None:
    """The commit that the location named when this process first asked; None where the hub did not answer, which `load`
    judges: it may have the set in its cache. `InputError` where there is no such set or revision."""
    return _commit_of(location.repository, location.revision)


@cache
def _commit_of(repository: str, revision: str | None) -> str | None:
    be_quiet()
    try:
        with one_line_errors(HubLocation(repository=repository)):
            from huggingface_hub import HfApi, constants

            if constants.HF_HUB_OFFLINE:
                return None
            return HfApi().dataset_info(repository, revision=revision, timeout=60).sha
    except UnavailableError:
        return None


def be_quiet() -> None:
    """Before the hub's libraries are imported: no bars and no advice of theirs, unless the user asks for them."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


@contextmanager
def one_line_errors(location: HubLocation) -> Iterator[None]:
    """Turn what the hub's libraries raise into one line: `UnavailableError` for a network or a hub that may answer
    later, `InputError` for all else (a missing set or split, a broken file)."""
    import httpx2
    import pyarrow as pa
    from datasets.exceptions import DatasetsError

    try:
        yield
    except (DatasetsError, OSError, ValueError, RuntimeError, httpx2.HTTPError, pa.ArrowException) as error:
        hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
        if temporary := _temporary(error):
            raise UnavailableError(
                f"hf://{location.repository}: cannot be read now ({_reason(temporary)}); check the connection to {hub} "
                "and run again"
            ) from error
        raise InputError(
            f"hf://{location.repository}: cannot be read ({_reason(error)}); check name, configuration, revision, "
            f"split and the connection to {hub}"
        ) from error


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _temporary(error: BaseException) -> BaseException | None:
    """Of `error` and its causes, the first that is an HTTP status or a broken connection, if it may pass."""
    import httpx2
    from huggingface_hub import constants

    cause: BaseException | None = error
    while cause is not None:
        if (response := getattr(cause, "response", None)) is not None:
            return cause if may_pass(response.status_code) else None
        if isinstance(cause, httpx2.TransportError | ConnectionError | TimeoutError):
            lasting = constants.HF_HUB_OFFLINE or isinstance(cause, httpx2.UnsupportedProtocol)
            return None if lasting else cause
        cause = cause.__cause__ or cause.__context__
    return None
