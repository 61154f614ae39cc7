"""Data sets of the Hugging Face hub: their URIs, and loading them with every failure said in one line.

`HF_ENDPOINT` names another hub; `huggingface_hub` reads it when it is first imported.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from bertcore.config import suggest
from bertcore.errors import ConfigError, InputError

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
    query = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
    if unknown := sorted(query.keys() - {"split", "column"}):
        raise ConfigError(f"{uri}: unknown option {unknown[0]!r}; {suggest(unknown[0], ['split', 'column'])}")
    return HubLocation(repository=match["repository"], config=match["config"], revision=match["revision"], **query)


def load(location: HubLocation, *, split: str | None = None, streaming: bool = False) -> Any:
    """`datasets.load_dataset` of a location: one split, or all of them where `split` is None."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    with one_line_errors(location):
        from datasets import load_dataset  # only here: the import takes seconds and the training core does without it

        return load_dataset(
            location.repository, location.config, revision=location.revision, split=split, streaming=streaming
        )


@contextmanager
def one_line_errors(location: HubLocation) -> Iterator[None]:
    """Turn what the hub's libraries raise (a network, a missing set or split, a broken file) into `InputError`."""
    import httpx
    import pyarrow as pa
    from datasets.exceptions import DatasetsError

    try:
        yield
    except (DatasetsError, OSError, ValueError, RuntimeError, httpx.HTTPError, pa.ArrowException) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"hf://{location.repository}: cannot be read ({reason[:300]}); check name, configuration, revision, split "
            f"and the connection to {os.environ.get('HF_ENDPOINT', 'https://huggingface.co')}"
        ) from error
