import errno
import hashlib
import os
import re
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bertcore.corpus.sources import http, source_of
from bertcore.errors import ConfigError, InputError, UnavailableError

CONTENT = b"".join(b"Document %d.\n\n" % number for number in range(40_000))
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class FaultyServer:
    """Serves `content` at every path; each answer takes the next of `faults`: a status, or the bytes after which the
    connection breaks off. Without faults left it answers properly."""

    def __init__(self) -> None:
        self.content, self.etag, self.ranges = CONTENT, '"one"', True
        self.faults: list[tuple[str, int]] = []
        self.requested: list[str | None] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self.url = f"http://127.0.0.1:{self.server.server_port}/corpus.txt"


class _Handler(BaseHTTPRequestHandler):
    owner: FaultyServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        owner = self.owner
        owner.requested.append(self.headers["Range"])
        kind, value = owner.faults.pop(0) if owner.faults else ("none", 0)
        if kind == "status":
            self.send_response(value)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        start = int(re.findall(r"\d+", self.headers["Range"])[0]) if self.headers["Range"] else 0
        whole = not owner.ranges or not start or self.headers["If-Range"] != owner.etag
        if not whole and start >= len(owner.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(owner.content)}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        body = owner.content if whole else owner.content[start:]
        self.send_response(200 if whole else 206)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", owner.etag)
        self.end_headers()
        self.wfile.write(body[:value] if kind == "break" else body)
        self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    faulty = FaultyServer()
    thread = threading.Thread(target=faulty.server.serve_forever, daemon=True)
    thread.start()
    yield faulty
    faulty.server.shutdown()
    faulty.server.server_close()
    thread.join()


def fetch(server: FaultyServer, directory: Path, pauses: list[float] | None = None, fragment: str = "") -> Path:
    return http.fetch(server.url + fragment, directory, sleep=(pauses if pauses is not None else []).append)


def leftovers(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("[!.]*") if path.is_file())


def test_download_once(server: FaultyServer, tmp_path: Path) -> None:
    path = fetch(server, tmp_path, fragment=f"#sha256={SHA256}")
    assert path.read_bytes() == CONTENT and leftovers(tmp_path) == ["corpus.txt"]
    assert fetch(server, tmp_path) == path and len(server.requested) == 1


def test_two_that_want_the_same_file_download_it_once(server: FaultyServer, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: fetch(server, tmp_path), range(8)))
    assert len(found) == len(server.requested) == 1 and found.pop().read_bytes() == CONTENT


def test_a_broken_download_goes_on_where_it_stopped(server: FaultyServer, tmp_path: Path) -> None:
    server.faults = [("break", 100_000), ("break", 50_000)]
    pauses: list[float] = []
    assert fetch(server, tmp_path, pauses, f"#sha256={SHA256}").read_bytes() == CONTENT
    assert server.requested == [None, "bytes=100000-", "bytes=150000-"]
    assert pauses == [1.0, 1.0]  # each try brought bytes, so the pauses do not grow


def test_a_later_process_goes_on_too(server: FaultyServer, tmp_path: Path) -> None:
    server.faults = [("break", 100_000), ("status", 404)]
    with pytest.raises(InputError, match="cannot be downloaded"):
        fetch(server, tmp_path)
    assert leftovers(tmp_path) == ["corpus.txt.part", "corpus.txt.part.validator"]
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.requested[-1] == "bytes=100000-" and leftovers(tmp_path) == ["corpus.txt"]


def test_a_download_that_was_killed_behind_its_last_byte_is_complete(server: FaultyServer, tmp_path: Path) -> None:
    target = fetch(server, tmp_path)
    part = target.rename(target.with_name("corpus.txt.part"))
    part.with_name("corpus.txt.part.validator").write_text(server.etag)
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.requested == [None, f"bytes={len(CONTENT)}-"] and leftovers(tmp_path) == ["corpus.txt"]


def test_a_file_that_changed_meanwhile_is_fetched_anew(server: FaultyServer, tmp_path: Path) -> None:
    server.faults = [("break", 100_000), ("status", 404)]
    with pytest.raises(InputError):
        fetch(server, tmp_path)
    server.content, server.etag = CONTENT[::-1], '"two"'
    assert fetch(server, tmp_path).read_bytes() == CONTENT[::-1]


def test_a_server_without_ranges(server: FaultyServer, tmp_path: Path) -> None:
    server.ranges = False
    server.faults = [("break", 100_000)]
    assert fetch(server, tmp_path).read_bytes() == CONTENT


def test_pauses_grow_and_end(server: FaultyServer, tmp_path: Path) -> None:
    server.faults = [("status", 503)] * 3
    pauses: list[float] = []
    assert fetch(server, tmp_path, pauses).read_bytes() == CONTENT
    assert pauses == [2.0, 4.0, 8.0]
    server.faults = [("status", 503)] * 100
    with pytest.raises(UnavailableError, match="corpus.txt: cannot be downloaded .*503.* after 6 attempts"):
        http.fetch(server.url.replace("corpus", "other/corpus"), tmp_path, sleep=pauses.append)
    assert len(server.faults) == 100 - http.ATTEMPTS


def test_not_found_is_not_tried_again(server: FaultyServer, tmp_path: Path) -> None:
    server.faults = [("status", 404)]
    with pytest.raises(InputError, match="corpus.txt: cannot be downloaded .*404"):
        fetch(server, tmp_path)
    assert len(server.requested) == 1 and leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("https://alice:s3cret@example.com/corpus.txt", "a user"),
        ("https://example.com/corpus.txt?X-Amz-Date=1&X-Amz-Signature=s3cret", "x-amz-signature"),
        ("https://example.com/corpus.txt?sig=s3cret#sha256=" + "0" * 64, "sig"),
    ],
)
def test_an_address_with_a_secret_is_refused_without_saying_it(address: str, found: str) -> None:
    with pytest.raises(ConfigError, match=f"https://example.com/corpus.txt: found {found} in the address") as error:
        source_of(address)
    assert "s3cret" not in str(error.value)


def test_an_address_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"http://\[x/a.txt: Invalid IPv6 URL; correct the address"):
        http.parse_url("http://[x/a.txt")
    with pytest.raises(ConfigError, match="http://h:abc/x.txt: Port could not be cast to integer .*; correct the addr"):
        source_of("http://h:abc/x.txt")


def test_a_cache_that_cannot_be_written_is_one_line(server: FaultyServer, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"BERTCORE_CACHE: found .*file/cache \(.*Not a directory\), expected a dire"):
        http.fetch(server.url, tmp_path / "file" / "cache")


def test_nothing_leads_away_from_https() -> None:
    for origin, target, allowed in (
        ("https://a/x.txt", "https://b/x.txt", True),
        ("http://a/x.txt", "https://b/x.txt", True),
        ("http://a/x.txt", "http://b/x.txt", True),
        ("https://a/x.txt", "http://b/x.txt", False),
        ("https://a/x.txt", "ftp://b/x.txt", False),
    ):
        request = urllib.request.Request(origin)
        if allowed:
            found = http._Redirects().redirect_request(request, None, 302, "Found", {}, target)
            assert found is not None and found.full_url == target
        else:
            with pytest.raises(InputError, match=f"{origin}: leads to {target}, which is not encrypted"):
                http._Redirects().redirect_request(request, None, 302, "Found", {}, target)


def test_nobody_answers(server: FaultyServer, tmp_path: Path) -> None:
    server.server.server_close()
    with pytest.raises(UnavailableError, match="cannot be downloaded .*refused"):
        fetch(server, tmp_path)


def test_a_full_disk_is_no_fault_of_the_network(
    server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"corpus.txt.part: no space left on the disk"):
        fetch(server, tmp_path)
    assert len(server.requested) == 1


def test_a_wrong_checksum_leaves_nothing(server: FaultyServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"the file has the sha256 {SHA256}, expected {'0' * 64}"):
        fetch(server, tmp_path, fragment="#sha256=" + "0" * 64)
    assert leftovers(tmp_path) == []
    fetch(server, tmp_path)
    with pytest.raises(InputError, match="expected 0000"):
        fetch(server, tmp_path, fragment="#sha256=" + "0" * 64)


def test_a_file_of_another_checksum_is_downloaded_again(server: FaultyServer, tmp_path: Path) -> None:
    first = fetch(server, tmp_path)
    server.content, server.etag = CONTENT + b"More.\n", '"two"'
    newer = f"#sha256={hashlib.sha256(server.content).hexdigest()}"
    assert fetch(server, tmp_path).read_bytes() == CONTENT  # no checksum: as it is here
    assert fetch(server, tmp_path, fragment=newer) == first and first.read_bytes() == server.content
    assert fetch(server, tmp_path, fragment=newer) == first and len(server.requested) == 2


@pytest.mark.parametrize(
    ("path", "encoded", "name"),
    [
        ("Bücher.txt", "B%C3%BCcher.txt", "Bücher.txt"),
        ("my file.txt", "my%20file.txt", "my file.txt"),
        ("a/b-c_d~(e).txt?v=1+2&w=[3]", "a/b-c_d~(e).txt?v=1+2&w=[3]", "b-c_d~(e).txt"),
        ("B%C3%BCcher.txt?a=b%20c&d=é", "B%C3%BCcher.txt?a=b%20c&d=%C3%A9", "Bücher.txt"),
    ],
)
def test_addresses_are_percent_encoded_once(path: str, encoded: str, name: str) -> None:
    assert http.parse_url(f"https://example.com/{path}") == (f"https://example.com/{encoded}", None, name)


def test_documents(server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTCORE_CACHE", str(tmp_path))
    documents = list(source_of(server.url).documents([], Counter(), lambda record: None))
    assert len(documents) == 40_000
    assert (documents[7].id, documents[7].text, documents[7].source) == ("corpus.txt:7", "Document 7.", server.url)


def test_what_was_read_is_known_by_its_checksum(
    server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("BERTCORE_CACHE", str(tmp_path))
    assert source_of(server.url).revisions() == {server.url: f"sha256={SHA256}"}
    caplog.set_level("INFO")
    list(source_of(server.url).documents([], Counter(), lambda _: None))
    assert "as it was downloaded before" in caplog.text and len(server.requested) == 1
