"""Quiet hours in a whole house: what jobs send waits for the morning, answers to people do not, and the owner can read it at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.messages import ChatAddress, Inbound, Sender
from gateway.api.handlers.queues import QueueHandlers
from gateway.base.errors import UsageError
from gateway.cli.status import held_lines
from gateway.routing.routed_message import Automation, to_say
from gateway.routing.router import Route
from memory.audience import OWNER
from tests.approvals.house import Farm, open_questions, question, value
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.app.gateway import Gateway

CHAT = ChatAddress(channel="wire", kind="direct", id="anna")
QUIET = {
    "agents": {"defaults": {"quietHours": {"start": "08:00", "end": "12:00"}, "unaskedPerDay": 2}},
    "approvals": {"rules": [{"decision": "ask", "tool": "plough", "origin": "schedule"}]},
}
"""It is 09:30 in the house."""
LATER = timedelta(hours=3) / timedelta(seconds=1)


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    return Farm(tmp_path, QUIET)


async def fire(house: Gateway, text: str, key: str, **rules: Any) -> None:
    """Let a job say something, and wait for the end of its turn, or until it waits for its owner."""
    automation = Automation(**{"origin": "schedule", "name": "water", "source": "job:water"} | rules)
    sender, now = Sender(id="job:water", name="water"), house.deps.clock.now()
    inbound = Inbound(conversation=CHAT, sender=sender, text=text, at=now, key=key, alias=key, message_id=key)
    route = Route(agent="main", session="agent:main:job:water", audience=OWNER)
    row = await house.inbox.submit(inbound, route, automation, account="schedule")
    assert row is not None
    async with asyncio.timeout(PATIENCE):
        while (await house.ledger.inbox.rows([row.id]))[0].state in {"waiting", "claimed"}:
            if (await house.ledger.tally()).suspended:
                break
            await asyncio.sleep(0.01)


async def held(house: Gateway) -> list[dict[str, Any]]:
    return list((await QueueHandlers(house.ledger).calls()["outbox.held"]())["held"])


async def test_replies_of_jobs_wait_for_the_end_of_the_night_and_answers_do_not(farm: Farm) -> None:
    wire = farm.wire()
    async with farm.house(wire) as house:
        for number in range(2):
            await fire(house, f"{number}", f"job:{number}")
        await fire(house, "urgent", "job:u", urgent=True)
        await wire.say("hello")
        await wire.until(lambda: len(wire.sent) == 2)
        assert [(row["state"], row["name"], row["text"]) for row in await held(house)] == [
            ("held", "water", "re: 0"),
            ("held", "water", "re: 1"),
        ]
        status = await house.status.status()
        assert held_lines(status["unasked"]) == ["  unasked messages: 2 held until quiet hours end (homebody outbox held)"]
        await house.schedule.tick()
        await house.delivery.settled()
        assert sorted(wire.said()) == ["re: hello", "re: urgent"]
    other = farm.wire()
    async with farm.house(other) as house:
        farm.clock.move(LATER)
        await house.schedule.tick()
        await other.until(lambda: len(other.sent) == 2)
        await house.schedule.tick()
        await house.delivery.settled()
        assert other.said() == ["re: 0", "re: 1"]
        await wire_has_a_chat(house)
        await fire(house, "3", "job:3")
        await house.schedule.tick()
        await other.until(lambda: len(other.sent) == 3)
        assert "1 message that you had not asked for was kept on 2026-03-01" in other.said()[2]
        (kept,) = await held(house)
        assert (kept["state"], kept["text"]) == ("kept", "re: 3")
        calls = QueueHandlers(house.ledger).calls()
        assert await calls["outbox.send"](row=kept["id"]) == {"sent": [kept["id"]]}
        await other.until(lambda: other.said()[-1] == "re: 3")
        with pytest.raises(UsageError, match="held or kept"):
            await calls["outbox.send"](row=kept["id"])
        assert await calls["outbox.send"]() == {"sent": []}


async def test_all_held_messages_are_sent_though_somebody_sends_them_meanwhile(farm: Farm) -> None:
    wire = farm.wire()
    async with farm.house(wire) as house:
        for number in range(4):
            await fire(house, f"{number}", f"job:{number}")
        rows = [row["id"] for row in await held(house)]
        calls = QueueHandlers(house.ledger).calls()
        answers = await asyncio.gather(*(calls["outbox.send"]() for _ in range(2)))
        assert sorted(row for answer in answers for row in answer["sent"]) == rows
        assert await held(house) == []


async def wire_has_a_chat(house: Gateway) -> None:
    assert await house.owner.place() == CHAT, "the owner wrote there before the restart"


async def test_a_question_of_the_night_is_asked_in_the_morning_and_open_from_then_on(farm: Farm) -> None:
    wire = farm.wire()
    async with farm.house(wire) as house:
        await wire.say("hello")
        await wire.until(lambda: len(wire.sent) == 1)
        await fire(house, "plough field", "job:1")
        (asked,) = await open_questions(house)
        await house.schedule.tick()
        await house.delivery.settled()
        assert wire.said() == ["re: hello"], "nobody is woken for it"
        farm.clock.move(2.5 * 3600 - 60)
        await house.schedule.tick()
        assert [one.id for one in await open_questions(house)] == [asked.id], "it waits"
        farm.clock.move(120)
        await house.schedule.tick()
        await wire.until(lambda: any(one.buttons for one in wire.sent))
        farm.clock.move(20 * 60)
        await house.schedule.tick()
        await wire.say(value(question(wire), "once"), event="button")
        await wire.until(lambda: any(text.startswith("so: ") for text in wire.said()))
    assert farm.tool.done == ["field"]


OK = Automation(origin="schedule", name="heartbeat", source="heartbeat:main", quiet_reply="HEARTBEAT_OK", quiet_chars=300)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("HEARTBEAT_OK", ""),
        ("**HEARTBEAT_OK**", ""),
        ("heartbeat_ok.", ""),
        ("HEARTBEAT_OK\n\nAll is well.", ""),
        ("All is well.\nHEARTBEAT_OK", ""),
        ("All is well. HEARTBEAT_OK", ""),
        (f"{'x' * 300} HEARTBEAT_OK", ""),
        (f"{'x' * 301} HEARTBEAT_OK", "x" * 301),
        (f"HEARTBEAT_OK {'x' * 301}", "x" * 301),
        ("The boiler is out.", "The boiler is out."),
        ("You asked what HEARTBEAT_OK means.", "You asked what HEARTBEAT_OK means."),
        ("HEARTBEAT_OKAY", "HEARTBEAT_OKAY"),
        ("", ""),
    ],
)
def test_the_token_at_an_edge_means_that_there_is_nothing_to_say(reply: str, said: str) -> None:
    assert to_say(OK, reply) == said


@given(st.text(max_size=400), st.booleans())
def test_whatever_stands_beside_it_the_token_is_never_shown_at_an_edge(text: str, before: bool) -> None:
    reply = f"HEARTBEAT_OK {text}" if before else f"{text} HEARTBEAT_OK"
    said = to_say(OK, reply)
    assert said == "" or len(said) > 300
    assert len(said) <= len(text)
