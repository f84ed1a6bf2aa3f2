"""Acts of jobs, webhooks and sub-agents that need the owner's yes: asked in the owner's chat, taken up, answered where they report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.messages import ToolCall
from agent.tools.protocol import Act, ToolContext
from channels.messages import ChatAddress
from gateway.approvals.approval_gate import ApprovalGate, TurnFacts
from gateway.approvals.rules import Rules
from gateway.approvals.stored_rules import StoredRules
from gateway.settings.root import Settings
from memory.audience import OWNER, Audience
from tests.approvals.house import Farm, open_questions, question, value
from tests.automation.conftest import answered, event, job, to
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.app.gateway import Gateway
    from gateway.ledger.rows import InboxRow
    from gateway.routing.routed_message import Automation
    from tests.peers.wire import Wire

ASK = {"approvals": {"rules": [{"decision": "ask", "tool": "plough", "origin": ["schedule", "webhook", "agent"]}]}}
SHED = ChatAddress(channel="wire", kind="direct", id="shed")


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    return Farm(tmp_path, ASK)


async def fire(
    house: Gateway, automation: Automation | None = None, key: str = "1", place: ChatAddress | None = SHED
) -> InboxRow:
    row = await house.inbox.submit(event("plough field", key, place), to(), automation or job("plants"), account="schedule")
    assert row is not None
    return row


async def known_to(wire: Wire) -> None:
    """The owner writes, so that it is known where to ask."""
    await wire.say("hello")
    await wire.until(wire.said)


async def until_asked(wire: Wire) -> None:
    await wire.until(lambda: any(one.buttons for one in wire.sent))


@pytest.mark.parametrize("place", [SHED, None], ids=["chat", "nowhere"])
async def test_the_owner_is_asked_and_the_answer_goes_where_the_job_reports(farm: Farm, place: ChatAddress | None) -> None:
    wire = farm.wire()
    async with farm.house(wire) as house:
        await known_to(wire)
        row = await fire(house, place=place)
        await until_asked(wire)
        ask = question(wire)
        assert "Asked for by a scheduled job." in ask.text
        assert [one.conversation.id for one in wire.sent] == ["anna", "anna"], (
            "nothing is said where it reports until it is done"
        )
        assert not house.lanes.busy("agent:main:job:water")
        await wire.say(value(ask, "once"), event="button")
        assert (await answered(house, row)).state == "answered"
        await house.delivery.settled()
        so = [one for one in wire.sent if one.text.startswith("so: ")]
        assert [one.conversation.id for one in so] == (["shed"] if place else [])
        tally = await house.ledger.tally()
        assert (tally.waiting, tally.running, tally.suspended) == (0, 0, 0)
    assert farm.tool.done == ["field"]


async def test_a_restart_between_the_question_and_the_answer_changes_nothing(farm: Farm) -> None:
    first, second = farm.wire(), farm.wire()
    async with farm.house(first) as house:
        await known_to(first)
        row = await fire(house)
        await until_asked(first)
        ask = question(first)
    async with farm.house(second) as house:
        await second.say(value(ask, "once"), event="button")
        await answered(house, row)
        await second.until(lambda: any(one.conversation.id == "shed" for one in second.sent))
    assert farm.tool.done == ["field"]


async def test_a_run_that_waits_keeps_its_session_when_the_job_fires_again(farm: Farm) -> None:
    wire = farm.wire()
    async with farm.house(wire) as house:
        await known_to(wire)
        first = await fire(house, job("plants", fresh=True))
        await until_asked(wire)
        ask = question(wire)
        session = house.agents["main"].store.get("agent:main:job:water").session
        second = await house.inbox.submit(event("look", "2", SHED), to(), job("plants", fresh=True), account="schedule")
        await answered(house, second)
        assert house.agents["main"].store.get("agent:main:job:water").session == session
        assert len(await open_questions(house)) == 1
        await wire.say(value(ask, "once"), event="button")
        await answered(house, first)
        third = await fire(house, job("plants", fresh=True), "3")
        await wire.until(lambda: len([one for one in wire.sent if one.buttons]) == 2)
        assert house.agents["main"].store.get("agent:main:job:water").session != session
        assert third.id > first.id
    assert farm.tool.done == ["field"]


async def test_where_no_chat_of_the_owner_is_known_it_is_not_done(farm: Farm) -> None:
    wire = farm.wire()
    async with farm.house(wire) as house:
        await answered(house, await fire(house))
        await wire.until(lambda: wire.sent)
        assert [one.conversation.id for one in wire.sent] == ["shed"]
    assert farm.tool.done == []


@pytest.mark.parametrize(
    ("origin", "words"),
    [("webhook", "Asked for by a webhook."), ("agent", "Asked for by a sub-agent, or after the result of one.")],
)
async def test_the_question_says_what_asks(farm: Farm, origin: Any, words: str) -> None:
    wire = farm.wire()
    async with farm.house(wire) as house:
        await known_to(wire)
        await fire(house, job("x", origin=origin, source=f"{origin}:x", owner=False))
        await until_asked(wire)
        assert words in question(wire).text
        assert "guest:x" in question(wire).text
        assert "Always** is not possible" in question(wire).text


@pytest.mark.parametrize(("origin", "asked_by"), [("webhook", None), ("agent", "webhook")])
async def test_what_a_mail_started_is_refused_and_nobody_is_asked(farm: Farm, origin: Any, asked_by: Any) -> None:
    wire = farm.wire()
    async with farm.house(wire) as house:
        await known_to(wire)
        mail = job("mail home", origin=origin, source="mail:home", sources=("mail:bob@example.net",), asked_by=asked_by)
        assert (await answered(house, await fire(house, mail))).state == "answered"
        await house.delivery.settled()
        assert await open_questions(house) == []
        assert [one for one in wire.sent if one.buttons] == []
    assert farm.tool.done == []


WRITE = Act(kind="write", summary="change MEMORY.md", path="MEMORY.md", details="x")
SPAWN = Act(kind="spawn", summary="start a sub-agent", details="look")
CALL = ToolCall(id="c", name="write", arguments={})


@parametrize_some(
    3,
    ("origin", "audience", "decision"),
    [
        ("owner", OWNER, "ask"),
        ("schedule", OWNER, "ask"),
        ("schedule", Audience("peer", "telegram-7"), "deny"),
        ("webhook", OWNER, "deny"),
        ("agent", OWNER, "deny"),
        ("guest", Audience("peer", "telegram-7"), "deny"),
    ],
)
@pytest.mark.parametrize("act", [WRITE, SPAWN], ids=lambda act: act.kind)
async def test_who_may_ask_while_untrusted_text_is_in_view(
    farm: Farm, origin: Any, audience: Audience, decision: str, act: Act
) -> None:
    wire = farm.wire()
    async with farm.house(wire) as house:
        await known_to(wire)
        facts = TurnFacts(
            name="t",
            agent="main",
            session="s",
            transcript="x",
            workspace=str(farm.root),
            conversation=wire.sent[0].conversation,
        )
        gate = house.approvals.gate(turn=facts, asked=())
        context = ToolContext(
            now=farm.clock.now(), session="x", turn="t", audience=audience, origin=origin, taint=frozenset({"web:example.org"})
        )
        assert isinstance(gate, ApprovalGate)
        expected = (
            "allow" if act.kind == "spawn" and decision == "deny" else decision
        )  # but only a few: tests/subagents/test_limits.py
        assert (await gate.judge("k", CALL, act, context)).decision == expected


def test_rules_for_an_origin_hold_for_it_alone(tmp_path: Path) -> None:
    rules = {
        "agents": {"defaults": {"workspace": str(tmp_path)}},
        "approvals": {"rules": [{"decision": "allow", "command": "date", "origin": "schedule"}]},
    }
    judged = Rules(lambda: Settings.model_validate(rules), StoredRules(tmp_path))
    act = Act(kind="exec", summary="run date", command="date", argv=("date",), cwd=str(tmp_path))
    origins: tuple[Any, ...] = ("schedule", "webhook", "agent", "guest", "group")
    verdicts = [judged.judge("main", origin, frozenset(), act) for origin in origins]
    assert [one.decision for one in verdicts] == ["allow", *["deny"] * 4], verdicts[0].reason
