"""All pages as a German sees them: no English word is left but names, commands, and what people, models and programs wrote."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agent.messages import ToolCall
from tests.page.world import fill

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import PageVillage

    Visit = Callable[..., Awaitable[BrowserTab]]

ROUTES = [
    *("approvals", "approvals/decided", "approvals/rules", "schedule", "context/now", "context/history", "context/flush"),
    *("sessions", "costs", "health", "settings", "browsers", "memory", "memory/journal", "memory/search", "chat"),
]
SECTIONS = ("agents", "channels", "gateway", "messages", "tools")
ENGLISH = re.compile(
    r"\b(the|is|are|of|and|with|not|this|that|which|for|from|has|have|you|your|its|been|there|until|when|by)\b"
    r"|\b(connected|running|waiting|claimed|missing|unknown|pending|approved|denied|failed|required|list|notes)\b",
    re.IGNORECASE,
)
"""Words of English that are no words of German and no values of settings."""
NAMES = re.compile(r"„[^“]*“|\"[^\"]*\"|~?/[\w./-]+|`[^`]*`")
"""What is quoted, and paths."""
THEIRS = (
    "My locker",
    "Good morning",
    "The weather",
    "A letter",
    "Your tea",
    "the chat is gone",
    "Question ",
    "which mit Optionen",
)
"""What ``fill`` has people, models and platforms say."""
SHOWN = """() => {
  const skip = 'code, pre, kbd, .mono, .log, blockquote, option, [data-theirs], .said, .markdown, input, textarea, time';
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const box = node.parentElement;
    if (!box || box.closest(skip) || box.closest('script, style') || !node.data.trim()) continue;
    found.push(node.data.trim().replace(/\\s+/g, ' '));
  }
  for (const one of document.querySelectorAll('[aria-label], [title], [placeholder]')) {
    if (one.closest(skip)) continue;
    for (const name of ['aria-label', 'title', 'placeholder']) if (one.getAttribute(name)) found.push(one.getAttribute(name));
  }
  return [...new Set(found)];
}"""


async def test_no_english_is_left_on_the_german_page(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served, locale="de-DE")
        left: dict[str, list[str]] = {}
        for route in [*ROUTES, *(f"settings/{name}" for name in SECTIONS)]:
            await tab.go(route)
            await tab.page.wait_for_timeout(300)
            left[route] = [
                text
                for text in await tab.page.evaluate(SHOWN)
                if ENGLISH.search(NAMES.sub("", text)) and not text.startswith(THEIRS)
            ]
        await tab.go("browsers")
        await tab.page.get_by_text("Chrome auf Linux").wait_for()
        print({route: texts for route, texts in left.items() if texts})  # noqa: T201
        assert {route: texts for route, texts in left.items() if texts} == {}


async def test_a_question_and_what_came_of_it_are_told_in_german(village: PageVillage, visit: Visit) -> None:
    village.model.then([ToolCall(id="c1", name="exec", arguments={"command": "touch never"})], "Gut.")
    async with village.page() as served:
        tab = await visit(served, "phone-light", locale="de-DE")
        other = await served.tab()
        await other.call("chat.say", session="agent:main:main", text="mach es", key="k" * 16)
        await tab.go("approvals", title="Freigaben")
        await tab.page.get_by_role("heading", name="main möchte einen Befehl ausführen").wait_for()
        await tab.page.get_by_text("keine Regel erlaubt das ohne Frage").wait_for()
        await tab.page.get_by_role("button", name="Ablehnen").click()
        await tab.page.get_by_role("status").filter(has_text="Abgelehnt #").wait_for()
        await tab.go("chat", title="Chat")
        await tab.page.get_by_text("Entscheidung: abgelehnt").wait_for()
