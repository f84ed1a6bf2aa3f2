"""A question that is asked while nobody looks at the page is told by a notification, once in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.messages import ToolCall

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import Page

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import PageVillage, ServedPage

    Visit = Callable[..., Awaitable[BrowserTab]]

NOTES_DOWN = """
window.made = [];
window.Notification = class extends window.Notification {
  constructor(title, options) { super(title, options); window.made.push([title, options.body, options.tag]); }
};
window.hide = (hidden) => {
  Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
};
"""
"""Notes notifications down, and hides the page as another window before it would: a browser without a screen hides none."""


async def made(*pages: Page) -> list[Any]:
    return [one for page in pages for one in await page.evaluate("() => window.made")]


async def ask(village: PageVillage, served: ServedPage, session: str, key: str) -> None:
    village.model.then([ToolCall(id=key, name="exec", arguments={"command": f"touch {key}"})])
    other = await served.tab()
    await other.call("chat.say", session=session, text="do it", key=key * 16)
    for _ in range(200):
        if any(key in one["command"] for one in (await other.call("approvals.list"))["approvals"]):
            return
    raise AssertionError("nothing was asked")


async def test_a_question_is_notified_once_while_no_tab_is_looked_at(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served, permissions=["notifications"])
        await tab.context.add_init_script(NOTES_DOWN)
        await tab.page.reload()
        await tab.go("chat", title="Chat")
        second = await tab.context.new_page()
        await second.goto(f"{served.base}/#/memory")
        await second.get_by_role("heading", level=1, name="Memory").wait_for()
        assert await tab.page.evaluate("() => Notification.permission") == "granted"

        # While a person looks at the page, it is only shown there.
        await ask(village, served, "agent:main:main", "a")
        await tab.page.locator(".buttons button").first.wait_for()
        assert await made(tab.page, second) == []

        await tab.page.evaluate("() => hide(true)")
        await second.evaluate("() => hide(true)")
        await ask(village, served, "agent:main:other", "b")
        await second.wait_for_function("() => window.made.length > 0")
        await tab.page.wait_for_timeout(1500)
        told = await made(tab.page, second)
        names = [name for *_, name in told]
        assert len(names) == len(set(names)), told
        assert all(title == "Homebody asks you" for title, *_ in told)
        assert any("touch b" in body for _, body, _ in told), told
        assert await tab.page.evaluate("() => window.made.length") == 0, "the tab that was looked at last tells it"


async def test_nothing_is_notified_while_another_window_is_looked_at(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served, permissions=["notifications"])
        await tab.context.add_init_script(NOTES_DOWN)
        await tab.page.reload()
        await tab.go("memory", title="Memory")
        second = await tab.context.new_page()  # a window beside the first: that one reads the stream, and is covered
        await second.goto(f"{served.base}/#/chat")
        await second.get_by_role("heading", level=1, name="Chat").wait_for()
        await tab.page.evaluate("() => hide(false)")
        await tab.page.evaluate("() => hide(true)")
        await ask(village, served, "agent:main:main", "c")
        await ask(village, served, "agent:main:third", "e")  # two questions wait, each of which asks whether somebody looks
        await second.locator(".buttons button").first.wait_for()
        await tab.page.wait_for_timeout(1200)
        assert await made(tab.page, second) == []
        await second.close()
        await ask(village, served, "agent:main:other", "d")
        await tab.page.wait_for_function("() => window.made.length > 0")


async def test_the_permission_is_asked_for_in_the_menu_and_only_there(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served, "phone-light")
        await tab.go("chat", title="Chat")
        asks = tab.page.get_by_role("button", name="Notify me of questions")
        assert await asks.is_hidden()
        head = await tab.page.locator(".chat .head").evaluate("one => one.getBoundingClientRect().height")
        assert head < 60, "the head of Chat has one line on a phone"
        await tab.page.get_by_role("button", name="Menu").click()
        await asks.wait_for()
        await tab.context.grant_permissions(["notifications"], origin=served.base)
        await asks.click()
        await asks.wait_for(state="detached")
