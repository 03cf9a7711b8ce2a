"""The page in Chromium: drawn, quiet, readable on a desk and on a phone, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from pipeline.report import figures, theme

if TYPE_CHECKING:
    from small_lake import Built

pytestmark = pytest.mark.browser

DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
WAIT_MS = 60_000


@dataclass
class Opened:
    """A page and what it did on the way."""

    page: Page
    trouble: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def browser(chromium_path: Path) -> Iterator[Browser]:
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=str(chromium_path), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def address(built: Built) -> str:
    return built.page.as_uri()


def visit(
    browser: Browser, address: str, size: dict[str, int], scheme: str = "light", zone: str = "UTC"
) -> Opened:
    """Open the page and wait until all charts are drawn."""
    context = browser.new_context(viewport=size, color_scheme=scheme, timezone_id=zone)
    opened = Opened(context.new_page())
    page = opened.page
    page.on("console", lambda message: opened.trouble.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: opened.trouble.append(f"error: {error}"))
    page.on(
        "request", lambda asked: asked.url.startswith(("file:", "data:")) or opened.trouble.append(asked.url)
    )
    page.goto(address)
    page.wait_for_selector("body[data-drawn]", timeout=WAIT_MS)
    return opened


@pytest.fixture(scope="session")
def desk(browser: Browser, address: str) -> Opened:
    return visit(browser, address, DESK)


@pytest.fixture(scope="session")
def phone(browser: Browser, address: str) -> Opened:
    return visit(browser, address, PHONE, scheme="dark")


def test_every_figure_is_drawn(desk: Opened) -> None:
    """Each figure has marks, a name for screen readers and fills its column."""
    for name in figures.names():
        chart = desk.page.locator(f"#chart-{name}")
        assert chart.locator("svg.marks").count() == 1
        assert chart.locator("svg.marks path").count() > 3
        assert chart.get_attribute("role") == "img"
        assert len(chart.get_attribute("aria-label") or "") > 20
        drawn, column = chart.locator("svg.marks").bounding_box(), chart.bounding_box()
        assert drawn and column
        assert 0.9 * column["width"] <= drawn["width"] <= column["width"]


@pytest.mark.parametrize("where", ["desk", "phone"])
def test_no_request_no_error_no_sideways_scroll(where: str, request: pytest.FixtureRequest) -> None:
    """Nothing is asked of a network, the console is empty, and the page is as wide as the window."""
    opened: Opened = request.getfixturevalue(where)
    assert opened.trouble == []
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_charts_fit_a_phone(phone: Opened) -> None:
    """No chart is wider than its box or shrunk to fit."""
    for name in figures.names():
        box = phone.page.locator(f"#chart-{name}")
        inside = box.evaluate(
            "box => { const svg = box.querySelector('svg'); return [svg.getBoundingClientRect().width, "
            "svg.viewBox.baseVal.width, box.clientWidth]; }"
        )
        shown, drawn, room = inside
        assert shown <= room, name
        assert drawn == pytest.approx(shown, abs=1), f"{name} is shrunk"


def test_counts_of_the_data_quality_are_in_view_on_a_phone(phone: Opened) -> None:
    """Long items wrap, so that their counts stand beside them."""
    fits = "document.querySelector('#quality .scroll').scrollWidth <= innerWidth"
    assert phone.page.evaluate(fits)


def test_dark_mode_turns_page_and_charts(desk: Opened, phone: Opened) -> None:
    """The background is dark and the words of charts are light, and the other way round in light."""
    probe = (
        "() => [getComputedStyle(document.body).backgroundColor, "
        "document.querySelector('#chart-repair-time .role-axis-label text').getAttribute('fill')]"
    )
    assert desk.page.evaluate(probe) == ["rgb(255, 255, 255)", theme.SOFT]
    assert phone.page.evaluate(probe) == ["rgb(22, 27, 34)", theme.DARK[theme.SOFT]]


def test_a_change_of_scheme_redraws(browser: Browser, address: str) -> None:
    """The page follows the system without being loaded again."""
    opened = visit(browser, address, DESK)
    ink = "document.querySelector('#chart-repair-time .role-axis-label text').getAttribute('fill')"
    before = opened.page.evaluate(ink)
    opened.page.emulate_media(color_scheme="dark")
    opened.page.wait_for_function(f"{ink} !== '{before}'", timeout=WAIT_MS)
    assert opened.trouble == []


def test_time_axes_are_utc_in_every_zone(browser: Browser, address: str, desk: Opened) -> None:
    """A reader in Tokyo sees the same instants."""
    labels = (
        "[...document.querySelectorAll('#chart-failures-over-time .role-axis-label text')]"
        ".map(label => label.textContent)"
    )
    tokyo = visit(browser, address, DESK, zone="Asia/Tokyo")
    assert tokyo.page.evaluate(labels) == desk.page.evaluate(labels)


def test_the_data_table_is_built_when_opened(desk: Opened) -> None:
    """The table behind a chart has a heading for every column and a row for every datum."""
    for name in figures.names():
        box = desk.page.locator(f'details.data[data-figure="{name}"]')
        assert box.locator("table").count() == 0
        box.locator("summary").click()
        box.locator("tbody tr").first.wait_for(timeout=WAIT_MS)  # `toggle` comes after the click
        assert box.locator("thead th").count() == box.locator("tbody tr").first.locator("td").count()


def test_the_keyboard_reaches_the_answer_first(browser: Browser, address: str) -> None:
    """The first stop of the Tab key is the skip link, and it is visible then."""
    page = visit(browser, address, DESK).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_it_prints(desk: Opened) -> None:
    """The page becomes a PDF with its charts."""
    assert len(desk.page.pdf()) > 50_000
