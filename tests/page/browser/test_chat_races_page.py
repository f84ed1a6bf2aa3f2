"""The chat when answers of the gateway and live events overtake each other, or one of them is missing: no bubble is lost or shown twice."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from playwright.async_api import expect

from agent.events import TextDelta
from agent.models.scripted import Stall
from channels.live import Note
from channels.messages import Outbound
from channels.web.channel import place_of
from gateway.sessions.sessions_file import SessionRecord
from tests.page.conftest import PageVillage
from tests.page.world import MAIN, Past

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from playwright.async_api import Page, Route

    from tests.page.browser.kit import BrowserTab
    from tests.page.conftest import ServedPage

    Visit = Callable[..., Awaitable[BrowserTab]]

HISTORY = "**/page/call/chat.history"
EVENTS = "**/page/events*"
HERE = place_of(MAIN)
WRONG_CLOCK = "() => { Date.prototype.toISOString = () => '2001-01-01T00:00:00.000Z'; }"


class Held:
    """Answers of one call that the gateway has given and the page does not have yet."""

    def __init__(self) -> None:
        self.holding = False
        self.taken: asyncio.Queue[asyncio.Event] = asyncio.Queue()
        self.asked = 0

    async def __call__(self, route: Route) -> None:
        self.asked += 1
        answer = await route.fetch()
        if self.holding:
            go_on = asyncio.Event()
            self.taken.put_nowait(go_on)
            await go_on.wait()
        await route.fulfill(response=answer)


async def keep(_: str) -> None:
    """Nothing is recorded."""


async def write(page: Page, text: str) -> None:
    box = page.get_by_label("Message", exact=True)
    await box.fill(text)
    await box.press("Enter")


def has_changed(served: ServedPage) -> None:
    """Have open pages ask for the conversation again, as they do when a session was changed elsewhere."""
    served.house.page.publish("sessions")


async def test_a_message_is_not_lost_to_an_answer_that_is_older(tmp_path: Path, visit: Visit) -> None:
    village = PageVillage(tmp_path, messages={"queue": {"mode": "collect", "debounceMs": 0}})
    village.model.then([Stall(asyncio.Event())])
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        await write(tab.page, "begin")
        await tab.page.locator(".growing").wait_for()
        await tab.page.wait_for_timeout(1500)  # pages were told of the new session
        held = Held()
        await tab.page.route(HISTORY, held)
        held.holding = True
        has_changed(served)
        go_on = await held.taken.get()
        await write(tab.page, "mine")
        mine = tab.page.locator(".bubble.mine", has_text="mine")
        await mine.wait_for()
        go_on.set()
        for _ in range(5):
            await tab.page.wait_for_timeout(100)
            assert await mine.count() == 1
        await tab.page.unroute_all(behavior="ignoreErrors")


async def test_an_answer_that_was_overtaken_by_a_later_one_is_not_shown(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        channel = served.house.page.channel
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        held = Held()
        await tab.page.route(HISTORY, held)
        held.holding = True
        has_changed(served)
        first = await held.taken.get()
        held.holding = False
        await channel.send(Outbound(key="k1", conversation=HERE, text="said meanwhile"), keep)
        bubble = tab.page.locator(".bubble.theirs", has_text="said meanwhile")
        await bubble.wait_for()
        async with tab.page.expect_response(HISTORY):
            has_changed(served)
        await tab.page.wait_for_timeout(300)
        first.set()
        await tab.page.wait_for_timeout(300)
        await expect(bubble).to_have_count(1)
        await tab.page.unroute_all(behavior="ignoreErrors")


async def test_what_was_said_before_the_stream_began_is_shown(village: PageVillage, visit: Visit) -> None:
    """The history is read first; what comes between it and the stream is in neither, unless the stream begins where the page did."""
    async with village.page() as served:
        channel = served.house.page.channel
        tab = await visit(served)
        page, go_on = await tab.context.new_page(), asyncio.Event()

        async def late(route: Route) -> None:
            await go_on.wait()
            await route.continue_()

        await page.route(EVENTS, late)
        await page.goto(f"{served.base}/#/chat")
        await page.get_by_text("Nothing was said here yet").wait_for()
        await channel.send(Outbound(key="k1", conversation=HERE, text="in between"), keep)
        go_on.set()
        await page.locator(".bubble.theirs", has_text="in between").wait_for()
        await page.close()


async def test_ones_own_message_is_shown_without_the_stream(village: PageVillage, visit: Visit) -> None:
    village.model.then("Answered.")
    async with village.page() as served:
        tab = await visit(served)
        tab.expected += ["ERR_FAILED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "net::ERR"]
        await tab.go("chat", title="Chat")
        await tab.page.route(EVENTS, lambda route: route.abort())
        served.house.page.hub.end(served.house.page.browsers.all()[0].id)
        await tab.page.get_by_text("Not connected").wait_for()
        await write(tab.page, "over there?")
        mine = tab.page.locator(".bubble.mine", has_text="over there?")
        await mine.wait_for()
        await tab.page.unroute(EVENTS)
        await tab.page.locator(".bubble.theirs", has_text="Answered.").wait_for()
        await expect(mine).to_have_count(1)


async def test_a_draft_of_which_a_part_is_missing_is_asked_for_once(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        channel = served.house.page.channel
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        held = Held()
        await tab.page.route(HISTORY, held)
        channel.turn_began(HERE, "t1", [])
        await channel.draft(HERE, "t1", "one ")
        growing = tab.page.locator(".growing .said")
        await expect(growing).to_have_text("one")
        await channel.send(Outbound(key="k1", conversation=HERE, text="a file, say"), keep)  # in the midst of the turn
        await growing.wait_for(state="detached")
        held.holding, before = True, held.asked
        text = "one "
        for number in range(10):
            text += f"{number} "
            await channel.draft(HERE, "t1", text)
            await tab.page.wait_for_timeout(20)
        go_on = await held.taken.get()
        text += "and on"
        await channel.draft(HERE, "t1", text)
        await tab.page.wait_for_timeout(100)
        held.holding = False
        go_on.set()
        await expect(growing).to_have_text(text)
        assert held.asked - before == 1
        channel.draft_ended(HERE, "t1")
        await tab.page.locator(".growing").wait_for(state="detached")
        await tab.page.unroute_all(behavior="ignoreErrors")


async def test_another_conversation_stays_shown_when_the_one_before_has_just_been_answered(
    village: PageVillage, visit: Visit
) -> None:
    village.model.then("Here I am.")
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        await tab.page.get_by_label("Message", exact=True).fill("Are you there?")
        await tab.page.get_by_role("button", name="Send").click()
        await tab.page.locator(".bubble.theirs", has_text="Here I am.").wait_for()
        await tab.page.evaluate("() => { location.hash = '#/chat/agent%3Amain%3Arome'; }")
        await tab.page.get_by_text("Nothing was said here yet").wait_for()
        await tab.page.wait_for_timeout(2500)  # what is asked again after a turn is asked within that time
        await expect(tab.page.get_by_text("Nothing was said here yet")).to_be_visible()
        await expect(tab.page.locator(".bubble")).to_have_count(0)


async def test_what_a_failed_request_should_have_shown_is_asked_for_again(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        channel = served.house.page.channel
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        tab.expected += ("ERR_INTERNET_DISCONNECTED",)
        failed: list[str] = []

        async def fail(route: Route) -> None:
            failed.append(route.request.url)
            await route.abort("internetdisconnected")

        await tab.page.route("**/page/call/*", fail, times=3)
        await channel.send(Outbound(key="k", conversation=HERE, text="While you were away"), keep)
        has_changed(served)
        await tab.page.get_by_text("The gateway does not answer").wait_for()
        await expect(tab.page.get_by_text("The gateway does not answer")).to_have_count(0, timeout=15_000)
        await tab.page.get_by_text("While you were away").first.wait_for()
        assert failed


async def test_a_note_stays_where_it_came(village: PageVillage, visit: Visit) -> None:
    async with village.page() as served:
        channel = served.house.page.channel
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        await tab.page.evaluate(WRONG_CLOCK)
        for number in range(2):
            await channel.send(Outbound(key=f"k{number}", conversation=HERE, text=f"message {number}"), keep)
            await tab.page.get_by_text(f"message {number}").first.wait_for()
            if not number:
                channel.show(HERE, Note("2 ahead"))
                await tab.page.get_by_text("2 ahead").wait_for()
        async with tab.page.expect_response(HISTORY):
            has_changed(served)
        await tab.page.wait_for_timeout(300)
        shown = await tab.page.locator(".virtual [data-key]").all_inner_texts()
        wanted = ("message 0", "2 ahead", "message 1")
        assert len(shown) == 3
        assert all(words in text for words, text in zip(wanted, shown, strict=True))


@pytest.fixture
async def past(village: PageVillage) -> Past:
    return Past(Path("unwritten"), "s-now", at=datetime.now(UTC) - timedelta(days=1))


async def known(served: ServedPage, past: Past) -> None:
    """Write what was said so far as the main session."""
    store = served.house.agents["main"].store
    past.path = Path(store.transcript("s-now").where)
    await asyncio.to_thread(past.write)
    old = store.get(MAIN)
    record = SessionRecord(session="s-now", key=MAIN, started=past.at - timedelta(days=2), spoken=past.at, turns=past.number)
    await store.put(record if old is None else replace(old, turns=past.number, spoken=past.at))


SCROLL_UP = """async () => {
  document.querySelector('.virtual').scrollBy(0, -700);
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);  // on a busy machine one takes long
}"""


async def everything(page: Page) -> set[str]:
    """Scroll from the end to the beginning; return all that is shown on the way."""
    shown: set[str] = set()
    for _ in range(600):
        shown |= set(await page.locator(".virtual .bubble .said, .virtual .bubble .markdown").all_inner_texts())
        at_the_top = await page.evaluate("() => document.querySelector('.virtual').scrollTop === 0")
        if "question 0" in shown and at_the_top:  # it shows for a moment while the part before is put in, too
            break
        await page.evaluate(SCROLL_UP)
    return shown


async def test_nothing_is_missing_after_many_messages_that_came_while_nobody_listened(
    village: PageVillage, visit: Visit, past: Past
) -> None:
    async with village.page() as served:
        for number in range(110):
            past.turn(f"question {number}", f"answer {number}", prompt=4000)
        await known(served, past)
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        await tab.page.get_by_text("answer 109", exact=True).wait_for()
        for number in range(110, 260):
            past.turn(f"question {number}", f"answer {number}", prompt=4000)
        await known(served, past)
        await tab.page.get_by_text("answer 259", exact=True).wait_for()
        shown = await everything(tab.page)
        assert {f"{kind} {number}" for number in range(260) for kind in ("question", "answer")} <= shown


async def test_what_a_person_reads_at_the_beginning_stays_when_something_is_new(
    village: PageVillage, visit: Visit, past: Past
) -> None:
    async with village.page() as served:
        for number in range(150):
            past.turn(f"question {number}", f"answer {number}", prompt=4000)
        await known(served, past)
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        await tab.page.get_by_text("answer 149", exact=True).wait_for()
        await everything(tab.page)
        asked: list[Any] = []
        tab.page.on("response", lambda one: asked.append(one) if "chat.history" in one.url else None)
        past.turn("question 150", "answer 150", prompt=4000)
        await known(served, past)
        async with asyncio.timeout(20):
            while not asked:  # noqa: ASYNC110  (nobody announces it)
                await asyncio.sleep(0.05)
        await tab.page.wait_for_timeout(500)
        assert await tab.page.get_by_text("question 0", exact=True).count() == 1
        assert len(asked) == 1, "the beginning was not loaded a second time"


async def test_nothing_is_lost_on_a_slow_computer_behind_a_slow_connection(tmp_path: Path, visit: Visit) -> None:
    going = asyncio.Event()
    village = PageVillage(tmp_path, messages={"queue": {"mode": "collect", "debounceMs": 0}})
    village.model.then([Stall(going), TextDelta("First.")], "All of them.")
    async with village.page() as served:
        tab = await visit(served)
        await tab.go("chat", title="Chat")
        number = 0

        async def slowly(route: Route) -> None:
            nonlocal number
            number += 1
            answer = await route.fetch()
            await asyncio.sleep(0.2 + 0.7 * (number % 3))
            await route.fulfill(response=answer)

        await tab.page.route(HISTORY, slowly)
        session = await tab.context.new_cdp_session(tab.page)
        await session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
        wanted = ["begin", "also 1", "also 2", "also 3"]
        for words in wanted:
            await write(tab.page, words)
            await tab.page.locator(".bubble.mine", has_text=words).wait_for()
            has_changed(served)
        mine = tab.page.locator(".bubble.mine .said")
        for _ in range(20):
            assert await mine.all_inner_texts() == wanted
            await asyncio.sleep(0.1)
        going.set()
        await tab.page.locator(".bubble.theirs", has_text="All of them.").wait_for()
        assert await mine.all_inner_texts() == wanted
        await session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
        await expect(tab.page.locator(".growing")).to_have_count(0)
        await expect(tab.page.locator(".bubble.theirs")).to_have_count(2)
        await tab.page.unroute_all(behavior="ignoreErrors")
