"""Questions in the browser: taken apart, decided, told to other pages at once; and the rules."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from agent.messages import ToolCall
from tests.page.browser.kit import LOOKS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import PageVillage, ServedPage

    Visit = Callable[..., Awaitable[BrowserTab]]

COMMAND = "touch done.txt && echo '<img src=x onerror=alert(1)>' \u202e"


async def ask(village: PageVillage, served: ServedPage, dones: int = 3) -> None:
    """Let the agent want to run a command."""
    village.model.then([ToolCall(id="c1", name="exec", arguments={"command": COMMAND})])
    village.model.then(*["done"] * dones)
    tab = await served.tab()
    await tab.call("chat.say", session="agent:main:main", text="do it", key="k" * 16)


@pytest.mark.parametrize("look", LOOKS)
async def test_a_question_is_taken_apart_and_answered(village: PageVillage, visit: Visit, look: str) -> None:
    async with village.page() as served:
        tab, viewer = await visit(served, look), await visit(served, look, viewer=True)
        await tab.go("approvals", title="Approvals")
        await viewer.go("approvals", title="Approvals")
        await tab.check("approvals-none")
        await ask(village, served)
        await tab.page.get_by_role("heading", name="wants to run a command").wait_for()
        assert "⟨U+202E⟩" in await tab.page.inner_text("article")
        await tab.page.get_by_text("Its parts").wait_for()
        assert await tab.page.locator("main img").count() == 0
        await tab.check("approvals")
        await viewer.page.get_by_text("The owner decides.").wait_for()
        assert await viewer.page.get_by_role("button", name="Once").count() == 0
        await tab.page.get_by_role("button", name="Deny").click()
        await tab.page.get_by_text("Nothing waits for your answer.").wait_for()
        await viewer.page.get_by_text("Nothing waits for your answer.").wait_for()
        await tab.go("approvals/decided", title="Approvals")
        await tab.page.get_by_role("button", name="Details").click()
        await tab.page.get_by_text("denied").wait_for()
        await tab.check("approvals-decided")
    assert not (village.settings.agent("main").workspace / "done.txt").exists()


async def test_a_yes_lets_the_command_run_once(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab = await visit(served, "phone-dark")
        await tab.go("approvals", title="Approvals")
        await ask(village, served, dones=1)
        await tab.page.get_by_role("button", name="Once").click()
        await tab.page.get_by_text("Nothing waits for your answer.").wait_for()
        (stored,) = await served.house.ledger.approvals.latest(["approved"])
        assert stored.decided_by == "browser page, once"
        notice = tab.page.get_by_role("status").filter(has_text="Approved #")
        await notice.wait_for()
        village.model.then([ToolCall(id="c2", name="exec", arguments={"command": "touch other.txt"})], "done")
        other = await served.tab()
        await other.call("chat.say", session="agent:main:main", text="and this", key="m" * 16)
        await tab.page.get_by_role("button", name="Once").wait_for()
        assert await notice.count() == 0, "what came of one question is no part of the next"
        (next_,) = await served.house.ledger.approvals.latest(["pending"])
        await served.house.approvals.decisions.decide(next_.id, "deny", "command line, deny")
        await tab.page.get_by_text("Nothing waits for your answer.").wait_for()
        assert await notice.count() == 0, "nor is it what came of that one, which was decided elsewhere"


@pytest.mark.parametrize("look", ["desktop-dark", "phone-light"])
async def test_rules_are_switched_off_and_on(village: PageVillage, visit: Visit, look: str) -> None:
    async with village.page() as served:
        tab = await visit(served, look)
        await tab.go("approvals/rules", title="Approvals")
        await tab.check("approvals-rules")
        row = tab.page.get_by_role("listitem").filter(has_text="git status")
        await row.get_by_role("button", name="Switch off").click()
        await row.get_by_role("button", name="Switch on").wait_for()
        assert "git" in await asyncio.to_thread(served.house.rules.stored.off)
        await row.get_by_role("button", name="Switch on").click()
        await row.get_by_role("button", name="Switch off").wait_for()
        assert await asyncio.to_thread(served.house.rules.stored.off) == frozenset()
