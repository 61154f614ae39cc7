"""Entries that are searched on disk, beside a list in memory."""

import hashlib
import random
from pathlib import Path

import pytest

from bertcore.corpus.sorted_files import SIZE, SortedFiles


def entry(number: int) -> bytes:
    return hashlib.blake2b(str(number).encode(), digest_size=SIZE).digest()


@pytest.mark.parametrize("width", [1, 2, 10])
def test_what_begins_with_a_prefix_is_found(tmp_path: Path, width: int) -> None:
    rng, files, added = random.Random(width), SortedFiles(tmp_path), list[bytes]()
    for _ in range(40):
        new = [entry(rng.randrange(10**6)) for _ in range(rng.randrange(1, 30))]
        files.add(new)
        added += new
        asked = [entry(rng.randrange(10**6))[:width], rng.choice(added)[:width], rng.choice(added)[:width]]
        expected = [sorted(each for each in added if each.startswith(prefix)) for prefix in asked]
        assert [sorted(each) for each in files.beginning_with(asked)] == expected
    assert not list(tmp_path.iterdir())


def test_the_least_and_the_greatest_bytes_are_bytes(tmp_path: Path) -> None:
    files = SortedFiles(tmp_path)
    edges = [
        bytes(SIZE),
        b"\xff" * SIZE,
        b"\1" + bytes(SIZE - 1),
        b"\1" + b"\xff" * (SIZE - 1),
        bytes(SIZE - 1) + b"\1",
    ]
    for each in edges:
        files.add([each])
    assert files.contain(edges) == [True] * len(edges)
    found = [sorted(each) for each in files.beginning_with([b"\0", b"\xff", b"\1", b"\2"])]
    assert found == [[edges[0], edges[4]], [edges[1]], [edges[2], edges[3]], []]


def test_nothing_is_found_among_nothing(tmp_path: Path) -> None:
    files = SortedFiles(tmp_path)
    assert files.contain([entry(1)]) == [False] and files.contain([]) == []
    assert files.beginning_with([entry(1)[:4]]) == [[]] and files.beginning_with([]) == []


def test_of_many_entries_with_one_beginning_the_last_of_each_file_are_given(tmp_path: Path) -> None:
    files = SortedFiles(tmp_path)
    alike = [b"\1" * 10 + number.to_bytes(6) for number in range(30)]
    files.add(alike[:20])
    files.add(alike[20:25])
    files.add(alike[25:27])
    assert sorted(files.beginning_with([b"\1" * 10], 2)[0]) == [*alike[18:20], *alike[23:27]]
    assert len(files.beginning_with([b"\1" * 10])[0]) == 27
