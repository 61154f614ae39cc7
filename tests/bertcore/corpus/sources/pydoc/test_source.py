import importlib.metadata
import inspect
import json.decoder
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcore.corpus.sources.pydoc import source as pydoc
from bertcore.corpus.sources.pydoc.installation import ModuleFile, check_installation, module_files, read_lock
from bertcore.corpus.sources.pydoc.prose import is_english, prose
from bertcore.errors import InputError

MODULE = '''
"""A module about penguins, which are birds that cannot fly."""
import nothing_that_exists

class Penguin:
    """A penguin that walks over the ice and eats fish."""

    def __init__(self, name, *, weight=30.0):
        self.name = name

    def dive(self, depth: float, /, *fish, cold=True, **more):
        """Dive below the ice as deep as the given depth allows."""

        def inner():
            """A documented function that nobody can see from outside."""

if nothing_that_exists:
    async def swim(cls, metres):
        """Return `metres`, the distance that was swum in the cold water."""

def short():
    """Too short."""

def undocumented():
    pass
'''


def write_package(site: Path, name: str, version: str, files: dict[str, str]) -> None:
    """A distribution as an installer leaves it: modules, METADATA and RECORD."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
    # Newer Pythons leave out of `distribution.files` what does not exist: the script must.
    (site.parent / "bin").mkdir(exist_ok=True)
    (site.parent / "bin" / "script.py").touch()
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in [*files, "../bin/script.py"]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site-packages with one package, and an empty standard library."""
    site, standard = tmp_path / "site", tmp_path / "stdlib"
    copy = '"""A module about penguins, which are birds that cannot fly."""'
    files = {
        "birds/__init__.py": MODULE,
        "birds/again.py": copy,
        "birds/broken.py": '"""This module is documented but it does not parse at all."""\ndef',
        "birds/large.py": '"""' + "One line of documentation." + '"""\n' + "x = 1\n" * 2000,
        "birds/tests/test_penguin.py": '"""A test module that nobody wants to read as prose."""',
        "birds/template-file.py": '"""A template that cannot be imported by anybody at all."""',
        "birds/fremd.py": '"""Пингвины это птицы которые не умеют летать но хорошо плавают в воде."""',
    }
    write_package(site, "birds", "1.0", files)
    write_package(site, "unlocked", "1.0", {"unlocked.py": '"""A package that the lock does not name at all."""'})
    standard.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(standard))
    importlib.invalidate_caches()
    return site


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "requirements.lock"
    path.write_text("# pinned\nbirds==1.0\nmissing==2.0\n")
    return path


def test_docstrings_of_the_locked_packages_in_source_order(site: Path, lock: Path) -> None:
    statistics: Counter[str] = Counter()
    docstrings = list(pydoc.read_docstrings(lock, statistics, workers=1))
    assert [(each.qualname, each.kind, each.parameters) for each in docstrings] == [
        ("", "module", []),
        ("Penguin", "class", ["name", "weight"]),
        ("Penguin.dive", "function", ["depth", "fish", "cold", "more"]),
        ("swim", "function", ["metres"]),
    ]
    assert {(each.document_id, each.package) for each in docstrings} == {("pydoc:birds", "birds")}
    assert docstrings[3].docstring == "Return `metres`, the distance that was swum in the cold water."
    assert docstrings[3].prose == "Return metres, the distance that was swum in the cold water."
    assert statistics == {
        "distribution_not_installed": 1,
        "docstring_not_english": 1,
        "too_short_docstring": 1,
        "duplicate_docstring": 1,
        "file_does_not_parse": 1,
        "file_is_no_module": 2,
        "hardly_documented_file": 1,
        "test_or_vendored_file": 1,
    }


def test_a_module_is_one_document(site: Path, lock: Path) -> None:
    ((document, members),) = pydoc.documents(pydoc.read_docstrings(lock, Counter(), workers=1))
    assert document.id == "pydoc:birds" and document.source == "pydoc"
    assert document.text.splitlines() == [each.prose for each in members]
    kept: list[Mapping[str, object]] = []
    assert list(pydoc.PydocSource("pydoc").documents([lock], Counter(), kept.append)) == [document]
    assert kept == [vars(member) for member in members]
    assert {*pydoc.RECORD_SCHEMA.names} - {"split"} < {*kept[0]}


def test_copies_that_differ_in_their_own_name_only_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "generated.py"
    path.write_text(
        "".join(f'class {name}:\n    """Serializes the {name} as a dict."""\n' for name in ["Catalog", "Endpoint"])
    )
    statistics: Counter[str] = Counter()
    docstrings = list(pydoc.parse_files([ModuleFile("generated", str(path))], statistics, workers=1))
    assert [each.qualname for each in docstrings] == ["Catalog"]
    assert statistics == {"duplicate_docstring": 1}


def test_the_number_of_workers_changes_nothing(lock: Path) -> None:
    lock.write_text("packaging==1\n")
    packages = ("json", "email", "asyncio")
    files = [file for file in module_files(lock, Counter()) if file.module.split(".")[0] in packages]
    assert len(files) > 2 * pydoc.FILES_PER_CHUNK
    runs = []
    for workers in (1, 2):
        statistics: Counter[str] = Counter()
        runs.append((list(pydoc.parse_files(files, statistics, workers=workers)), statistics))
    assert runs[0] == runs[1]


def test_real_modules_give_what_inspect_gives(lock: Path) -> None:
    lock.write_text("")
    files = [file for file in module_files(lock, Counter()) if file.module == "json.decoder"]
    found = {each.qualname: each for each in pydoc.parse_files(files, Counter(), workers=1)}
    decoder = found["JSONDecoder"]
    assert decoder.docstring == inspect.cleandoc(json.decoder.JSONDecoder.__doc__ or "").strip()
    assert decoder.parameters == list(inspect.signature(json.decoder.JSONDecoder).parameters)
    assert "raw_decode" in {name.rpartition(".")[2] for name in found}


def test_neither_tests_nor_other_packages_are_read(lock: Path) -> None:
    lock.write_text("packaging==1\n")
    packages = {file.module.split(".")[0] for file in module_files(lock, Counter())}
    assert {"json", "packaging"} <= packages
    assert not {"test", "pytest", "hypothesis", "pip", "setuptools", "bertcore", "numpy"} & packages


def test_differences_are_said_in_one_line(site: Path, lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    monkeypatch.setattr("bertcore.corpus.sources.pydoc.installation.REFERENCE_PYTHON", running)
    lock.write_text("birds==1.1\nmissing==2.0\nwindows-only==1; sys_platform == 'win32'\n")
    (line,) = check_installation(lock)
    assert "birds 1.0 instead of 1.1" in line and "missing 2.0 is not installed" in line and "windows" not in line
    lock.write_text("birds==1.0\n")
    assert check_installation(lock) == []
    monkeypatch.setattr("bertcore.corpus.sources.pydoc.installation.REFERENCE_PYTHON", "2.7")
    assert len(check_installation(lock)) == 1


def test_a_lock_that_pins_nothing_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "requirements.lock"
    with pytest.raises(InputError, match="cannot be read"):
        read_lock(path)
    path.write_text("birds==1.0\nfish>=2\n")
    with pytest.raises(InputError, match=r"requirements.lock:2: found 'fish>=2', expected NAME==VERSION"):
        read_lock(path)


NUMPY = """
    Fit the *linear* model with ``alpha`` and :class:`~birds.Penguin`.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, see the
        `user guide <https://example.org/guide>`_ [1]_.
    X, y : array-like
        The data that the model is fitted to.
    name
        What it is called.

    .. versionadded:: 1.2
       The parameter is new.

    Returns
    -------
    self : object
        The fitted estimator.

    See Also
    --------
    Lasso : Another model that is not described here.

    Examples
    --------
    >>> fit(alpha=1.0)
    3.0

    The result is a number::

        literal = block(of, code)

    ====== =======
    Column Another
    ====== =======
    some   values in a table
    ====== =======
    """


def test_prose_of_a_numpy_docstring() -> None:
    assert prose(inspect.cleandoc(NUMPY)).splitlines() == [
        "Fit the linear model with alpha and Penguin.",
        "alpha: float, default=1.0. Strength of the penalty, see the user guide.",
        "X, y: array-like. The data that the model is fitted to.",
        "name: What it is called.",
        "The parameter is new.",
        "self: object. The fitted estimator.",
        "The result is a number:",
    ]


def test_prose_of_google_sphinx_and_markdown_docstrings() -> None:
    google = """
        Walk over the ice.

        Args:
            speed (float): How fast it goes, in metres per
                second.
            where: The place that it walks to.

        Returns:
            The distance that it went.

        ```python
        walk(speed=1)
        ```
        * a **bold** item of a list
        * another one, see [the guide](https://example.org)
        """
    assert prose(inspect.cleandoc(google)).splitlines() == [
        "Walk over the ice.",
        "speed (float): How fast it goes, in metres per second.",
        "where: The place that it walks to.",
        "The distance that it went.",
        "a bold item of a list",
        "another one, see the guide",
    ]
    sphinx = """
        Walk over the ice.

        :param float speed: how fast
          it goes over the ice
        :raises ValueError: if it cannot walk
        :rtype: float
        """
    assert prose(inspect.cleandoc(sphinx)).splitlines() == [
        "Walk over the ice.",
        "speed (float): how fast it goes over the ice",
        "Raises ValueError: if it cannot walk",
    ]


@given(st.text(alphabet=st.sampled_from(">>>.. :|`*-=\n\t ab[]_@$"), max_size=200))
def test_prose_is_clean_whatever_the_layout(text: str) -> None:
    for line in prose(inspect.cleandoc(text)).splitlines():
        assert line == " ".join(line.split()) and len(line.split()) >= 3
        assert "`" not in line and not line.startswith(">>>")


@given(st.lists(st.sampled_from(["the", "penguin", "walks", "over", "ice", "eats", "fish"]), min_size=4, max_size=40))
def test_plain_paragraphs_are_only_unwrapped(words: list[str]) -> None:
    text = "Here " + " ".join(words) + "."
    assert prose("\n".join(textwrap.wrap(text, 30))) == text


def test_english() -> None:
    assert is_english("The penguin is a bird that cannot fly over the ice of the south.")
    assert not is_english("Пингвины это птицы которые не умеют летать")
    assert not is_english("int32 float64 uint8 int16 complex64 bool8 object0 str0 bytes0 void0 int8 uint16 float16")
