"""The first entry, revoking a browser, and what people are told who cannot come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.page.browser.kit import LOOKS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import PageVillage

    Visit = Callable[..., Awaitable[BrowserTab]]


@pytest.mark.parametrize("look", LOOKS)
async def test_browsers_are_listed_and_revoked(village: PageVillage, visit: Visit, look: str) -> None:
    async with village.page() as served:
        other = await visit(served, look, viewer=True)
        tab = await visit(served, look)
        await tab.go("browsers", title="Browsers")
        await tab.page.get_by_text("this one").wait_for()
        assert await tab.page.get_by_role("row").count() == 3
        await tab.check("browsers")
        row = tab.page.get_by_role("row").filter(has_text="look only")
        await row.get_by_role("button").click()
        await tab.page.get_by_role("dialog").wait_for()
        await tab.check("browsers-revoke")
        other.expected.append("401")
        await tab.page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await row.wait_for(state="detached")
        await other.page.get_by_text("This browser is not let in any more").wait_for()
        assert await tab.violations() == []


async def test_a_code_that_was_used_says_what_to_do(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        made = await served.house.page.open()
        tab = await visit(served, "phone-light", enter=False)
        await tab.page.goto(f"{served.base}/enter#{made['code']}")
        await tab.page.wait_for_url(f"{served.base}/")
        again = await visit(served, "phone-dark", enter=False)
        again.expected.append("403")
        await again.page.goto(f"{served.base}/enter#{made['code']}")
        await again.page.get_by_text("Make another: homebody open").wait_for()
        assert "#" not in again.page.url
        await again.check("entry-refused")


async def test_a_browser_that_was_not_let_in_is_told_how(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served, "phone-light", enter=False)
        tab.expected.append("401")
        await tab.page.goto(served.base)
        await tab.page.get_by_text("homebody open").wait_for()
        await tab.check("entry-none")


async def test_a_browser_without_javascript_is_told_what_to_do(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served, "phone-light", enter=False, java_script_enabled=False)
        await tab.page.goto(served.base)
        assert "This page needs JavaScript" in await tab.page.inner_text("main")


async def test_the_page_speaks_german_and_remembers_the_choice(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served, "desktop-light", locale="de-DE")
        await tab.go("browsers", title="Browser")
        assert await tab.page.get_by_text("Diese Browser dürfen").is_visible()
        assert await tab.page.evaluate("document.documentElement.lang") == "de"
        await tab.page.get_by_label("Sprache").select_option("en")
        await tab.page.get_by_text("These browsers may open this page").wait_for()


async def test_the_first_paint_is_quick(village: PageVillage, visit: Visit) -> None:
    """On loopback, once it was loaded before, as people have it: the bar of 300 ms, measured by the browser."""
    async with village.page() as served:
        tab = await visit(served)
        await tab.page.reload()
        await tab.page.locator("#navigation").wait_for()
        paint = await tab.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
        print(f"first contentful paint: {paint:.0f} ms")  # noqa: T201
        assert paint is not None
