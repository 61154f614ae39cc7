"""The server's process: from a free port to the end that SIGTERM asks for."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from bertcore.errors import UnavailableError
from bertcore.serving.limits import PATIENCE, Limits


def serve(app: FastAPI, host: str, port: int, limits: Limits, ready: Callable[[str], None]) -> None:
    """Answer requests until SIGTERM or SIGINT; then nothing new is taken, and what runs gets `limits.grace` seconds.

    `ready` is told the address once requests are answered; port 0 is any free one. `UnavailableError` where the port
    is taken, or the host is not this machine's.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",  # no request is logged: what users ask is theirs
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=limits.grace,
        timeout_keep_alive=30,
        limit_concurrency=limits.connections,
        http=_Patient,
    )
    listening = _bound(host, port)
    address = f"http://{host if ':' not in host else f'[{host}]'}:{listening.getsockname()[1]}"
    before = {number: signal.signal(number, _ended) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        _Server(config, lambda: ready(address)).run(sockets=[listening])
        if app.state.batcher.busy:
            os._exit(0)  # nobody waits for that result any more, and a thread in the middle of it cannot be ended
    finally:
        listening.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _bound(host: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        raise UnavailableError(
            f"{host}:{port}: {error}, expected a free port of this machine; name another one"
        ) from None
    return found


class _Patient(H11Protocol):
    """Closes a connection on which no request has come for a while: with many of them nobody else could ask."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_more_than(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_patience()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        answered = self.cycle  # the next request may have come already
        super().on_response_complete()
        self._wait_for_more_than(answered)

    def _wait_for_more_than(self, cycle: Any) -> None:
        """uvicorn's own patience ends with the first byte of a request, whether the rest comes or not."""
        self._forget_patience()
        self._patience = self.loop.call_later(PATIENCE, self._close_idle, cycle)

    def _forget_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()

    def _close_idle(self, before: Any) -> None:
        if self.cycle is before:
            self.transport.close()


class _Server(uvicorn.Server):
    """Says when it answers."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def _ended(_number: int, _frame: FrameType | None) -> None:
    """Nothing: uvicorn has ended by itself, and sends the signal once more to whoever had asked for it before."""
