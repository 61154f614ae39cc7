"""docs/params.md says what the code says, of every key."""

from dataclasses import dataclass, field
from typing import Literal

from tasks import params_reference
from tasks.params_reference import documented
from tests.import_closure import ROOT


@dataclass(frozen=True, kw_only=True)
class Inner:
    """What is inside."""

    share: float | None = None
    """Of a | b; None = all."""


@dataclass(frozen=True, kw_only=True)
class Base:
    """The first line.

    What is not shown.
    """

    given: int
    """A
    number."""
    names: list[str] = field(default_factory=list)
    """Names."""


@dataclass(frozen=True, kw_only=True)
class Outer(Base):
    """The outer one."""

    names: list[str] | str = field(default_factory=list)
    kind: Literal["a", "b"] = "a"
    """Which."""
    inner: Inner = field(default_factory=Inner)
    """More."""


def test_the_page_is_current() -> None:
    committed = (ROOT / params_reference.PAGE).read_text(encoding="utf-8")
    assert committed == params_reference.page(), "write it anew: python -m tasks.params_reference"


def test_every_key_says_what_it_means() -> None:
    sections = [row for row in params_reference.page().splitlines() if row.startswith("| `")]
    assert len(sections) > 100 and [row for row in sections if row.endswith("|  |")] == []


def test_a_section_is_a_table_and_those_of_its_mappings() -> None:
    assert "\n".join(params_reference._section("## `o`", "o", Outer)).splitlines() == [
        "## `o`",
        "",
        "The outer one.",
        "",
        "| key | type | default | meaning |",
        "|:--|:--|:--|:--|",
        "| `given` | integer | required | A number. |",
        "| `names` | list of texts or text | `[]` | Names. |",
        '| `kind` | `a`, `b` | `"a"` | Which. |',
        "| `inner` | mapping | its own | More. |",
        "",
        "### `o.inner`",
        "",
        "What is inside.",
        "",
        "| key | type | default | meaning |",
        "|:--|:--|:--|:--|",
        "| `share` | number or null | `null` | Of a \\| b; null = all. |",
    ]


def test_a_field_without_a_docstring_has_that_of_its_base() -> None:
    assert documented(Outer, "names") == documented(Base, "names") == "Names."
