from collections import Counter
from pathlib import Path

import pytest

from bertcore.corpus.sources import SOURCES, open_source, parse_uri
from bertcore.errors import ConfigError
from tests.packing import pack


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("pydoc", "pydoc"),
        ("hf://org/name", "hf"),
        ("http://example.org/a.txt", "http"),
        ("https://example.org/a.jsonl.zst#sha256=" + "0" * 64, "https"),
    ],
)
def test_parse_uri(uri: str, kind: str) -> None:
    location = parse_uri(uri)
    assert (location.kind, location.uri, location.files) == (kind, uri, ())
    assert kind in SOURCES


def test_local_files_are_found(tmp_path: Path) -> None:
    paths = tuple(pack(tmp_path / name, b"x") for name in ("a.txt", "b.txt"))
    assert parse_uri(str(tmp_path)).files == paths


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("htp://example.org/a.txt", "unknown kind of source 'htp'; did you mean 'http'"),
        ("s3://bucket/a.txt", "unknown kind of source 's3'"),
        ("pydocs", "pydocs: no such file, glob or directory .* and not `pydoc`"),
        ("hf://name", "expected hf://ORG/NAME"),
        ("https://example.org/a.html", "expected http"),
        ("https://example.org/a.txt#sha256=12", "expected #sha256= and 64"),
        ("https://example.org/a.txt#md5=12", "found #md5=12"),
    ],
)
def test_what_cannot_be_read_is_named(uri: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_uri(uri)


def test_local_files_are_read_through_links(tmp_path: Path) -> None:
    link = tmp_path / "a.txt"
    link.symlink_to(pack(tmp_path / "store/4f2a.txt", b"one\n\ntwo"))
    statistics: Counter[str] = Counter()
    documents = list(open_source("gone/since/a.txt", [link], statistics))
    assert [(document.id, document.source) for document in documents] == [
        ("a.txt:0", "gone/since/a.txt"),
        ("a.txt:1", "gone/since/a.txt"),
    ]
    assert [document.text for document in open_source(str(tmp_path / "*.txt"), [])] == ["one", "two"]
