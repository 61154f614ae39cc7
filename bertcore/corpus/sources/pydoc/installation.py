"""The Python files of this installation that the source `pydoc` reads, and how the installation differs from the lock.

Only the standard library and the distributions named in `requirements.lock` count, so that test tools, this project or
whatever else lies in the environment never change the corpus. Nothing is imported from them.
"""

import importlib.metadata
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from bertcore.errors import InputError

REFERENCE_PYTHON = "3.11"  # the README's numbers come from its standard library; others differ in a few modules

NOT_DOCUMENTATION = frozenset(  # directories of tests and of copies of other distributions
    ["test", "tests", "idle_test", "testdata", "fixtures", "_vendor", "vendor", "vendored"]
    + ["site-packages", "dist-packages"]  # other distributions, which lie inside the standard library's directory
)
TEST_FILE = re.compile(r"(test_.*|.*_test|conftest)\.py")
PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*(?P<version>[^\s;#\\]+)\s*(?P<marker>;)?")
_SHOWN = 5


@dataclass(frozen=True)
class Pin:
    """One line of the lock."""

    name: str
    version: str
    conditional: bool
    """Whether an environment marker stands after the version, so that its absence is no difference."""


@dataclass(frozen=True, order=True)
class ModuleFile:
    """A Python file under the name that it is imported by."""

    module: str
    path: str


def read_lock(lock: Path) -> list[Pin]:
    """The pins of a requirements file (``name==version`` lines); `InputError` for anything that is not pinned."""
    try:
        lines = lock.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{lock}: cannot be read ({error.strerror}), expected pinned requirements") from None
    pins = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(("#", "--")):
            continue
        match = PIN.match(line.strip())
        if match is None:
            raise InputError(f"{lock}:{number}: found {line.strip()!r}, expected NAME==VERSION; pin the distribution")
        pins.append(Pin(match["name"], match["version"], match["marker"] is not None))
    return pins


def check_installation(lock: Path) -> list[str]:
    """What a reader must know before comparing numbers: at most one line on distributions and one on Python."""
    missing, differing = compare(read_lock(lock))
    lines = []
    if found := missing + differing:
        lines.append(f"{lock}: this installation differs from the lock: {few(found)}; the pydoc corpus will differ too")
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != REFERENCE_PYTHON:
        lines.append(f"Python {running} found, the README's numbers are of {REFERENCE_PYTHON}; the corpus will differ")
    return lines


def compare(pins: Iterable[Pin]) -> tuple[list[str], list[str]]:
    """What of `pins` is not installed though it should be, and what is there in another version, a few words each."""
    missing, differing = [], []
    for pin in pins:
        try:
            installed = importlib.metadata.version(pin.name)
        except importlib.metadata.PackageNotFoundError:
            if not pin.conditional:
                missing.append(f"{pin.name} {pin.version} is not installed")
            continue
        # A local build label (torch 2.13.0+cpu) is the same release with the same documentation.
        if pin.version not in (installed, installed.partition("+")[0]):
            differing.append(f"{pin.name} {installed} instead of {pin.version}")
    return missing, differing


def few(found: list[str]) -> str:
    """The first ones in a line, and how many more there are."""
    return ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")


def module_files(lock: Path, statistics: Counter[str]) -> list[ModuleFile]:
    """The files to parse, sorted by module name and each once; what is left out is counted by reason."""
    found = dict.fromkeys(_standard_library(Path(sysconfig.get_path("stdlib")), statistics))
    for pin in read_lock(lock):
        found.update(dict.fromkeys(_distribution(pin, statistics)))
    return sorted(found)


def _standard_library(root: Path, statistics: Counter[str]) -> Iterator[ModuleFile]:
    yield from _modules(root, (path.relative_to(root) for path in root.rglob("*.py")), statistics)


def _distribution(pin: Pin, statistics: Counter[str]) -> Iterator[ModuleFile]:
    try:
        distribution = importlib.metadata.distribution(pin.name)
    except importlib.metadata.PackageNotFoundError:
        statistics["distribution_not_installed"] += 1
        return
    if distribution.files is None:  # installed by a system package manager without a list of files
        statistics["distribution_without_file_list"] += 1
        return
    yield from _modules(Path(str(distribution.locate_file(""))), distribution.files, statistics)


def _modules(root: Path, files: Iterable[PurePath], statistics: Counter[str]) -> Iterator[ModuleFile]:
    for file in files:
        if file.suffix != ".py":
            continue
        if NOT_DOCUMENTATION.intersection(file.parts) or TEST_FILE.fullmatch(file.name):
            statistics["test_or_vendored_file"] += 1
            continue
        parts = file.with_suffix("").parts
        if all(part.isidentifier() for part in parts):  # scripts (../../bin/x.py) and templates are no modules
            yield ModuleFile(".".join(parts[:-1] if parts[-1] == "__init__" else parts), str(root / file))
        else:
            statistics["file_is_no_module"] += 1
