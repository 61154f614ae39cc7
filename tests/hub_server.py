"""A Hugging Face hub on this machine, for tests: the endpoints that `datasets` calls to load Parquet and text files.

Used as a context manager in the test, while the code under test runs in a process with `HubServer.environment()`:
`HF_ENDPOINT` is read when `huggingface_hub` is imported. The server is the proxy of that process too, so that a request
to any other host ends here as well, answered 404 and listed in `strangers`.
"""

import hashlib
import json
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_API = re.compile(r"/api/datasets/(?P<repository>[^/]+/[^/]+)(/(?P<what>revision|tree|paths-info)/(?P<rest>.+))?")
_RESOLVE = re.compile(r"/datasets/(?P<repository>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


class HubServer:
    """Serves `repositories`: "ORG/NAME" -> path in the repository -> content. Every revision is the same commit."""

    def __init__(self, repositories: dict[str, dict[str, bytes]]):
        self.repositories = repositories
        self.requests: list[str] = []
        self.strangers: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def environment(self, home: Path) -> dict[str, str]:
        """The environment of a process that finds its hub here and keeps its caches below `home`."""
        kept = {key: value for key, value in os.environ.items() if not key.upper().startswith(("HF_", "HUGGING"))}
        kept = {key: value for key, value in kept.items() if not key.upper().endswith("_PROXY")}
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), self.endpoint)
        return {**kept, **proxies, "NO_PROXY": "", "HF_ENDPOINT": self.endpoint, "HF_HOME": str(home)}

    def __enter__(self) -> "HubServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.hub.requests.append(f"{self.command} {url.path}")
        if url.netloc and f"http://{url.netloc}" != self.hub.endpoint:
            self.hub.strangers.append(self.path)
            return self._answer(404)
        path = unquote(url.path)
        if match := _RESOLVE.fullmatch(path):
            return self._file(match["repository"], match["path"])
        if match := _API.fullmatch(path):
            return self._api(match["repository"], match["what"], match["rest"] or "")
        return self._answer(404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        match = _API.fullmatch(unquote(urlsplit(self.path).path))
        self.hub.requests.append(f"POST {urlsplit(self.path).path}")
        if match is None or match["what"] != "paths-info" or match["repository"] not in self.hub.repositories:
            return self._answer(404)
        entries = _entries(self.hub.repositories[match["repository"]])
        return self._json([entries[path] for path in json.loads(body)["paths"] if path in entries])

    def do_CONNECT(self) -> None:
        self.hub.strangers.append(self.path)
        self._answer(502)

    def _api(self, repository: str, what: str | None, rest: str) -> None:
        files = self.hub.repositories.get(repository)
        if files is None:
            return self._answer(404, {"X-Error-Code": "RepoNotFound"})
        if what != "tree":
            siblings = [{"rfilename": path} for path in sorted(files)]
            return self._json(
                {"id": repository, "sha": COMMIT, "siblings": siblings, "private": False, "gated": False, "tags": []}
            )
        _, _, folder = rest.partition("/")
        prefix = f"{folder}/" if folder else ""
        recursive = "recursive=true" in self.path.lower()
        found = [
            entry
            for path, entry in sorted(_entries(files).items())
            if path.startswith(prefix) and (recursive or "/" not in path[len(prefix) :])
        ]
        return self._json(found) if found else self._answer(404, {"X-Error-Code": "EntryNotFound"})

    def _file(self, repository: str, path: str) -> None:
        content = self.hub.repositories.get(repository, {}).get(path)
        if content is None:
            return self._answer(404, {"X-Error-Code": "EntryNotFound"})
        headers = {"ETag": f'"{_digest(content)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            return self._answer(200, headers, content)
        first, last = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return self._answer(206, headers, content[first : last + 1])

    def _json(self, value: Any) -> None:
        self._answer(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def _answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the requests are in `HubServer.requests`."""


def _entries(files: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    """Path -> what the hub says of it, for the files and the folders above them."""
    entries: dict[str, dict[str, Any]] = {}
    for path, content in files.items():
        entries[path] = {"type": "file", "path": path, "size": len(content), "oid": _digest(content)}
        for folder in list(Path(path).parents)[:-1]:
            entries[folder.as_posix()] = {
                "type": "directory",
                "path": folder.as_posix(),
                "oid": _digest(b""),
                "size": 0,
            }
    return entries


def _digest(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()
