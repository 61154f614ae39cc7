from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from bertcore.corpus.sources import source_of
from bertcore.corpus.sources.http import HttpSource
from bertcore.corpus.sources.hub import HubSource
from bertcore.corpus.sources.local import LocalSource
from bertcore.corpus.sources.pydoc.source import PydocSource
from bertcore.corpus.sources.source import Source
from bertcore.errors import ConfigError
from tests.packing import pack


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("pydoc", PydocSource),
        ("hf://org/name", HubSource),
        ("http://example.org/a.txt", HttpSource),
        ("https://example.org/a.jsonl.zst#sha256=" + "0" * 64, HttpSource),
        ("texts/*.txt", LocalSource),
    ],
)
def test_the_form_of_a_uri_decides_its_kind(uri: str, kind: type[Source]) -> None:
    source = source_of(uri)
    assert type(source) is kind and source.uri == uri


def test_local_files_are_found(tmp_path: Path) -> None:
    paths = [pack(tmp_path / name, b"x") for name in ("a.txt", "b.txt.gz")]
    source = source_of(str(tmp_path))
    assert source.files == paths and source.text_bytes() == 1 + 4 * paths[1].stat().st_size
    assert source_of("https://example.org/a.txt").text_bytes() is None


def test_files_that_are_no_texts_are_known(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for name in ("a.txt", "below/b.pdf", "below/.hidden", "LICENSE"):
        (tmp_path / name).write_text("x")
    assert source_of(str(tmp_path)).unread == [tmp_path / "LICENSE", tmp_path / "below" / "b.pdf"]
    assert source_of(str(tmp_path / "a.txt")).unread == source_of("pydoc").unread == ()


def test_so_many_documents_are_so_much_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "{"é" * length}"}}\n' for length in (2, 4, 6, 100)))
    source = source_of(str(tmp_path))
    assert [source.text_bytes(count) for count in (1, 3)] == [4, 24]
    assert source.text_bytes(100) == source.text_bytes()


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
        assert source_of(uri).files


def test_local_files_are_read_through_links(tmp_path: Path) -> None:
    link = tmp_path / "a.txt"
    link.symlink_to(pack(tmp_path / "store/4f2a.txt", b"one\n\ntwo"))
    statistics: Counter[str] = Counter()
    documents = list(source_of("gone/since/a.txt").documents([link], statistics, ignored))
    assert [(document.id, document.source) for document in documents] == [
        ("a.txt:0", "gone/since/a.txt"),
        ("a.txt:1", "gone/since/a.txt"),
    ]
    found = source_of(str(tmp_path / "*.txt")).documents([], statistics, ignored)
    assert [document.text for document in found] == ["one", "two"]


def ignored(record: Mapping[str, object]) -> None:
    raise AssertionError(f"a record of a source that keeps none: {record}")
