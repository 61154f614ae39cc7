"""What an address answers: whether a Prefect API is there, whose it is, and the JSON that it gives. Imports nothing of
Prefect."""

import base64
import contextlib
import http
import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

PASSWORD = "PREFECT_API_AUTH_STRING"
"""Environment variable of Prefect's: the password that its clients send."""
UNANSWERED = (OSError, http.client.HTTPException)
"""What an address raises where nobody answers, or something that does not speak HTTP."""
TRUSTED = (0,)
"""Users beside one's own: root can do everything anyway."""
_LISTENS = "0A"
"""TCP_LISTEN of Linux's net/tcp_states.h."""


def healthy(url: str) -> bool:
    """Whether a Prefect API answers at `url`, with or without a password."""
    return get(f"{url}/health") is True


def answers(url: str) -> bool:
    """Whether anything answers at `url` with success."""
    try:
        with urllib.request.urlopen(url, timeout=5.0):
            return True
    except UNANSWERED:
        return False


def refuses(url: str) -> bool:
    """Whether the Prefect API at `url` wants another password."""
    try:
        with urllib.request.urlopen(_request(f"{url}/admin/version"), timeout=5.0):
            return False
    except urllib.error.HTTPError as error:
        return error.code == http.HTTPStatus.UNAUTHORIZED
    except UNANSWERED:
        return False


def get(url: str) -> Any:
    """The JSON that Prefect's API answers to who has the password of `PASSWORD`, None when it does not."""
    return get_json(_request(url))


def get_json(request: str | urllib.request.Request) -> Any:
    """What is answered, None where that is no JSON."""
    try:
        with urllib.request.urlopen(request, timeout=5.0) as response:
            return json.load(response)
    except (*UNANSWERED, ValueError):
        return None


def _request(url: str) -> urllib.request.Request:
    password = os.environ.get(PASSWORD)
    basic = {} if not password else {"Authorization": f"Basic {base64.b64encode(password.encode()).decode()}"}
    return urllib.request.Request(url, headers=basic)


def home_of(url: str) -> Path | None:
    """Where a server of this user's keeps its database; None where nothing answers, or somebody else's does."""
    if not is_trusted(url):
        return None
    settings = get(f"{url}/admin/settings")
    return Path(settings["home"]) if isinstance(settings, dict) and "home" in settings else None


def is_trusted(url: str) -> bool:
    """Whether what listens at an address of this machine was started by this user or by root: whoever takes the port
    first could otherwise hand out work to this user's worker. True where the system does not tell."""
    port = urllib.parse.urlsplit(url).port
    owners = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                address, state, owner = (line.split()[column] for column in (1, 3, 7))
                if state == _LISTENS and int(address.rpartition(":")[2], 16) == port:
                    owners.add(int(owner))
    return owners <= {os.getuid(), *TRUSTED}
