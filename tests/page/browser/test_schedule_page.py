"""The calendar in the browser: a job is added, moved, run, paused and removed."""

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
async def test_the_calendar_as_it_looks(village: PageVillage, visit: Visit, look: str) -> None:
    async with village.page() as served:
        tab, other = await visit(served, look), await served.tab()
        await tab.go("schedule", title="Schedule")
        await tab.check("schedule-empty")
        await other.call("jobs.add", when="every weekday at 7:30", text="What is on today?", kind="task", name="morning")
        await other.call("jobs.add", when="every 2 hours", text="Drink a glass of water")
        await tab.page.get_by_role("heading", name="morning").wait_for()
        await tab.check("schedule")
        await tab.page.get_by_role("link", name="Month").click()
        await tab.page.get_by_role("link", name="Week").wait_for()
        await tab.check("schedule-month")
        await tab.page.get_by_role("button", name="Add a job").click()
        await tab.page.get_by_label("When").fill("every friday at 18:00")
        await tab.page.get_by_text("At 18:00 on Friday").wait_for()
        await tab.check("schedule-add")


@pytest.mark.parametrize("look", ["desktop-light", "phone-dark"])
async def test_a_job_is_added_moved_run_paused_and_removed(village: PageVillage, visit: Visit, look: str) -> None:
    async with village.page() as served:
        tab, other = await visit(served, look), await served.tab()
        await tab.go("schedule", title="Schedule")
        await tab.page.get_by_role("button", name="Add a job").click()
        await tab.page.get_by_label("Text").fill("Water the plants")
        await tab.page.get_by_label("When").fill("when the cows come home")
        await tab.page.locator("dialog .error").wait_for()
        await tab.page.get_by_label("When").fill("tomorrow at 9")
        await tab.page.get_by_role("button", name="Save").click()
        job = tab.page.get_by_role("listitem").filter(has=tab.page.get_by_role("heading", name="Water the plants"))
        await job.wait_for()
        await job.get_by_role("button", name="Change").click()
        await tab.page.get_by_label("Move to").fill("every monday at 10:15")
        await tab.page.get_by_text("At 10:15 on Monday (").or_(tab.page.locator("dialog b")).first.wait_for()
        await tab.page.get_by_role("button", name="Save").click()
        await job.get_by_text("At 10:15 on Monday").wait_for()
        await job.get_by_role("button", name="Run now").click()
        await tab.page.get_by_text("is started").wait_for()
        await job.get_by_role("button", name="Log").click()
        await job.locator(".log li").first.wait_for()
        await job.get_by_role("button", name="Pause").click()
        await job.get_by_role("button", name="Resume").wait_for()
        await tab.check("schedule-paused")
        (found,) = (await other.call("jobs.calendar", start="2026-01-01", days=7))["jobs"]
        assert (found["state"], found["text"]) == ("paused", "Water the plants")
        await job.get_by_role("button", name="Remove").click()
        await tab.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        await tab.page.get_by_text("There are no jobs.").wait_for()


async def test_a_viewer_sees_jobs_and_is_offered_no_change(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        tab, other = await visit(served, "phone-light", viewer=True), await served.tab()
        await other.call("jobs.add", when="every day at 7", text="x", name="early")
        await tab.go("schedule", title="Schedule")
        await tab.page.get_by_role("heading", name="early").wait_for()
        for name in ("Add a job", "Change", "Run now", "Remove"):
            assert await tab.page.get_by_role("button", name=name).count() == 0
        await tab.check("schedule-viewer")
