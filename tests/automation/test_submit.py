"""A message that no person wrote: stored once, answered in its session, and never taken for a person's."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from channels.silent import SilentChannel, silent_place
from gateway.ledger.rows import InboxRow
from gateway.routing.routed_message import (
    Automation,
    arrival_of,
    automation_from_json,
    automation_to_json,
    decode_received,
    is_isolated,
)
from tests.automation.conftest import LOCAL, MAIN, answered, event, job, to

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]

WORDS = st.text(max_size=8)
ANY = st.builds(
    Automation,
    origin=st.sampled_from(["schedule", "webhook", "agent"]),
    name=WORDS,
    source=WORDS,
    fresh=st.booleans(),
    light=st.booleans(),
    model=st.none() | WORDS,
    allow=st.none() | st.lists(WORDS, max_size=3).map(tuple),
    deny=st.lists(WORDS, max_size=3).map(tuple),
    daily_usd=st.none() | st.floats(0, 100),
    daily_tokens=st.none() | st.integers(0, 10**9),
    urgent=st.booleans(),
    quiet_reply=st.none() | WORDS,
    sources=st.lists(WORDS, max_size=3).map(tuple),
    parent=st.none() | WORDS,
    depth=st.integers(0, 5),
    owner=st.booleans(),
    asked_by=st.sampled_from([None, "owner", "guest"]),
    request=WORDS,
    result_of=WORDS,
)


@given(ANY)
def test_an_automation_is_read_back_from_its_row(automation: Automation) -> None:
    arrival = arrival_of(event("go"), to(), automation, datetime.now(UTC))
    fields = {field.name for field in msgspec.structs.fields(InboxRow)} & {
        field.name for field in msgspec.structs.fields(arrival)
    }
    row = InboxRow(id=1, account="schedule", **{name: getattr(arrival, name) for name in fields})
    received = decode_received(row)
    assert received.automation == automation
    assert received.inbound == event("go")
    assert received.actor.owner == automation.owner
    assert received.route == to()


def test_fields_of_a_later_version_are_ignored() -> None:
    assert automation_from_json(automation_to_json(job()) | {"colour": "teal"}) == job()


def test_keys_of_isolated_sessions() -> None:
    isolated = ["agent:main:job:abcde", "agent:main:hook:alarm", "agent:main:sub:x", "agent:main:heartbeat"]
    assert all(is_isolated(key) for key in isolated)
    assert not any(is_isolated(key) for key in [MAIN, "agent:main:travel", "agent:job:main", "agent:main:telegram:dm:1", ""])


async def test_the_silent_channel_says_nothing() -> None:
    assert SilentChannel().chunks("a reply") == []
    assert silent_place("agent:main:job:abcde").address == "internal:default:direct:agent:main:job:abcde"


async def test_it_is_answered_once_in_its_session_however_often_it_is_submitted(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "Done.")
    async with s.house() as (house, talk):
        row = await house.inbox.submit(event("water the plants"), to(), job(), account="schedule")
        assert row is not None
        assert await house.inbox.submit(event("water the plants"), to(), job(), account="schedule") is None
        assert (await answered(house, row)).state == "answered"
        assert len(s.model.requests) == 1
        assert house.agents["main"].store.get("agent:main:job:water").turns == 1
        assert house.agents["main"].store.get(MAIN) is None
        assert await house.ledger.outbox.latest(["ready", "sending", "sent"]) == []
        assert talk.replies() == []


async def test_its_reply_goes_to_the_conversation_that_it_names(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "The plants are dry.")
    async with s.house() as (house, talk):
        await house.inbox.submit(event("look at the plants", place=LOCAL), to(), job(), account="schedule")
        await talk.until(lambda: talk.replies() == ["The plants are dry."])


async def test_words_of_commands_are_no_commands(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "Heard.")
    async with s.house() as (house, talk):
        await talk.ask("hello")
        session = house.agents["main"].store.get(MAIN).session
        for n, text in enumerate(["/new", "/stop", "stop", "/status", "/reset now"]):
            row = await house.inbox.submit(event(text, f"water:{n}", LOCAL, MAIN), to(MAIN), job(), account="schedule")
            assert row is not None
            assert (await answered(house, row)).reason is None
        assert house.agents["main"].store.get(MAIN).session == session
        assert len(s.model.requests) == 6


async def test_it_does_not_keep_a_session_fresh_and_is_not_where_the_owner_spoke(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "Heard.")
    async with s.house() as (house, talk):
        await talk.ask("hello")
        before = house.agents["main"].store.get(MAIN)
        s.clock.set(s.clock.now() + timedelta(hours=2))
        row = await house.inbox.submit(event("tick", session=MAIN), to(MAIN), job(), account="schedule")
        assert row is not None
        await answered(house, row)
        after = house.agents["main"].store.get(MAIN)
        assert (after.session, after.spoken, after.address) == (before.session, before.spoken, before.address)
        assert after.turns == before.turns + 1


async def test_one_that_waits_is_answered_by_the_next_process(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "Done.")
    async with s.house() as (house, _):
        arrivals = [arrival_of(event("one", "water:1"), to(), job(), s.clock.now())]
        [row] = (await house.ledger.inbox.accept("schedule", arrivals)).rows
    async with s.house() as (house, _):
        assert (await answered(house, row)).state == "answered"
    assert len(s.model.requests) == 1


async def test_it_waits_its_turn_and_joins_nobody(street: Make) -> None:
    for mode in ("collect", "steer", "interrupt"):
        s = street(messages={"queue": {"mode": mode, "debounceMs": 0}})
        seen: list[list[str]] = []

        def reply(request: Any, seen: list[list[str]] = seen) -> str:
            seen.append([part.text for part in request.messages if part.role == "user"])
            return "Heard."

        s.model.reply_with(reply)
        async with s.house() as (house, talk):
            asking = asyncio.ensure_future(talk.ask("a person's question"))
            rows = [
                await house.inbox.submit(event(f"tick {n}", f"{mode}:{n}", LOCAL, MAIN), to(MAIN), job(), account="schedule")
                for n in range(3)
            ]
            await asking
            for row in rows:
                assert row is not None
                await answered(house, row)
        turns = [len(one) for one in seen]
        assert turns[-1] - turns[0] == 3
        assert len(seen) >= 4


async def test_a_job_for_an_agent_that_is_gone_is_told_where_it_reports(street: Make) -> None:
    s = street()
    async with s.house() as (house, talk):
        gone = msgspec.structs.replace(to("agent:gone:job:water"), agent="gone")
        row = await house.inbox.submit(event("tick", place=LOCAL), gone, job(), account="schedule")
        assert row is not None
        ended = await answered(house, row)
        assert ended.state == "failed"
        await talk.until(talk.replies)
        assert "“water” is for the agent 'gone', which is gone" in talk.replies()[0]
