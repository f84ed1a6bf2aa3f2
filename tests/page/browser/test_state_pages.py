"""Context, conversations, costs and health, as people use them."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agent.messages import Text, UserMessage
from agent.transcript.entries import Entry, Opened, Said, encode
from tests.page.browser.kit import LOOKS
from tests.page.conftest import PageVillage
from tests.page.world import EVIL, MAIN, fill

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.page.browser.kit import BrowserTab

    Visit = Callable[..., Awaitable[BrowserTab]]


@pytest.fixture
def village(tmp_path: Path) -> PageVillage:
    return PageVillage(tmp_path, models={"providers": {}})


@pytest.mark.parametrize("look", LOOKS)
async def test_each_page_can_be_read_by_everybody(village: PageVillage, visit: Visit, look: str) -> None:
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served, look)
        page = tab.page
        await tab.go("context", title="Context")
        await page.get_by_text("Parts of the next request").wait_for(state="attached")
        await tab.check("context-now")
        await tab.go("context/history")
        await page.get_by_role("img", name="What filled the window").wait_for()
        assert await page.locator(".chart g").count() == 22, "one bar for each call, those of the former conversation too"
        assert await page.locator(".mark.compaction, .mark.flush, .mark.pruning, .mark.reset").count() >= 4
        await tab.check("context-history")
        await page.get_by_role("link", name="Prompt of").first.click()
        await page.get_by_role("heading", name="Prompt of").wait_for()
        await page.locator(".parts summary").last.click()
        await page.get_by_text("My locker number is 4711").wait_for()
        await tab.check("context-prompt")
        await tab.go("context/flush")
        await page.get_by_text("Ada comes on Friday at 18:30").first.wait_for()
        await tab.check("context-flush")
        await tab.go("sessions", title="Conversations")
        await page.get_by_role("link", name="Good morning!").wait_for()
        await tab.check("sessions")
        await tab.go("sessions/s-now")
        await page.get_by_text("Noted for later.").wait_for()
        await tab.check("sessions-reader")
        await tab.go("costs", title="Costs")
        await page.get_by_role("img", name="Cost of each").wait_for()
        await tab.check("costs")
        await tab.go("health", title="Health")
        await page.get_by_text("a turn failed").wait_for()
        await tab.check("health")


async def test_somebody_finds_what_was_said_in_an_ended_conversation(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served, "phone-light")
        await tab.go("sessions")
        await tab.page.get_by_label("Search all conversations").fill("blue pot")
        await tab.page.keyboard.press("Enter")
        await tab.page.get_by_text("Found in 1 of 2 conversations.").wait_for()
        await tab.check("sessions-search")
        await tab.page.locator("section li a").first.click()
        await tab.page.locator(".said.chosen", has_text="Under the blue pot.").wait_for()
        async with tab.page.expect_download() as waiting:
            await tab.page.get_by_role("button", name="Export as Markdown").click()
        saved = await (await waiting.value).path()
        assert "Under the blue pot." in saved.read_text()


async def test_the_owner_restores_the_former_conversation_and_a_viewer_cannot(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        await fill(served.house)
        viewer = await visit(served, viewer=True)
        await viewer.go("sessions")
        await viewer.page.get_by_role("link", name="Good morning!").wait_for()
        assert await viewer.page.get_by_role("button", name="Restore").count() == 0
        await viewer.go("health")
        await viewer.page.get_by_role("button", name="Look for faults").wait_for()
        assert await viewer.page.get_by_role("button", name="Look, and ask other machines, too").count() == 0
        tab = await visit(served)
        await tab.go("sessions")
        await tab.page.get_by_role("button", name="Restore the former conversation").click()
        dialog = tab.page.get_by_role("dialog")
        await dialog.wait_for()
        await tab.check("sessions-undo")
        await dialog.get_by_role("button", name="Restore").click()
        await tab.page.get_by_role("link", name="Where did we put").wait_for()
        record = served.house.agents["main"].store.get(MAIN)
        assert record is not None
        assert record.session == "s-former"


async def test_the_owner_raises_a_budget_and_sees_what_is_written(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        await fill(served.house)
        await served.house.calls()["hooks.add"](name="alarm", instruction="look", daily_usd=2.0)
        tab = await visit(served, "phone-dark")
        await tab.go("costs")
        await tab.page.get_by_text("homebody hooks change alarm --daily-usd").wait_for()
        heartbeats = tab.page.get_by_role("row").filter(has_text="Heartbeats").get_by_role("link", name="Settings")
        assert await heartbeats.get_attribute("href") == "#/settings/agents"
        for name in ("budgets.agent.usd", "budgets.agent.tokens", "budgets.session.usd", "budgets.session.tokens"):
            await tab.page.get_by_role("button", name=f"Change {name}").first.wait_for()
        await tab.page.get_by_role("button", name="Change budgets.day.usd").click()
        dialog = tab.page.get_by_role("dialog")
        await dialog.get_by_label("Limit of a day").fill("12.5")
        await dialog.get_by_role("button", name="Show what would be written").click()
        await dialog.locator(".diff .added", has_text="12.5").first.wait_for()
        await tab.check("costs-raise")
        await dialog.get_by_role("button", name="Write it").click()
        await dialog.wait_for(state="detached")
        await tab.page.get_by_text(re.compile(r"of (US)?\$12\.50")).wait_for()
        assert served.house.settings.current.budgets.day.usd == 12.5
        await tab.page.get_by_role("button", name="Change budgets.day.usd").click()
        limit = dialog.get_by_label("Limit of a day")
        for wrong in ("1_0", "true"):
            await limit.fill(wrong)
            await dialog.get_by_role("button", name="Show what would be written").click()
            await dialog.get_by_text("is not allowed here").wait_for()
        await tab.check("costs-refused")
        await limit.fill("")
        await dialog.get_by_role("button", name="Show what would be written").click()
        await dialog.locator(".diff .added", has_text="null").first.wait_for()
        await dialog.get_by_role("button", name="Write it").click()
        await dialog.wait_for(state="detached")
        assert served.house.settings.current.budgets.day.usd is None


async def test_the_owner_sends_a_dead_letter_after_all_and_forgets_another(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served)
        await tab.go("health")
        await tab.page.get_by_role("button", name="Forget message 2").click()
        await tab.page.get_by_role("dialog").get_by_role("button", name="Forget").click()
        await tab.page.get_by_role("button", name="Forget message 2").wait_for(state="detached")
        await tab.page.get_by_role("button", name="Send after all: message 1").click()
        await tab.page.get_by_role("button", name="Send after all: message 1").wait_for(state="detached")
        states = {row.id: row.state for row in await served.house.ledger.outbox.latest(("ready", "dead", "sending"))}
        assert states[1] != "dead"


async def test_the_doctor_is_asked_and_mends_one_thing(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        served.house.deps.paths.home.chmod(0o755)
        tab = await visit(served, "phone-light")
        await tab.go("health")
        await tab.page.get_by_role("button", name="Look for faults").click()
        mend = tab.page.get_by_role("button", name="Mend this: other users")
        await mend.wait_for(timeout=60_000)
        await tab.check("health-doctor")
        await mend.click()
        await mend.wait_for(state="detached", timeout=60_000)
        assert served.house.deps.paths.home.stat().st_mode & 0o077 == 0


async def test_the_log_follows_and_is_filtered(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served)
        await tab.go("health")
        log = tab.page.get_by_role("log")
        await log.get_by_text("a turn failed").wait_for()
        path = served.house.deps.paths.logs / "homebody.jsonl"
        with path.open("a") as file:
            file.write(json.dumps({"at": "2026-11-25T12:00:00Z", "level": "error", "event": "a later line"}) + "\n")
        await log.get_by_text("a later line").wait_for()
        await tab.page.get_by_label("From level").select_option("error")
        await log.get_by_text("the gateway has started").wait_for(state="detached")
        await log.get_by_text("a later line").wait_for()


async def test_text_from_outside_stays_text(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served)
        said: list[str] = []
        tab.page.on("dialog", lambda dialog: said.append(dialog.message))
        for route in ("sessions", "sessions/s-now?at=1", "context/history", "health"):
            await tab.go(route)
            await tab.page.wait_for_timeout(400)
            assert await tab.page.locator("main img").count() == 0
            assert await tab.page.locator('a[href^="javascript"]').count() == 0
        await tab.page.get_by_text(EVIL.split()[0]).first.wait_for()
        assert said == []


def long_conversation(path: Path) -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    with path.open("wb") as file:
        file.write(encode(Entry(id="open:0", parent=None, at=at, body=Opened(agent="main", session="s-long", key="k"))))
        for n in range(50_000):
            message = UserMessage(content=(Text(text=f"message number {n}"),), at=at)
            file.write(encode(Entry(id=f"t{n}:0", parent=None, at=at, body=Said(message=message))))


async def test_a_conversation_of_fifty_thousand_messages_is_read_by_paging(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        await fill(served.house)
        await asyncio.to_thread(long_conversation, Path(served.house.agents["main"].store.transcript("s-long").where))
        tab = await visit(served)
        await tab.go("sessions/s-long")
        await tab.page.get_by_text("message number 49999", exact=True).wait_for()
        await tab.page.evaluate(
            "() => { const box = document.querySelector('.virtual'); box.scrollTop = box.scrollHeight / 2; }"
        )
        await tab.page.get_by_text("message number 25").first.wait_for()
        assert await tab.page.locator(".said").count() < 200
        await tab.go("sessions/s-long?at=12345")
        await tab.page.locator(".said.chosen", has_text="message number 12344").wait_for()
