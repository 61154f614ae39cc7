"""How much a server takes: what is larger, or more than can wait, is refused at once."""

import ipaddress
import os
from dataclasses import dataclass

from bertcore.config import within
from bertcore.errors import ConfigError

TOKEN_VARIABLE = "BERTCORE_TOKEN"
"""Environment variable with the bearer token that every request must then bear."""


PATIENCE = 30.0
"""Seconds in which the head of a request must come, and each further part of its body."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """`ValueError` for a limit that lets nothing through."""

    body_bytes: int = 2**20
    """Of a request; larger ones are answered 413."""
    texts: int = 256
    """Of a request; more are answered 413."""
    characters: int = 200_000
    """Of a text; longer ones are answered 413."""
    words: int = 50_000
    """Of a request for tags, which are answered each with its place; more are answered 413."""
    queue: int = 512
    """Texts that wait at most; a request that would make it more is answered 429, and should come again."""
    batch: int = 64
    """Texts up to which requests are computed together; a larger request is computed alone. While they are computed,
    the next batch gathers."""
    connections: int = 512
    """At once; to a further one the server is not available (503)."""
    grace: int = 20
    """Seconds that running requests get when the server is told to end."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"{name}: found {value}, expected 1 or more")
        within(self, "queue", f"room for a request of {self.texts} texts; raise it or lower texts", least=self.texts)


def token_for(host: str) -> str | None:
    """The token of the environment; `ConfigError` where there is none and `host` is not this machine alone."""
    token = os.environ.get(TOKEN_VARIABLE) or None
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"--host: found {host}, which others can reach, without a token; expected one: set {TOKEN_VARIABLE}, or "
            "serve on 127.0.0.1 and put a proxy in front"
        )
    return token


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
