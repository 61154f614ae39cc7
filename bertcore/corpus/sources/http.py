"""Documents from a file at an `http(s)` address, which is downloaded once, checked, and then read as a local file.

`https://HOST/PATH/FILE.txt.zst#sha256=HEX` also says what the file must be.
"""

import errno
import hashlib
import http.client
import logging
import os
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urldefrag, urlsplit

from bertcore.compressed import plain_ending
from bertcore.corpus.documents import Document
from bertcore.corpus.sources import local
from bertcore.corpus.sources.formats import FORMATS
from bertcore.corpus.sources.formats.blocks import FileBlock
from bertcore.corpus.sources.source import Keep, Source
from bertcore.errors import ConfigError, InputError, UnavailableError, may_pass
from bertcore.files import alone_in, checksum, disk_errors
from bertcore.progress import Progress

logger = logging.getLogger(__name__)

ATTEMPTS = 6
"""Tries in a row that bring no new byte before giving up; the pauses between them add up to a minute."""
TIMEOUT_SECONDS = 60
CHUNK_BYTES = 1 << 20
_SECRET = {"x-amz-signature", "x-goog-signature", "signature", "sig", "token", "access_token", "api_key", "apikey"}
"""Query parameters that are credentials."""
_OF_ADDRESSES = "%/:=&?~+!$,;'@()*[]"
"""What stays as it is where path and query are percent-encoded: what has a meaning there, or is encoded already."""
BROKEN = (urllib.error.URLError, http.client.HTTPException, OSError)


def parse_url(uri: str) -> tuple[str, str | None, str]:
    """Address, percent-encoded and without its fragment, sha256 or None, and file name; `ConfigError` where the URI is
    malformed."""
    try:
        url, fragment = urldefrag(uri)
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"{uri}: {error}; correct the address") from None
    secrets = sorted(_SECRET.intersection(name.lower() for name in parse_qs(parts.query)))
    if "@" in parts.netloc or secrets:
        raise ConfigError(
            f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}: found "
            f"{secrets[0] if secrets else 'a user'} in the address, expected none, because addresses are logged and "
            "recorded; download the file and give its path"
        )
    name = PurePosixPath(unquote(parts.path)).name
    if not parts.hostname or plain_ending(Path(name)) not in FORMATS:
        raise ConfigError(
            f"{uri}: expected http(s)://HOST/PATH/FILE with an ending of {', '.join(FORMATS)} (also .gz, .zst)"
        )
    digest = fragment.removeprefix("sha256=").lower() if fragment else None
    if digest is not None and (len(digest) != 64 or set(digest) - set("0123456789abcdef")):
        raise ConfigError(f"{uri}: found #{fragment}, expected #sha256= and 64 hexadecimal digits; correct or drop it")
    encoded = {part: quote(getattr(parts, part), safe=_OF_ADDRESSES) for part in ("path", "query")}
    return parts._replace(**encoded).geturl(), digest, name


class HttpSource(Source):
    """A file at an address."""

    def __init__(self, uri: str, *, wrapped: bool = False, column: str | None = None) -> None:
        super().__init__(uri, wrapped=wrapped, column=column)
        _, _, name = parse_url(uri)
        local.check_column(uri, [Path(name)], column)

    @cached_property
    def _file(self) -> Path:
        """The downloaded one, which is hashed once where the address says what it must be."""
        return fetch(self.uri, cache_directory())

    def revisions(self) -> dict[str, str | None]:
        """Its checksum: the one that the address gives, and that is checked when it is read, or else that of the file,
        which is downloaded for it."""
        _, digest, _ = parse_url(self.uri)
        return {self.uri: f"sha256={digest or checksum(self._file)}"}

    def documents(self, files: Sequence[Path], dropped: Counter[str], keep: Keep) -> Iterator[Document]:
        """Those of the downloaded file; see `fetch` and `local.read`."""
        yield from local.read(self.uri, [self._file], dropped, wrapped=self.wrapped, column=self.column)

    def blocks(self, files: Sequence[Path], dropped: Counter[str], keep: Keep) -> Iterator[FileBlock]:
        yield from local.blocks(self.uri, [self._file], wrapped=self.wrapped, column=self.column)

    def warnings(self, files: Sequence[Path]) -> list[str]:
        return [] if self.wrapped else local.wrapped_lines(self.uri, [self._file], self.column)


def cache_directory() -> Path:
    """`BERTCORE_CACHE`, else `~/.cache/bertcore`."""
    return Path(os.environ.get("BERTCORE_CACHE") or "~/.cache/bertcore").expanduser()


def fetch(uri: str, directory: Path, sleep: Callable[[float], None] = time.sleep) -> Path:
    """The file at `uri`, below `directory`; one that is there already, with the sha256 that `uri` gives if it gives
    one, is not fetched again.

    A download that broke off goes on where it stopped, also in a later process, if the server's copy is still the same.
    Network errors and statuses that `may_pass` are tried again after growing pauses, then raise `UnavailableError`; any
    other status, a full disk, and a file with another sha256 raise `InputError`.
    """
    url, digest, name = parse_url(uri)
    target = directory / hashlib.sha256(url.encode()).hexdigest()[:16] / name
    try:
        if not _is_there(target, digest):
            with alone_in(target.parent):  # two trees may want the same file at once
                if not _is_there(target, digest):
                    _fetch(uri, target, sleep)
        elif digest is None:
            logger.info("%s: as it was downloaded before, in %s; remove that to download it again", url, target)
    except OSError as error:
        if error.errno not in _UNUSABLE:
            raise
        raise ConfigError(
            f"BERTCORE_CACHE: found {directory} ({error.filename}: {error.strerror}), expected a directory that this "
            "user may write; set it"
        ) from None
    return target


_UNUSABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST)


def _is_there(target: Path, digest: str | None) -> bool:
    return target.is_file() and (digest is None or checksum(target) == digest)


def _fetch(uri: str, target: Path, sleep: Callable[[float], None]) -> None:
    url, digest, name = parse_url(uri)
    part = target.with_name(f"{name}.part")
    failures, pause = 0, 1.0
    while True:
        before = _size(part)
        try:
            with disk_errors(part):
                _download(url, part)
            break
        except BROKEN as error:
            failures, pause = (1, 1.0) if _size(part) > before else (failures + 1, pause * 2)
            _refuse_what_lasts(url, error, failures)
            logger.warning("%s: broke off at %d bytes (%s); trying again in %.0f s", url, _size(part), error, pause)
            sleep(pause)
    try:
        _check(part, digest, uri)
    except InputError:
        part.unlink()
        raise
    finally:
        _validator(part).unlink(missing_ok=True)
    part.rename(target)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """To other addresses of the same kind, or from http to https."""

    def redirect_request(self, request: Any, file: Any, code: int, message: str, headers: Any, url: str) -> Any:
        if urlsplit(url).scheme not in ("https", urlsplit(request.full_url).scheme):
            raise InputError(f"{request.full_url}: leads to {url}, which is not encrypted; check the address")
        return super().redirect_request(request, file, code, message, headers, url)


_OPENER = urllib.request.build_opener(_Redirects)


def _download(url: str, part: Path) -> None:
    """Append to `part` what it lacks of the file at `url`; raises one of `BROKEN` where the connection ends early."""
    have = _size(part)
    request = urllib.request.Request(url, headers=_resume_headers(part) if have else {})
    try:
        response = _OPENER.open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        if error.headers.get("Content-Range") == f"bytes */{have}":
            return  # all of it is here: a process was killed between the last byte and the file's final name
        part.unlink()  # what is here is longer than the server's file: begin anew
        raise ConnectionError("the file changed on the server") from None
    with response, part.open("ab" if response.status == 206 else "wb") as file:
        start = have if response.status == 206 else 0
        _validator(part).write_text(response.headers.get("ETag") or response.headers.get("Last-Modified") or "")
        length = response.headers.get("Content-Length")
        whole = None if length is None else -(-(start + int(length)) // CHUNK_BYTES)
        progress = Progress("download", whole, start // CHUNK_BYTES)
        while chunk := response.read(CHUNK_BYTES):
            file.write(chunk)
            progress.advance(f"MiB of {part.stem}")
        progress.close()
        file.flush()
        os.fsync(file.fileno())
    if length is not None and _size(part) - start != int(length):
        raise ConnectionError(f"got {_size(part) - start} of {length} bytes")


def _refuse_what_lasts(url: str, error: Exception, failures: int) -> None:
    if isinstance(error, urllib.error.HTTPError) and not may_pass(error.code):
        raise InputError(f"{url}: cannot be downloaded ({error}); check the address and run again") from None
    if failures >= ATTEMPTS:
        raise UnavailableError(
            f"{url}: cannot be downloaded ({error}), after {ATTEMPTS} attempts that brought nothing; check the "
            "connection and run again, which goes on from what is here"
        ) from None


def _resume_headers(part: Path) -> dict[str, str]:
    """Asks for the rest, but for the whole file where it changed; without a validator nothing can be resumed."""
    validator = _validator(part).read_text() if _validator(part).is_file() else ""
    usable = validator and not validator.startswith("W/")
    return {"Range": f"bytes={_size(part)}-", "If-Range": validator} if usable else {}


def _check(path: Path, digest: str | None, uri: str) -> None:
    if digest is None:
        return
    if (found := checksum(path)) != digest:
        raise InputError(
            f"{uri}: the file has the sha256 {found}, expected {digest}; correct the address or the checksum"
        )


def _validator(part: Path) -> Path:
    return part.with_name(f"{part.name}.validator")


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
