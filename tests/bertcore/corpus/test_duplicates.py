"""A set that is partly on disk, beside Python's own."""

import hashlib
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bertcore.corpus.duplicates import Digests
from bertcore.corpus.sorted_files import SIZE


def digest(number: int) -> bytes:
    return hashlib.blake2b(str(number).encode(), digest_size=SIZE).digest()


@pytest.mark.parametrize("most", [1, 7, 64, 10_000])
def test_what_is_new_is_what_pythons_set_says(tmp_path: Path, most: int) -> None:
    rng, digests, seen = random.Random(most), Digests(tmp_path, most), set[bytes]()
    for _ in range(200):
        batch = [digest(rng.randrange(1500)) for _ in range(rng.randrange(20))]
        expected = []
        for each in batch:
            expected.append(each not in seen)
            seen.add(each)
        assert digests.add(batch) == expected
    assert len(seen) > 600


def test_bytes_of_zero_are_bytes(tmp_path: Path) -> None:
    digests = Digests(tmp_path, most=1)
    values = [bytes(SIZE), bytes(SIZE - 1) + b"\1", b"\1" + bytes(SIZE - 1), b"\1\1" + bytes(SIZE - 2), b"\xff" * SIZE]
    for value in values:
        assert digests.add([value]) == [True]
    assert digests.add(values) == [False] * len(values)


def test_nothing_stays_in_the_directory(tmp_path: Path) -> None:
    digests = Digests(tmp_path, most=4)
    digests.add([digest(number) for number in range(100)])
    assert digests.add([digest(3), digest(100)]) == [False, True]
    assert not list(tmp_path.iterdir())


HELD = """
import hashlib, re, sys
from pathlib import Path
from bertcore.corpus.duplicates import Digests
digests = Digests(Path(sys.argv[1]), most=20_000)
for begin in range(0, int(sys.argv[2]), 1000):
    assert all(digests.add([hashlib.blake2b(b"%d" % n, digest_size=16).digest() for n in range(begin, begin + 1000)]))
held = Path("/proc/self/status").read_text()
print(re.search(r"RssAnon:\\s+(\\d+) kB", held)[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells a process's memory on Linux only")
def test_ten_times_the_digests_take_no_more_memory(tmp_path: Path) -> None:
    held = []
    for count in (40_000, 400_000):  # 100 bytes each in a set: 36 MB more
        command = [sys.executable, "-c", HELD, tmp_path, str(count)]
        held.append(int(subprocess.run(command, capture_output=True, check=True).stdout) / 1024)
    assert held[1] - held[0] < 10  # MiB
