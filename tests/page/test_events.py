"""Live events: numbered, caught up with after a loss, and bounded."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.page.page_events import KEPT, MOST, MOST_A_BROWSER, MOST_WAITING, RELOAD, EventHub, Stream, TooManyStreams
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.page.conftest import PageVillage, ServedPage


async def with_data(events: AsyncIterator[dict[str, Any]]) -> dict[str, Any]:
    """Return the next event that says more than what changed: the log of a house may grow at any time."""
    return await anext(event async for event in events if event["data"] is not None)


def kinds(stream: Stream) -> list[str]:
    return [event.kind for event in stream.waiting]


@given(before=st.integers(0, 30), missed=st.integers(0, 30), after=st.integers(0, 30))
def test_whoever_was_away_is_told_exactly_what_came_meanwhile(before: int, missed: int, after: int) -> None:
    hub = EventHub()
    stream = hub.open("a", None)
    for number in range(before):
        hub.publish(f"k{number}")
    last = f"{hub.boot}-{before}"
    hub.close(stream)
    for number in range(before, before + missed):
        hub.publish(f"k{number}")
    again = hub.open("a", last)
    for number in range(before + missed, before + missed + after):
        hub.publish(f"k{number}")
    assert kinds(again) == [f"k{number}" for number in range(before, before + missed + after)]


@pytest.mark.parametrize("last", ["", "x", "x-1", "{boot}-", "{boot}-9", "{boot}--1", "{boot}-1e3", "{boot}-²", "0" * 5000])
def test_whoever_cannot_catch_up_is_told_to_ask_again(last: str) -> None:
    hub = EventHub()
    hub.publish("a")
    assert kinds(hub.open("a", last.replace("{boot}", hub.boot))) == [RELOAD]


def test_whoever_missed_too_much_is_told_to_ask_again() -> None:
    hub = EventHub()
    for number in range(KEPT + 2):
        hub.publish("a", number)
    assert kinds(hub.open("a", f"{hub.boot}-1")) == [RELOAD]
    assert len(hub.open("a", f"{hub.boot}-2").waiting) == KEPT


@given(published=st.lists(st.sampled_from(["logs", "costs", "chat"]), max_size=60), seen=st.integers(0, 60))
def test_of_events_that_only_say_what_changed_the_latest_of_each_kind_is_told(published: list[str], seen: int) -> None:
    hub = EventHub()
    for kind in published:
        hub.publish(kind, {"text": kind} if kind == "chat" else None)
    seen = min(seen, len(published))
    missed = published[seen:]
    told = kinds(hub.open("a", f"{hub.boot}-{seen}"))
    assert told.count("chat") == missed.count("chat")
    assert {kind for kind in told if kind != "chat"} == {kind for kind in missed if kind != "chat"}
    assert [told.count(kind) for kind in ("logs", "costs")] == [int(kind in missed) for kind in ("logs", "costs")]


def test_a_log_that_grows_all_the_time_takes_no_other_event_away() -> None:
    hub = EventHub()
    hub.publish("chat", {"text": "hello"})
    for _ in range(3 * KEPT):
        hub.publish("logs")
    assert kinds(hub.open("a", f"{hub.boot}-0")) == ["chat", "logs"]


def test_streams_are_bounded_for_a_browser_and_in_all() -> None:
    hub = EventHub()
    for _ in range(MOST_A_BROWSER):
        hub.open("a", None)
    with pytest.raises(TooManyStreams):
        hub.open("a", None)
    for number in range(MOST - MOST_A_BROWSER):
        hub.open(f"b{number}", None)
    with pytest.raises(TooManyStreams):
        hub.open("c", None)


def test_a_stream_takes_the_place_of_the_former_one_of_its_tab() -> None:
    """Its connection may have died without a word, so that the gateway does not know that it is over."""
    hub = EventHub()
    other, anothers = hub.open("a", None, "tab 2"), hub.open("b", None, "tab 1")
    former = hub.open("a", None, "tab 1")
    for number in range(2 * MOST_A_BROWSER):
        hub.publish("said", number)
        stream = hub.open("a", f"{hub.boot}-{number}", "tab 1")
        assert former.ended
        assert [event.data for event in stream.waiting] == [number]
        former = stream
    assert not other.ended
    assert not anothers.ended


async def test_a_sign_of_life_is_sent_that_scripts_see(served: ServedPage) -> None:
    served.house.page.hub.beat_seconds = 0.05
    tab = await served.tab()
    assert tab.me["beat"] == 0.05
    async with tab.client.stream("GET", "/page/events") as answer:
        lines = [line async for line in _until(answer.aiter_lines(), "data: still here")]
    assert lines[-2] == "event: beat"


async def _until(lines: AsyncIterator[str], last: str) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if line == last:
            return


async def test_a_reader_that_takes_nothing_is_dropped_and_the_others_go_on() -> None:
    hub = EventHub()
    slow, other = hub.open("a", None), hub.open("b", None)
    for _ in range(MOST_WAITING + 1):
        hub.publish("a")
        assert await other.take(1) is not None
    assert slow.ended
    assert await slow.take(1) is None
    assert not other.ended


async def test_a_lost_connection_catches_up_and_a_restart_says_to_ask_again(village: PageVillage) -> None:
    async with village.page() as served:
        tab = await served.tab()
        async with tab.events() as events:
            served.house.page.publish("jobs", {"n": 1})
            first = await with_data(events)
            assert (first["kind"], first["data"]) == ("jobs", {"n": 1})
        async with asyncio.timeout(PATIENCE):
            while served.house.page.hub.watched:  # noqa: ASYNC110  (nobody announces it)
                await asyncio.sleep(0.01)
        served.house.page.publish("jobs", {"n": 2})  # while nobody listens
        async with tab.events(first["id"]) as events:
            assert (await with_data(events))["data"] == {"n": 2}
    async with village.page() as served:
        again = served.stranger()
        again.client.cookies.set(f"homebody-{served.port}", next(iter(tab.client.cookies.values())))
        async with again.events(first["id"]) as events:
            assert (await anext(events))["kind"] == RELOAD


async def test_a_page_is_told_at_its_beginning_after_which_event_its_stream_goes_on(served: ServedPage) -> None:
    tab = await served.tab()
    served.house.page.publish("jobs", {"n": 1})
    event = (await tab.client.get("/page/me")).json()["event"]
    served.house.page.publish("jobs", {"n": 2})
    async with tab.events(event) as events:
        assert (await with_data(events))["data"] == {"n": 2}


async def test_a_browser_has_eight_streams_and_the_ninth_is_refused(served: ServedPage) -> None:
    tab = await served.tab()
    async with contextlib.AsyncExitStack() as opened:
        for _ in range(MOST_A_BROWSER):
            await opened.enter_async_context(tab.events())
        answer = await tab.client.get("/page/events")
        assert (answer.status_code, answer.json()["reason"]) == (429, "too-many")
    async with asyncio.timeout(10):
        while served.house.page.hub.watched:  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.01)


async def test_a_gateway_that_stops_ends_the_streams(village: PageVillage) -> None:
    async with village.page() as served:
        tab = await served.tab()
        listening = tab.events()
        events = await listening.__aenter__()
        served.house.stop()
        async with asyncio.timeout(20):
            assert [event async for event in events if event["data"] is not None] == []
        await listening.__aexit__(None, None, None)
