"""Drives the page in Debian's Chromium: lets it in, looks at it as people do, and has axe-core look for what keeps people out.

A test asks for ``visit``, and opens the page on a house of its own::

    async def test_something(village, visit):
        async with village.page() as served:
            tab = await visit(served, "phone-dark")
            await tab.go("memory")
            await tab.page.get_by_role("button", name="Save").click()
            await tab.check("memory")          # axe-core, and nothing in the console; a picture if they are wanted

Every tab that was opened is looked at once more at its end: a line in the console fails the test.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest_asyncio
from playwright.async_api import async_playwright

from tests.page.conftest import PageVillage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from playwright.async_api import Browser, BrowserContext, Page

    from tests.page.conftest import ServedPage

ROOT: Final = Path(__file__).resolve().parents[3]
AXE: Final = ROOT / ".cache/axe/package/axe.min.js"
PICTURES: Final = os.environ.get("PAGE_PICTURES")
"""The folder for pictures; without it none are made."""
LOOKS: Final[dict[str, dict[str, Any]]] = {
    f"{size}-{scheme}": {"viewport": {"width": width, "height": height}, "color_scheme": scheme, "has_touch": size == "phone"}
    for size, width, height in (("desktop", 1200, 800), ("phone", 360, 740))
    for scheme in ("light", "dark")
}
GATEWAY_GONE: Final = [
    "ERR_CONNECTION_REFUSED",
    "ERR_CONNECTION_RESET",
    "ERR_EMPTY_RESPONSE",
    "ERR_INCOMPLETE_CHUNKED_ENCODING",
    "ERR_SOCKET_NOT_CONNECTED",
]
"""What a browser says when the house of a test was closed before it."""
PATIENCE_MS: Final = 20_000
_RULES: Final = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],  # all rules run; what they pass is not listed, which takes longer than the rules
}
_VIOLATIONS: Final = """async rules => {
  const ending = document.getAnimations().filter(one => one.effect.getComputedTiming().iterations !== Infinity);
  await Promise.allSettled(ending.map(one => one.finished));  // a colour on its way to another one has no contrast of its own
  return (await axe.run(document, rules)).violations.flatMap(one => one.nodes.map(node =>
    `${one.id}: ${one.help}: ${node.html.slice(0, 200)} ${(node.failureSummary || "").slice(0, 300)}`));
}"""


@dataclass
class BrowserTab:
    """A tab that shows the page. ``expected`` are parts of console lines that a test causes on purpose."""

    page: Page
    context: BrowserContext
    served: ServedPage
    look: str
    lines: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    async def go(self, route: str = "", *, title: str | None = None) -> None:
        """Open a part of the page, such as ``memory/notes/x.md``, and wait until it has its heading."""
        await self.page.evaluate("route => { location.hash = '#/' + route; }", route)
        heading = self.page.locator("h1#title") if title is None else self.page.get_by_role("heading", level=1, name=title)
        await heading.wait_for()
        await self.settled()

    async def settled(self) -> None:
        """Wait until nothing is being loaded or done."""
        await self.page.wait_for_function("() => !document.querySelector('.loading, [aria-busy=true]')")

    async def check(self, name: str) -> None:
        """Look for what keeps people out, for what does not fit, and for lines in the console; make a picture if they are wanted."""
        await self.settled()
        if PICTURES:
            await self.page.screenshot(path=Path(PICTURES) / f"page-{name}-{self.look}.png")
        wide = await self.page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{name} is {wide} pixels wider than the {self.look} screen"
        found = await self.violations()
        assert found == [], f"{name}: {found}"
        assert self.unexpected() == [], name

    async def violations(self) -> list[str]:
        """Return what axe-core finds, each as one text."""
        if not await self.page.evaluate("() => 'axe' in window"):
            await self.page.evaluate(AXE.read_text("utf-8"))
        found: list[str] = await self.page.evaluate(_VIOLATIONS, _RULES)
        return found

    def unexpected(self) -> list[str]:
        """Return the console lines that nobody asked for."""
        return [line for line in self.lines if not any(part in line for part in self.expected)]


def chromium() -> str:
    """Return where the browser is."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert path is not None, "chromium is not installed"
    return path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def screen() -> AsyncIterator[Browser]:
    """A browser without a screen, for all tests of a worker: each opens profiles of its own in it (``new_context``)."""
    async with async_playwright() as driver:
        flags = ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
        browser = await driver.chromium.launch(executable_path=chromium(), args=flags)
        try:
            yield browser
        finally:
            await browser.close()


Visit = "Callable[..., Awaitable[BrowserTab]]"


@pytest_asyncio.fixture(loop_scope="session")
async def visit(screen: Browser) -> AsyncIterator[Callable[..., Awaitable[BrowserTab]]]:
    """What opens the page in a browser of its own, as it looks on a desktop or a phone, in a light or dark scheme."""
    opened: list[BrowserTab] = []

    async def open_tab(
        served: ServedPage, look: str = "desktop-light", *, viewer: bool = False, enter: bool = True, **more: Any
    ) -> BrowserTab:
        context = await screen.new_context(**{"locale": "en-GB", "timezone_id": "UTC", **LOOKS[look], **more})
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        tab = BrowserTab(page, context, served, look)
        page.on("console", lambda message: tab.lines.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: tab.lines.append(f"pageerror: {error}"))
        opened.append(tab)
        if enter:
            made = await served.house.page.open(viewer=viewer)
            await page.goto(f"{served.base}/enter#{made['code']}")
            await page.wait_for_url(f"{served.base}/")
            await page.locator("#navigation, h1").first.wait_for(state="attached")
        return tab

    yield open_tab
    for tab in opened:
        tab.expected += GATEWAY_GONE
        lines = tab.unexpected()
        await tab.context.close()
        assert lines == [], lines


__all__ = ["LOOKS", "BrowserTab", "PageVillage", "chromium", "screen", "visit"]
