"""Notes in the browser: read, edited beside another tab, told line by line, found, and found to be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from tests.page.browser.kit import LOOKS, PageVillage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from playwright.async_api import Route

    from tests.page.browser.kit import BrowserTab

    Visit = Callable[..., Awaitable[BrowserTab]]

NOTE = "memory/2026-01-26.md"
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def village(tmp_path: Path) -> PageVillage:
    made = PageVillage(tmp_path)
    folder = made.settings.agent("main").workspace
    (folder / "memory").mkdir(parents=True, exist_ok=True)
    (folder / "MEMORY.md").write_text("# Long-term\n\n- Alice drinks jasmine tea\n- The spare key is with Ben\n")
    (folder / NOTE).write_text(f"# 2026-01-26\n\nWe chose REST over GraphQL\n{EVIL}\nالمفتاح تحت الأصيص\n")
    return made


@pytest.mark.parametrize("look", LOOKS)
async def test_the_memory_as_it_looks(village: PageVillage, visit: Visit, look: str) -> None:
    async with village.page() as served:
        tab = await visit(served, look)
        for route, name in (
            ("memory", "memory"),
            (f"memory/file?path={NOTE}", "memory-note"),
            (f"memory/lines?path={NOTE}", "memory-lines"),
            ("memory/search?q=jasmine&line=MEMORY.md:4", "memory-search"),
        ):
            await tab.go(route, title="Memory")
            await tab.check(name)
        await tab.go("memory/journal", title="Memory")
        await tab.page.get_by_role("button", name="Show").first.click()
        await tab.page.locator(".diff").wait_for()
        await tab.check("memory-journal")
        assert await tab.page.locator("main img").count() == 0


@pytest.mark.parametrize("look", ["desktop-light", "phone-dark"])
async def test_two_tabs_edit_one_note_and_nothing_typed_is_lost(village: PageVillage, visit: Visit, look: str) -> None:
    async with village.page() as served:
        tab, other = await visit(served, look), await served.tab()
        await tab.go(f"memory/file?path={NOTE}", title="Memory")
        text = tab.page.get_by_label("Text")
        await text.fill("mine\n")
        present = await other.call("memory.read", agent="main", path=NOTE)
        await other.call("memory.write", agent="main", path=NOTE, text="theirs\n", expected=present["hash"])
        await tab.page.get_by_text("changed elsewhere").wait_for()
        assert await text.input_value() == "mine\n"
        await tab.page.locator(".diff", has_text="-theirs").wait_for()
        await tab.check("memory-conflict")
        await tab.page.reload()
        await tab.page.get_by_text("changed elsewhere").wait_for()
        assert await text.input_value() == "mine\n"
        await tab.page.get_by_role("button", name="Save mine over it").click()
        await tab.page.get_by_text("Saved.").wait_for()
        assert (await other.call("memory.read", agent="main", path=NOTE))["text"] == "mine\n"
        await tab.page.get_by_role("link", name="Changes").click()
        await tab.page.get_by_role("button", name="Show").first.click()
        await tab.page.get_by_role("button", name="Undo this change").click()
        await tab.page.get_by_text("undo of").wait_for()
        await expect(tab.page.get_by_role("button", name="Undone")).to_be_disabled()
        assert (await other.call("memory.read", agent="main", path=NOTE))["text"] == "theirs\n"


async def test_two_tabs_of_one_browser_keep_what_each_has_typed(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served)
        await tab.go(f"memory/file?path={NOTE}", title="Memory")
        text = tab.page.get_by_label("Text")
        await text.fill("typed in the first\n")
        second = await tab.context.new_page()
        await second.goto(f"{served.base}/#/memory/file?path={NOTE}")
        beside = second.get_by_label("Text")
        await beside.wait_for()
        assert await beside.input_value() == "typed in the first\n"
        await beside.fill("typed in the second\n")
        await second.get_by_role("button", name="Save", exact=True).click()
        await second.get_by_text("Saved.").wait_for()
        await tab.page.get_by_text("changed elsewhere").wait_for()
        await tab.page.reload()
        await tab.page.get_by_text("changed elsewhere").wait_for()
        assert await text.input_value() == "typed in the first\n"
        await second.reload()
        await beside.wait_for()
        assert await beside.input_value() == "typed in the second\n"


async def test_an_expired_cookie_loses_nothing_that_was_typed(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served)
        await tab.go(f"memory/file?path={NOTE}", title="Memory")
        await tab.page.get_by_label("Text").fill("typed for an hour\n")
        tab.expected.append("401")
        await served.house.page.revoke("all")
        await tab.page.get_by_role("button", name="Save", exact=True).click()
        await tab.page.get_by_text("not let in any more").first.wait_for()
        made = await served.house.page.open()
        await tab.page.goto(f"{served.base}/enter#{made['code']}")
        await tab.page.wait_for_url(f"{served.base}/")
        await tab.page.locator("#navigation").wait_for(state="attached")
        await tab.go(f"memory/file?path={NOTE}", title="Memory")
        assert await tab.page.get_by_label("Text").input_value() == "typed for an hour\n"
        await tab.page.get_by_role("button", name="Save", exact=True).click()
        await tab.page.get_by_text("Saved.").wait_for()


async def test_a_save_whose_answer_was_lost_is_no_change_by_somebody_else(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served)
        tab.expected.append("ERR_FAILED")
        await tab.go(f"memory/file?path={NOTE}", title="Memory")

        async def unanswered(route: Route) -> None:
            await route.fetch()
            await route.abort()

        await tab.page.route("**/page/call/memory.write", unanswered)
        await tab.page.get_by_label("Text").fill("saved in the last moment\n")
        await tab.page.get_by_role("button", name="Save", exact=True).click()
        save = tab.page.get_by_role("button", name="Save", exact=True)
        await expect(save).to_be_disabled()  # the file is as it was typed: nothing is left to be saved
        await tab.page.reload()
        await save.wait_for()
        await expect(save).to_be_disabled()
        assert await tab.page.get_by_label("Text").input_value() == "saved in the last moment\n"
        assert await tab.page.get_by_text("changed elsewhere").count() == 0


async def test_a_new_note_is_made_by_keyboard_alone(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("memory", title="Memory")
        await tab.page.get_by_role("button", name="New note").focus()
        await tab.page.keyboard.press("Enter")
        path = tab.page.get_by_label("Path")
        await path.wait_for()
        await path.fill("memory/garden.md")
        await tab.page.keyboard.press("Enter")
        text = tab.page.get_by_label("Text")
        await text.wait_for()
        await text.focus()
        await tab.page.keyboard.type("Beans")
        await tab.page.keyboard.press("Control+s")
        await tab.page.get_by_text("Saved.").wait_for()
        assert (village.settings.agent("main").workspace / "memory/garden.md").read_text() == "Beans"
        await tab.page.get_by_role("button", name="Delete").click()
        await tab.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await tab.page.get_by_role("button", name="New note").wait_for()
        assert await tab.page.get_by_role("link", name="memory/garden.md").count() == 0


async def test_a_line_that_was_not_found_says_why(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served, "phone-light")
        await tab.go("memory/search", title="Memory")
        await tab.page.get_by_label("Question or words").fill("jasmine")
        await tab.page.get_by_label("Why is this line missing?").fill(f"{NOTE}:3")
        await tab.page.get_by_role("button", name="Search").click()
        await tab.page.get_by_text("shares no distinctive word").wait_for()
        await tab.check("memory-missing")


async def test_a_note_of_5_mb_does_not_freeze_the_page(village: PageVillage, visit: Visit) -> None:
    workspace = village.settings.agent("main").workspace
    (workspace / "memory/long.md").write_text("".join(f"line {n} of a long note\n" for n in range(200_000)))
    async with village.page() as served:
        tab = await visit(served)
        await tab.page.evaluate(_WATCH)
        await tab.go("memory/file?path=memory/long.md", title="Memory")
        await tab.page.get_by_text("are only read here").wait_for()
        await tab.page.get_by_role("button", name="Next page").first.click()
        await tab.page.get_by_text("from line 2,").first.wait_for()
        assert await tab.page.get_by_role("button", name="Save").count() == 0
        longest: Any = await tab.page.evaluate("() => window.longest")
        assert longest < 3000, f"the page stood still for {longest:.0f} ms"
        await tab.check("memory-long")


_WATCH = """() => {
  window.longest = 0;
  let last = performance.now();
  setInterval(() => { const now = performance.now(); window.longest = Math.max(window.longest, now - last); last = now; }, 20);
}"""


async def test_a_viewer_reads_and_is_offered_no_change(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served, "phone-dark", viewer=True)
        await tab.go(f"memory/file?path={NOTE}", title="Memory")
        await tab.page.locator("pre.note").wait_for()
        assert await tab.page.get_by_role("button", name="Save").count() == 0
        await tab.go("memory", title="Memory")
        assert await tab.page.get_by_role("button", name="New note").count() == 0
        await tab.check("memory-viewer")
