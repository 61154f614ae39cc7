"""A Hugging Face hub on this machine that takes uploads, for tests: a repository is made, large files go through Git
LFS, and a commit brings all files together.

Used as a context manager around a process with `UploadServer.environment()`.
"""

import base64
import hashlib
import json
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_MODEL = re.compile(r"/api/models/(?P<repository>[^/]+/[^/]+)/(?P<what>preupload|commit)/main")
_LFS = re.compile(r"/(?P<repository>[^/]+/[^/]+)\.git/info/lfs/objects/batch")


class UploadServer:
    """Keeps what was sent in `repositories`: "ORG/NAME" -> path -> content; only who has `token` is let in."""

    def __init__(self, token: str):
        self.token = token
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.objects: dict[str, bytes] = {}
        self.messages: list[str] = []
        self.status: int | None = None
        """Answered to every request instead of an answer."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def environment(self, home: Path, token: str | None) -> dict[str, str]:
        """The environment of a process that finds its hub here, through plain Git LFS."""
        kept = {key: value for key, value in os.environ.items() if not key.upper().startswith(("HF_", "HUGGING"))}
        kept = {key: value for key, value in kept.items() if not key.upper().endswith("_PROXY")}
        own = {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
        return {**kept, **own, **({} if token is None else {"HF_TOKEN": token})}

    def __enter__(self) -> "UploadServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: UploadServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        if self.hub.status is not None:
            return self._json({"error": "not now"}, self.hub.status)
        if path == "/api/validate-yaml":
            return self._json({"errors": [], "warnings": []})
        if self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self._json({"error": "Invalid credentials"}, 401)
        if path == "/api/repos/create":
            values = json.loads(body)
            repository = f"{values['organization']}/{values['name']}"
            self.hub.repositories.setdefault(repository, {})
            self.hub.private[repository] = values["visibility"] == "private"
            return self._json({"url": f"{self.hub.endpoint}/{repository}"})
        if match := _LFS.fullmatch(path):
            return self._json({"transfer": "basic", "objects": list(map(self._upload, json.loads(body)["objects"]))})
        if (match := _MODEL.fullmatch(path)) is None:
            return self._json({}, 404)
        if match["what"] == "preupload":
            return self._json({"files": list(map(_mode, json.loads(body)["files"]))})
        return self._commit(match["repository"], body)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        oid = self.path.rpartition("/")[2]
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.objects[oid] = body
        self._json({})

    def _upload(self, wanted: dict[str, Any]) -> dict[str, Any]:
        return {**wanted, "actions": {"upload": {"href": f"{self.hub.endpoint}/objects/{wanted['oid']}"}}}

    def _commit(self, repository: str, body: bytes) -> None:
        files = self.hub.repositories[repository]
        for row in map(json.loads, body.splitlines()):
            value = row["value"]
            if row["key"] == "header":
                self.hub.messages.append(value["summary"])
            elif row["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif row["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
        url = f"{self.hub.endpoint}/{repository}/commit/{COMMIT}"
        self._json({"success": True, "commitOid": COMMIT, "commitUrl": url})

    def _json(self, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""


def _mode(file: dict[str, Any]) -> dict[str, Any]:
    mode = "lfs" if file["path"].endswith(".safetensors") else "regular"
    return {"path": file["path"], "uploadMode": mode, "shouldIgnore": False}
