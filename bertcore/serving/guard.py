"""What every request passes before it is read: the token, the size of its body; and what every answer bears."""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from fastapi import HTTPException

from bertcore.serving.limits import PATIENCE, TOKEN_VARIABLE, is_loopback

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SECURITY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Headers of every answer. A page's own script and style are files of this server: nothing is inline, nothing comes
from elsewhere, and what a user has typed can be no script."""

OPEN = ("/health", "/", "/page.js", "/page.css", "/page.svg")
"""Paths that need no token: nothing of a model or a text is there."""


class Guard:
    """ASGI middleware."""

    def __init__(self, app: App, token: str | None, body_bytes: int) -> None:
        self._app, self._token, self._most = app, token, body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in SECURITY.items()]
                message["headers"] = [*message.get("headers", []), *own]
            await send(message)

        if self._token is None and not _is_here(headers.get(b"host", b"")):
            detail = f"a server without a token answers to localhost and 127.0.0.1 alone; set {TOKEN_VARIABLE} there"
            await _refuse(protected, 403, detail)
            return
        if self._token is not None and scope["path"] not in OPEN and not self._lets_in(headers):
            await _refuse(protected, 401, "no right bearer token; send Authorization: Bearer TOKEN")
            return
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._most:
            await _refuse(protected, 413, f"the body has {length.decode()} bytes, expected at most {self._most}")
            return
        await self._app(scope, self._counted(receive), protected)

    def _lets_in(self, headers: dict[bytes, bytes]) -> bool:
        assert self._token is not None, "no token to compare with"
        return hmac.compare_digest(headers.get(b"authorization", b""), f"Bearer {self._token}".encode())

    def _counted(self, receive: Receive) -> Receive:
        """A body without a length that it admits is cut off where it becomes too large, and one that does not come is
        not waited for."""
        total, more = 0, True

        async def counted() -> Message:
            nonlocal total, more
            try:
                message = await asyncio.wait_for(receive(), PATIENCE if more else None)
            except TimeoutError:
                raise HTTPException(408, f"no more of the body came in {PATIENCE:g} s") from None
            more = bool(message.get("more_body", False))
            total += len(message.get("body", b""))
            if total > self._most:
                raise HTTPException(413, f"the body has more bytes than expected, at most {self._most}")
            return message

        return counted


def _is_here(host: bytes) -> bool:
    """Whether a request calls the server by a name of this machine: a page from elsewhere, whose own name has come to
    lead here, does not, and could read the answers."""
    try:
        name = urlsplit(f"//{host.decode('ascii')}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name)


async def _refuse(send: Send, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
