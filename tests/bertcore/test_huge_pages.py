"""The memory of programs that this package starts, as the kernel has it."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.import_closure import ROOT

_KERNEL = Path("/sys/kernel/mm/transparent_hugepage/enabled")

# A child's child, as a training is: an array of 64 MiB in the heap, and the flags of the heap's mapping.
_CHILD = """
import ctypes
library = ctypes.CDLL(None)
library.mallopt(-4, 0)
library.malloc.restype = ctypes.c_void_p
assert library.malloc(2**26)
of_heap = open("/proc/self/smaps").read().split("[heap]")[-1]
print(next(line for line in of_heap.splitlines() if line.startswith("VmFlags")))
"""
_PARENT = f"import bertcore, subprocess, sys; subprocess.run([sys.executable, '-c', {_CHILD!r}], check=True)"


def flags(**given: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    environment |= {"PYTHONPATH": str(ROOT), **given}
    command = [sys.executable, "-c", _PARENT]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(
    not _KERNEL.exists() or "[madvise]" not in _KERNEL.read_text(), reason="the kernel takes no advice on huge pages"
)
@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or tuple(map(int, platform.libc_ver()[1].split("."))) < (2, 35),
    reason="the C library does not ask for huge pages",
)
def test_programs_that_are_started_ask_for_huge_pages_unless_somebody_has_decided() -> None:
    assert "hg" in flags()
    assert "hg" not in flags(GLIBC_TUNABLES="glibc.malloc.hugetlb=0")


def test_what_somebody_has_set_stays() -> None:
    statement = "import bertcore, os; print(os.environ['GLIBC_TUNABLES'])"
    given = os.environ | {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1", "PYTHONPATH": str(ROOT)}
    said = subprocess.run([sys.executable, "-c", statement], env=given, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "glibc.malloc.arena_max=1"
