"""docs/architecture.md names every module, in its own words."""

from pathlib import Path

import pytest

from tasks import module_reference
from tests.import_closure import ROOT

MODULES = [path for package in module_reference.PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_page_is_current() -> None:
    committed = (ROOT / module_reference.PAGE).read_text(encoding="utf-8")
    assert committed == module_reference.page(), "write it anew: make docs"


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in MODULES if path.stat().st_size and not module_reference._summary(path)]
    assert silent == []


def test_the_first_sentence_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text('"""Words of `a.b`, at 0.5 of\nthem (see c.py). More of it.\n\nAnd more."""\n')
    assert module_reference._summary(path) == "Words of `a.b`, at 0.5 of them (see c.py)"
    path.write_text("VALUE = 1\n")
    assert module_reference._summary(path) == ""
