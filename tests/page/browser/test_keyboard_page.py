"""One story by the keyboard alone: no event of a mouse or a finger reaches the page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agent.messages import ToolCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import Locator, Route

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import PageVillage

    Visit = Callable[..., Awaitable[BrowserTab]]

POINTED: str = """() => {
  window.pointed = [];
  for (const kind of ["pointerdown", "mousedown", "touchstart"])
    addEventListener(kind, (event) => window.pointed.push(kind), true);
}"""
NARROW = {"width": 360, "height": 740}


async def reach(tab: BrowserTab, wanted: Locator, key: str = "Tab") -> None:
    """Go on with Tab until the control has the focus, which must then be seen."""
    await wanted.wait_for()
    for _ in range(120):
        if await wanted.evaluate("one => one === document.activeElement"):
            assert await wanted.evaluate(
                "one => one.matches(':focus-visible') && getComputedStyle(one).outlineStyle !== 'none'"
            )
            return
        await tab.page.keyboard.press(key)
    raise AssertionError(f"{wanted} is not reached with {key}")


async def focused(tab: BrowserTab) -> str:
    return str(await tab.page.evaluate("() => (document.activeElement.ariaLabel || document.activeElement.textContent).trim()"))


async def choose(tab: BrowserTab, name: str) -> None:
    """Open the menu and go to a page."""
    await reach(tab, tab.page.get_by_role("button", name="Menu"), "Shift+Tab")
    await tab.page.keyboard.press("Enter")
    await reach(tab, tab.page.locator("#navigation").get_by_role("link", name=name))
    await tab.page.keyboard.press("Enter")
    await tab.page.get_by_role("heading", level=1, name=name).wait_for()
    await tab.settled()
    await tab.page.wait_for_function("() => document.activeElement.id === 'title'")


async def approve(tab: BrowserTab) -> None:
    """Press the first button of a question. What was chosen is shown until the conversation, which is asked for then, has the decision."""
    await reach(tab, tab.page.locator(".buttons button").first, "Shift+Tab")
    seen = asyncio.Event()

    async def then(route: Route) -> None:
        await seen.wait()
        await route.continue_()

    await tab.page.route("**/page/call/chat.history", then)
    await tab.page.keyboard.press("Enter")
    await tab.page.get_by_text("You chose").wait_for()
    seen.set()
    await tab.page.get_by_text("Decision: approved").wait_for()


async def test_a_person_writes_answers_and_edits_by_keyboard_alone(village: PageVillage, visit: Visit) -> None:
    village.model.then([ToolCall(id="c1", name="exec", arguments={"command": "touch made-by-yes"})], "Done, it is made.")
    folder = village.settings.agent("main").workspace
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "MEMORY.md").write_text("Tea\n")
    async with village.page() as served:
        tab = await visit(served, "desktop-light", viewport=NARROW)
        await tab.go("chat", title="Chat")
        await tab.page.evaluate(POINTED)
        keys = tab.page.keyboard

        # The first control leads over the navigation.
        await reach(tab, tab.page.get_by_role("link", name="To the content"))
        assert await tab.page.get_by_role("link", name="To the content").evaluate("one => one.getBoundingClientRect().top") >= 0
        await keys.press("Enter")
        assert await focused(tab) == "Chat"

        # The menu is closed by Escape, and the focus is where it was.
        await reach(tab, tab.page.get_by_role("button", name="Menu"), "Shift+Tab")
        await keys.press("Enter")
        await reach(tab, tab.page.get_by_role("link", name="Memory"))
        await tab.check("chat-menu")
        await keys.press("Escape")
        await tab.page.get_by_role("link", name="Memory").wait_for(state="hidden")
        assert await focused(tab) == "Menu"

        # So is a dialog, which keeps the focus while it is open.
        await reach(tab, tab.page.get_by_role("button", name="New: Conversation"))
        await keys.press("Enter")
        await tab.page.get_by_role("dialog").wait_for()
        for _ in range(8):
            assert await tab.page.evaluate(
                "() => document.activeElement.closest('dialog') || document.activeElement === document.body"
            )
            await keys.press("Tab")
        await keys.press("Escape")
        await tab.page.get_by_role("dialog").wait_for(state="detached")
        assert await focused(tab) == "New: Conversation"

        # A message is written and sent, and the question that comes of it is answered.
        await reach(tab, tab.page.get_by_label("Message", exact=True))
        await keys.type("make the file")
        await keys.press("Enter")
        await approve(tab)
        await tab.page.locator(".bubble.theirs", has_text="Done, it is made.").wait_for()
        assert (village.workspace / "made-by-yes").exists()

        # A note is edited and saved.
        await choose(tab, "Memory")
        await reach(tab, tab.page.get_by_role("link", name="MEMORY.md", exact=True))
        await keys.press("Enter")
        text = tab.page.get_by_label("Text")
        await reach(tab, text)
        await keys.press("Control+Home")
        await keys.type("Jasmine ")
        await reach(tab, tab.page.get_by_role("button", name="Save", exact=True))
        await keys.press("Enter")
        await tab.page.get_by_text("Saved.").wait_for()
        assert (folder / "MEMORY.md").read_text() == "Jasmine Tea\n"
        assert await tab.page.evaluate("() => window.pointed") == []


async def test_each_page_is_walked_through_without_a_trap(village: PageVillage, visit: Visit) -> None:
    """Tab leads through all controls of each page and out of it again."""
    async with village.page() as served:
        tab = await visit(served)
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
            await tab.page.evaluate(
                "() => { document.activeElement.blur(); document.body.tabIndex = -1; document.body.focus(); }"
            )
            controls = await tab.page.evaluate(
                "() => [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex=\"0\"]')]"
                ".filter(one => !one.disabled && one.tabIndex >= 0 && one.checkVisibility({visibilityProperty: true})).length"
            )
            seen = set()
            for _ in range(controls + 12):
                await tab.page.keyboard.press("Tab")
                seen.add(
                    await tab.page.evaluate(
                        "() => { const one = document.activeElement; return one.dataset.walk ||= String(performance.now()); }"
                    )
                )
            assert len(seen) >= controls, (name, len(seen), controls)
