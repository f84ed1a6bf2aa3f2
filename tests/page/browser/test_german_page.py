"""All pages as a German sees them: no English word is left but names, commands, and what people, models and programs wrote."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
    "Chrome on Linux",
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
        print({route: texts for route, texts in left.items() if texts})  # noqa: T201
        assert {route: texts for route, texts in left.items() if texts} == {}
