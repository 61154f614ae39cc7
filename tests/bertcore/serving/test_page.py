"""The page in a real browser, where there is one: what is asked is answered, and no text becomes markup."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bertcore.serving.conftest import Server, Starter

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MARKUP = "<img src=x onerror=\"document.title='broken'\"><b>cat</b>"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; skipped where it, or playwright, is not installed."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    """The page, whose console says nothing and which asks no other host."""
    opened = browser.new_page(viewport={"width": 1100, "height": 800})
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on(
        "request", lambda request: said.append(request.url) if not request.url.startswith(server.address) else None
    )
    opened.goto(server.address)
    opened.wait_for_selector('[role="tab"]')
    yield opened
    opened.close()
    assert [line for line in said if "422" not in line] == []


def ask(page: Any, tab: str, **values: str) -> str:
    """The text of the results."""
    page.get_by_role("tab", name=tab).click()
    for name, value in values.items():
        page.fill(f"#field-{name}", value)
    page.click("#send")
    page.wait_for_selector("#results > *, #status.wrong")
    return str(page.inner_text("#results"))


def test_every_use_answers(page: Any) -> None:
    tabs = page.locator('[role="tab"]').all_inner_texts()
    assert not page.is_visible("#token") and not page.is_visible("#second")  # nothing to choose from
    assert tabs == ["Fill in", "Classify", "Tag", "Answer", "Choose", "Search", "Compare"]
    assert page.locator(".row").count() == 0 and "%" in ask(page, "Fill in", text="the [MASK] cat")
    assert page.locator(".row").count() == 5
    assert {"red", "green", "blue"} <= set(ask(page, "Classify", text="the red cat").split())
    assert "the red cat" in ask(page, "Search", query="the red cat").splitlines()[0]
    assert float(ask(page, "Compare", text="red", pair="red").splitlines()[-1]) > 0.999
    assert "a cat" in ask(page, "Choose", context="the red cat", choices="a cat\n\nthe river")
    assert page.locator(".row").count() == 2
    context = "\U0001f408 the red cat is on the table"
    shown = [line for line in ask(page, "Answer", question="what colour", context=context).splitlines() if line]
    assert page.locator("mark").count() == 1
    marked = page.locator("mark").evaluate("mark => mark.firstChild.textContent")
    assert shown[1] == marked and marked in context  # also behind a character of two halves


def test_two_models_side_by_side(page: Any) -> None:
    page.get_by_role("tab", name="Compare").click()
    page.select_option("#second", "tags")
    ask(page, "Compare")
    page.wait_for_selector("#results > *")
    page.select_option("#second", "tags")
    page.click("#send")
    page.wait_for_selector("#results > :nth-child(2)")
    assert page.locator("#results h2").all_inner_texts() == ["encoder", "tags"]


def test_text_never_becomes_markup(page: Any) -> None:
    for tab, values in (
        ("Fill in", {"text": MARKUP + "[MASK]"}),
        ("Tag", {"text": MARKUP}),
        ("Answer", {"question": MARKUP, "context": MARKUP}),
    ):
        ask(page, tab, **values)
        assert page.locator("#results img, #results b").count() == 0
    assert page.title() == "bertcore"
    assert "found no [MASK]" in (ask(page, "Fill in", text=MARKUP) or page.inner_text("#status"))
    assert page.locator("#status img").count() == 0 and page.title() == "bertcore"


def test_keys_are_enough(page: Any) -> None:
    page.get_by_role("tab", name="Fill in").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator('[aria-selected="true"]').inner_text() == "Classify"
    page.keyboard.press("End")
    assert page.locator('[aria-selected="true"]').inner_text() == "Compare"
    page.keyboard.press("Home")
    page.focus("#field-text")
    page.fill("#field-text", "a [MASK]")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".row")
    assert page.locator("#field-text").input_value() == "a [MASK]"


def test_a_narrow_screen_needs_no_scrolling_to_the_side(page: Any) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    for tab, values in (("Fill in", {"text": "x" * 200 + "[MASK]"}), ("Tag", {"text": "y" * 200})):
        ask(page, tab, **values)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_token_is_asked_for(browser: Any, start: Starter) -> None:
    server = start("colours", token="right")
    page = browser.new_page()
    page.goto(server.address)
    page.wait_for_selector("#token:visible")
    page.fill("#token", "right")
    page.keyboard.press("Tab")
    page.wait_for_selector('[role="tab"]')
    page.close()
    assert server.end() == 0
