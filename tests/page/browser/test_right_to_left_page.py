"""Text that is written from right to left: shown in its own direction between others, and the whole page turned round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.page.world import fill

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import PageVillage

    Visit = Callable[..., Awaitable[BrowserTab]]

ARABIC = "أين المفتاح الاحتياطي؟"
HEBREW = (
    "המפתח **מתחת לעציץ** הכחול.\n\n1. לך למרפסת\n2. הרם את העציץ\n\nAn English paragraph.\n\n"
    "| מה | איפה |\n|---|---|\n| מפתח | עציץ |"
)
NAME = "رحلة"
STARTS = """one => { const range = document.createRange(); range.selectNodeContents(one);
  const [first] = range.getClientRects(), box = one.getBoundingClientRect();
  return Math.abs(first.left - box.left) < Math.abs(box.right - first.right) ? "left" : "right"; }"""


@pytest.mark.parametrize("look", ["desktop-light", "phone-dark"])
async def test_messages_notes_and_names_have_their_own_direction(village: PageVillage, visit: Visit, look: str) -> None:
    village.model.then(HEBREW)
    folder = village.settings.agent("main").workspace
    (folder / "memory").mkdir(parents=True, exist_ok=True)
    (folder / "memory/مفاتيح.md").write_text(f"{ARABIC}\nplain English\n")
    async with village.page() as served:
        tab, other = await visit(served, look), await served.tab()
        await tab.go(f"chat/agent:main:{NAME}", title="Chat")
        box = tab.page.get_by_label("Message", exact=True)
        await box.fill(ARABIC)
        assert await box.evaluate("one => getComputedStyle(one).direction") == "rtl"
        await tab.page.get_by_role("button", name="Send").click()
        await tab.page.locator(".bubble.theirs strong").wait_for()
        await tab.page.locator(".growing").wait_for(state="detached")
        mine = tab.page.locator(".bubble.mine .said, .bubble.mine .markdown")
        assert await mine.evaluate("one => getComputedStyle(one).direction") == "rtl"
        answer = tab.page.locator(".bubble.theirs .markdown")
        assert await answer.evaluate("one => getComputedStyle(one).direction") == "rtl"
        assert await answer.locator("p").first.evaluate(STARTS) == "right"
        assert await answer.locator("p", has_text="An English").evaluate(STARTS) == "left"
        assert await tab.page.locator("header.top").evaluate("one => getComputedStyle(one).direction") == "ltr"
        await tab.check("rtl-chat")
        await tab.go("memory/file?path=memory/مفاتيح.md", title="Memory")
        assert await tab.page.get_by_label("Text").evaluate("one => getComputedStyle(one).unicodeBidi") == "plaintext"
        await tab.check("rtl-note")
        await other.call("jobs.add", when="every day at 7", text=ARABIC, name=NAME)
        await tab.go("schedule", title="Schedule")
        await tab.page.get_by_role("heading", name=NAME).wait_for()
        await tab.check("rtl-schedule")
        await tab.go("sessions", title="Conversations")
        await tab.page.get_by_text(ARABIC).first.wait_for()
        await tab.check("rtl-sessions")


@pytest.mark.parametrize("look", ["desktop-light", "phone-dark"])
async def test_the_whole_page_can_be_turned_round(village: PageVillage, visit: Visit, look: str) -> None:
    """The page has no such language yet; its layout is ready for one."""
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served, look)
        await tab.page.evaluate("() => { document.documentElement.dir = 'rtl'; }")
        for name in (
            "chat",
            "memory",
            "approvals",
            "schedule",
            "context",
            "sessions",
            "costs",
            "health",
            "settings",
            "browsers",
        ):
            await tab.go(name)
            await tab.check(f"turned-{name}")
        if "desktop" in look:
            at = await tab.page.locator("#navigation").evaluate("one => one.getBoundingClientRect().right")
            assert at == await tab.page.evaluate("() => document.documentElement.clientWidth")
