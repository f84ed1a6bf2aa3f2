"""What a person sees at a glance: texts that stand apart, words that stay whole, controls in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from agent.messages import ToolCall
from tests.page.world import fill

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import FloatRect, Locator

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import PageVillage

    Visit = Callable[..., Awaitable[BrowserTab]]

CRAMPED = """() => [...document.querySelectorAll('.page > .hint')].flatMap(one => {
  const next = one.nextElementSibling?.getBoundingClientRect();
  const gap = next && next.height > 1 ? next.top - one.getBoundingClientRect().bottom : 99;
  return gap < 8 ? [`${one.textContent}: ${gap}`] : [];
})"""
LINES = "() => [...document.querySelectorAll('.log .line')].map(one => getComputedStyle(one).fontSize)"
TITLE = "one => getComputedStyle(one.closest('td'), '::before').content"


async def box(one: Locator) -> FloatRect:
    found = await one.bounding_box()
    assert found is not None
    return found


@pytest.mark.parametrize("look", ["desktop-light", "phone-dark"])
async def test_a_hint_stands_apart_from_what_follows(village: PageVillage, visit: Visit, look: str) -> None:
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served, look)
        for route in ("memory", "approvals/rules", "schedule", "settings", "settings/agents", "context/flush", "health"):
            await tab.go(route)
            assert await tab.page.evaluate(CRAMPED) == [], route


async def test_the_word_that_a_command_waits_stays_whole_on_a_phone(village: PageVillage, visit: Visit) -> None:
    command = "rsync --archive --delete notes/ backup/"
    village.model.then([ToolCall(id="c1", name="exec", arguments={"command": command})])
    async with village.page() as served:
        tab = await visit(served, "phone-dark", locale="de-DE")
        await tab.go("chat", title="Chat")
        chosen = tab.page.locator(".chat .head select")
        assert (await box(chosen))["width"] > 175, "the name of the main conversation is cut off"
        await tab.page.get_by_label("Nachricht", exact=True).fill("sichere die Notizen")
        await tab.page.get_by_role("button", name="Senden").click()
        badge = tab.page.locator(".tool .badge")
        await expect(badge).to_have_text("wartet")
        assert (await box(badge))["height"] < 30


async def test_buttons_of_a_row_have_no_second_name_on_a_phone_and_stand_at_its_end(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served, "phone-light")
        await tab.go("health")
        forget = tab.page.get_by_role("button", name="Forget message 2")
        assert await forget.evaluate(TITLE) == "none"
        cell, button = await box(tab.page.locator("td", has=forget)), await box(forget)
        assert abs(cell["x"] + cell["width"] - button["x"] - button["width"]) < 2
        await tab.go("memory/search")
        field, go = tab.page.get_by_label("Why is this line missing?"), tab.page.get_by_role("button", name="Search")
        assert (await box(field))["width"] > 300
        assert (await box(go))["y"] > (await box(field))["y"] + (await box(field))["height"]


async def test_lines_of_the_log_are_of_one_size_and_its_controls_in_a_line(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served)
        await tab.go("health")
        await tab.page.get_by_text("a turn failed").wait_for()
        assert len(set(await tab.page.evaluate(LINES))) == 1
        pause, field = await box(tab.page.get_by_role("button", name="Pause")), await box(tab.page.get_by_label("From level"))
        assert abs(pause["y"] + pause["height"] - field["y"] - field["height"]) < 2


async def test_dialogs_of_a_phone_read_from_the_start_and_commands_in_texts_are_marked(
    village: PageVillage, visit: Visit
) -> None:
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served, "phone-dark")
        dialog = tab.page.get_by_role("dialog")
        await tab.go("health")
        await tab.page.get_by_role("button", name="Forget message 2").click()
        assert await dialog.evaluate("one => getComputedStyle(one.querySelector('p')).textAlign") == "start"
        await dialog.get_by_role("button", name="Cancel").click()
        await tab.go("browsers")
        await tab.page.get_by_role("button", name="Revoke").click()
        await expect(dialog.locator("code")).to_have_text("homebody open")
        await dialog.get_by_role("button", name="Cancel").click()
        await tab.go("schedule")
        await tab.page.get_by_role("button", name="Add a job").click()
        when = dialog.get_by_label("When")
        await when.fill("every blursday")
        await expect(dialog.locator(".error code").first).to_have_text("in 20 minutes")
        await when.fill("every weekday at 7:30")
        told, kind = dialog.locator(".hint[role=status]"), dialog.get_by_text("Kind", exact=True)
        await expect(told).to_contain_text("UTC")
        assert (await box(kind))["y"] - (await box(told))["y"] - (await box(told))["height"] >= 8


async def test_controls_of_a_phone_keep_to_their_line(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        await fill(served.house)
        tab = await visit(served, "phone-light", locale="de-DE")
        await tab.go("sessions?q=blue+pot")
        checkbox, label = tab.page.get_by_role("checkbox"), tab.page.get_by_text("Auch Ergebnisse von Werkzeugen")
        await checkbox.wait_for()
        assert (await box(label))["x"] > (await box(checkbox))["x"] + 15
        await tab.go("settings/budgets")
        await tab.page.locator(".key input").first.fill("0.5")
        assert (await box(tab.page.locator(".row.sticky")))["height"] < 110
        await tab.page.get_by_role("button", name="Verwerfen").click()
        await tab.go("chat")
        await tab.page.get_by_role("button", name="Suchen").click()
        search = tab.page.locator(".search")
        find, close = search.get_by_role("button", name="Finden"), search.get_by_role("button", name="Schließen")
        assert (await box(close))["y"] == (await box(find))["y"]
        await close.click()
        await search.wait_for(state="detached")


async def test_the_words_of_a_search_are_those_of_what_is_shown_also_on_the_way_back(
    village: PageVillage, visit: Visit
) -> None:
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("memory/search?q=boat&line=MEMORY.md:4")
        await tab.go("memory/search?q=door")
        words, line = tab.page.get_by_label("Question or words"), tab.page.get_by_label("Why is this line missing?")
        await expect(words).to_have_value("door")
        await expect(line).to_have_value("")
        await tab.page.go_back()
        await expect(words).to_have_value("boat")
        await expect(line).to_have_value("MEMORY.md:4")
