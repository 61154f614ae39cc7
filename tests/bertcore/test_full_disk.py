"""A full disk: one clear line, and nothing left where a good output belongs."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from bertcore.corpus.near_duplicates import NearDuplicates, NearDuplicatesConfig, signature
from bertcore.errors import InputError
from bertcore.files import disk_errors, replace_directory
from bertcore.shards.build import encode_documents
from bertcore.shards.encoding import WordEncoder
from tests import samples
from tests.samples import documents, tokenizer


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB, where this process may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs the right to do so")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def write_shards(directory: Path) -> None:
    encode_documents([pa.array(documents(2000))], WordEncoder(tokenizer())).write(directory / "train-00000.arrow")


def write_corpus(directory: Path) -> None:
    samples.write_corpus(directory, "train", [[os.urandom(16_000).hex()] for _ in range(200)], group_characters=40_000)


def write_near_duplicates(directory: Path) -> None:
    seen = NearDuplicates(NearDuplicatesConfig(), directory, most=1000)
    for index in range(60):
        seen.add([signature(f"{index}.{each}", 5) for each in range(20)])


@pytest.mark.parametrize("write", [write_shards, write_corpus, write_near_duplicates])
def test_a_full_disk_is_said_and_leaves_the_old_output(small_disk: Path, write: Callable[[Path], None]) -> None:
    output = small_disk / "out"
    output.mkdir()
    (output / "old").touch()
    with (
        pytest.raises(InputError, match=r"out: no space left on the disk .* free some space and run the stage again"),
        disk_errors(output),
        replace_directory(output) as beside,
    ):
        write(beside)
    assert [path.name for path in small_disk.iterdir()] == ["out"] and (output / "old").exists()


def test_a_full_disk_is_said_wherever_it_is_met(tmp_path: Path) -> None:
    said = r"x/out: no space left on the disk \(.* MiB free, while writing a.arrow\)"
    with pytest.raises(InputError, match=said), disk_errors(tmp_path / "x" / "out"):
        raise OSError(errno.ENOSPC, "No space left on device", "a.arrow")


def test_other_errors_pass() -> None:
    with pytest.raises(PermissionError), disk_errors(Path("out")):
        raise PermissionError(errno.EACCES, "denied", "x")
