from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from agent.events import TextDelta
from agent.messages import Failure, ToolCall, ToolMessage
from agent.models.scripted import ScriptedModel, Stall
from channels.live import Activity, Delta, Rejected
from gateway.base.errors import AlreadyRunning
from gateway.ledger.rows import Arrival
from gateway.ledger.sqlite import SqliteLedger
from gateway.routing.routed_message import decode_message, encode_message
from memory.audience import OWNER

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.models.protocol import Request
    from tests.gateway.conftest import Street

    Make = Callable[..., Street]


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"{name}-1", name=name, arguments=arguments)


def flushing(fact: str) -> Callable[[Request], Any]:
    """A model that writes ``fact`` when it is asked to flush, and says "Heard." otherwise."""

    def answer(request: Request) -> Any:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return "NO_REPLY"
        if "[Memory flush]" in last.text:
            return call("write", path="x.md", content=fact, mode="append")
        return "Heard."

    return answer


async def test_a_message_gets_its_reply_and_its_facts(street: Make) -> None:
    s = street()
    s.model.then([TextDelta("Hel"), TextDelta("lo!")])
    async with s.house() as (_, talk):
        facts = await talk.ask("hi")
    assert facts["reply"] == "Hello!"
    assert talk.replies() == ["Hello!"]
    assert (facts["agent"], facts["sessionKey"], facts["model"]) == ("main", "agent:main:main", "scripted/model")
    assert facts["usage"]["input"] > 0
    assert facts["context"]["window"] == 200_000
    assert "".join(f.text for f in talk.frames if isinstance(f, Delta)) == "Hello!"


async def test_what_tools_do_is_shown(street: Make) -> None:
    s = street()
    s.model.then(call("read", path="AGENTS.md"), "Read.")
    async with s.house() as (_, talk):
        facts = await talk.ask("read your rules")
    assert [f.state for f in talk.frames if isinstance(f, Activity)] == ["started", "finished"]
    assert facts["toolCalls"][0]["name"] == "read"


async def test_messages_of_one_session_are_answered_in_order(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda request: f"re: {request.messages[-1].text.splitlines()[-1]}")
    async with s.house() as (_, talk):
        keys = [await talk.send(str(n)) for n in range(5)]
        for key in keys:
            await talk.facts(key)
    assert talk.replies() == [f"re: {n}" for n in range(5)]


async def test_a_message_said_twice_under_one_key_is_answered_once(street: Make) -> None:
    s = street()
    s.model.then("once", "never")
    async with s.house() as (house, talk):
        await talk.link.say("hi", key="same")
        await talk.link.say("hi", key="same")
        await talk.facts("same")
        await house.lanes.quiet()
    assert talk.replies() == ["once"]
    assert s.model.left == 1


async def test_stop_ends_the_turn_and_the_next_message_is_answered(street: Make) -> None:
    s = street()
    s.model.then([TextDelta("I begin"), Stall()], "Here again.")
    async with s.house() as (_, talk):
        first = await talk.send("long work")
        await talk.until(lambda: any(isinstance(f, Delta) for f in talk.frames))
        stopped = await talk.ask("/stop")
        assert "Stopped" in stopped["reply"]
        assert (await talk.facts(first))["reply"] == ""
        assert (await talk.ask("hello?"))["reply"] == "Here again."
    assert "I begin" not in "".join(talk.replies())


async def test_a_turn_that_the_end_of_the_house_cut_short_goes_on_at_the_next_start(street: Make) -> None:
    s = street()
    s.model.then(call("list", path="."), [TextDelta("half"), Stall()])
    async with s.house() as (house, talk):
        await talk.send("question")
        await talk.until(lambda: any(isinstance(f, Delta) for f in talk.frames))
        closing = asyncio.ensure_future(house.lanes.drain(0.01))
        assert await closing == 1
    s.model.then("the whole answer")
    async with s.house() as (house, talk):
        await talk.until(talk.replies)
        await house.lanes.quiet()
    assert talk.replies() == ["the whole answer"]
    said = [m.role for m in s.model.requests[-1].messages]
    assert said == ["user", "assistant", "tool"], "the finished tool call was kept and not run again"


async def test_a_message_that_was_taken_but_not_begun_is_answered_after_a_restart(street: Make) -> None:
    s = street()
    async with s.house() as (house, talk):
        await house.lanes.drain(0)
        await talk.send("are you there?")
        assert s.model.requests == []
    s.model.then("yes")
    async with s.house() as (_, talk):
        await talk.until(talk.replies)
    assert talk.replies() == ["yes"]


async def test_new_flushes_what_was_said_and_undo_brings_it_back(street: Make) -> None:
    s = street()
    s.model.reply_with(flushing("- The gate code is 4711."))
    async with s.house() as (_, talk):
        first = await talk.ask("the gate code is 4711")
        assert "New conversation" in (await talk.ask("/new"))["reply"]
        assert "4711" in s.notes()
        second = await talk.ask("hello")
        assert second["sessionId"] != first["sessionId"]
        assert "4711" in s.model.requests[-1].system[-1].text, "the new session is given today's note"
        assert "Restored the conversation" in (await talk.ask("/undo"))["reply"]
        assert (await talk.ask("hello again"))["sessionId"] == first["sessionId"]


async def test_the_daily_reset_waits_for_quiet_flushes_and_is_told_with_the_next_answer(street: Make) -> None:
    s = street()
    s.model.reply_with(flushing("- We chose teal."))
    async with s.house() as (house, talk):
        first = await talk.ask("we chose teal")
        s.clock.set(datetime(2026, 3, 2, 2, 50, tzinfo=UTC))
        await talk.ask("still awake")
        s.clock.set(datetime(2026, 3, 2, 3, 5, tzinfo=UTC))
        await house.schedule.tick()
        await house.lanes.quiet()
        assert s.notes() == "", "04:05 in Berlin, but somebody spoke 15 minutes ago"
        s.clock.set(datetime(2026, 3, 2, 3, 25, tzinfo=UTC))
        await house.schedule.tick()
        await house.lanes.quiet()
        assert "teal" in s.notes()
        before = len(talk.replies())
        s.clock.set(datetime(2026, 3, 2, 8, 0, tzinfo=UTC))
        facts = await talk.ask("good morning")
        assert facts["sessionId"] != first["sessionId"]
        assert "New conversation" in talk.replies()[before]
        assert talk.replies()[before + 1] == "Heard."
        await talk.ask("and again")
        assert talk.replies()[before + 2 :] == ["Heard."], "told once"


async def test_the_next_message_resets_too_when_no_scheduler_was_awake(street: Make) -> None:
    s = street()
    s.model.reply_with(flushing("- Teal."))
    async with s.house() as (_, talk):
        first = await talk.ask("teal")
    s.clock.set(datetime(2026, 3, 5, 8, 0, tzinfo=UTC))
    async with s.house() as (house, talk):
        facts = await talk.ask("good morning")
        assert facts["sessionId"] != first["sessionId"]
        flushes = sum(
            "[Memory flush]" in r.messages[-1].text for r in s.model.requests if not isinstance(r.messages[-1], ToolMessage)
        )
        assert flushes == 1
        s.clock.set(datetime(2026, 3, 6, 8, 0, tzinfo=UTC))
        s.model.requests.clear()
        await house.schedule.tick()
        await house.lanes.quiet()
        await house.agents["main"].quiet()
        s.clock.set(datetime(2026, 3, 7, 8, 0, tzinfo=UTC))
        s.model.requests.clear()
        await house.schedule.tick()
        await house.lanes.quiet()
        assert s.model.requests == [], "a session in which nothing was said since the reset costs nothing"


async def test_a_failing_model_is_told_with_an_exit_code(street: Make) -> None:
    s = street()
    s.model.then(Failure(kind="auth", message="The key was refused.", hint="export KEY"))
    async with s.house() as (_, talk):
        facts = await talk.ask("hi")
    assert facts["exit"] == 4
    assert "The key was refused." in talk.replies()[0]


async def test_an_unknown_model_is_told_and_nothing_is_lost(street: Make) -> None:
    s = street()
    async with s.house() as (_, talk):
        facts = await talk.ask("hi", model="nosuch/model")
        assert facts["exit"] == 4
        assert "nosuch" in facts["reply"]
        s.model.then("still here")
        assert (await talk.ask("hi"))["reply"] == "still here"


async def test_an_unknown_agent_is_told(street: Make) -> None:
    s = street()
    async with s.house() as (_, talk):
        facts = await talk.ask("hi", agent="nobody")
    assert facts["exit"] == 2
    assert "nobody" in talk.replies()[0]


async def test_a_message_of_five_megabytes_is_kept_as_a_file_and_answered(street: Make) -> None:
    s = street()
    s.model.then("That is long.")
    async with s.house() as (_, talk):
        facts = await talk.ask("word " * 1_000_000)
    assert facts["reply"] == "That is long."
    kept = list((s.workspace / "inbox").glob("*.txt"))
    assert sum(path.stat().st_size for path in kept) >= 5_000_000 - 1
    assert all(path.name in s.model.requests[0].messages[0].text for path in kept)
    assert len(s.model.requests[0].messages[0].text) < 120_000, "an eighth of the window"


async def test_odd_texts_are_answered(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "ok")
    async with s.house() as (_, talk):
        for text in ("nul \0 inside", "lone \ud800 surrogate", "\u202eright to left", "👩‍👩‍👧‍👦" * 50):
            assert (await talk.ask(text))["reply"] == "ok"
        assert (await talk.ask("   "))["reply"] == ""


async def test_a_second_house_on_the_same_state_is_refused(street: Make) -> None:
    s = street()
    async with s.house():
        with pytest.raises(AlreadyRunning):
            async with s.house():
                pass


async def test_two_agents_have_their_own_workspace_and_sessions(street: Make, tmp_path: Any) -> None:
    s = street(
        agents={
            "defaults": {"model": "scripted/model", "userTimezone": "UTC"},
            "list": [
                {"id": "main", "workspace": str(tmp_path / "workspace")},
                {"id": "work", "workspace": str(tmp_path / "work")},
            ],
        }
    )
    s.model.then(call("write", path="memory/2026-03-01.md", content="- secret of main", mode="append"), "noted")
    s.model.then(call("grep", pattern="secret"), "nothing")
    async with s.house() as (_, talk):
        await talk.ask("note this")
        facts = await talk.ask("what is the secret?", agent="work")
    assert facts["agent"] == "work"
    assert "secret of main" not in str(s.model.requests[-1])


async def test_commands_answer_without_a_model(street: Make) -> None:
    s = street()
    async with s.house() as (_, talk):
        for text, expected in {
            "/help": "/compact",
            "/status": "Running",
            "/context": "tokens",
            "/context detail": "AGENTS.md",
            "/tools": "memory_search",
            "/whoami": "owner",
            "/model": "scripted/model",
            "/verbose on": "Notices",
            "/undo": "no previous",
            "/compact": "nothing to compact",
        }.items():
            assert expected in (await talk.ask(text))["reply"], text
    assert s.model.requests == []


async def test_a_fallback_answers_when_the_first_choice_is_down_and_says_who_it_was(street: Make) -> None:
    s = street(agent={"model": {"primary": "scripted/model", "fallbacks": ["second/model", "nosuch/thing"]}})
    s.model.then(Failure(kind="auth", message="The key was refused."))
    second = ScriptedModel(["I stand in."], name="second/model")
    async with s.house() as (house, talk):
        house.model_registry.put("second/model", second)
        facts = await talk.ask("hi")
    assert (facts["reply"], facts["model"]) == ("I stand in.", "second/model")


async def test_an_agent_has_the_tools_that_its_settings_leave_it(street: Make) -> None:
    s = street(agent={"tools": {"allow": ["read", "grep", "memory_*", "apply_patch"], "deny": ["grep"]}})
    s.model.then("ok")
    async with s.house() as (_, talk):
        await talk.ask("hi")
    assert [tool.name for tool in s.model.requests[0].tools] == ["apply_patch", "memory_get", "memory_search", "read"]


async def test_whoever_waits_behind_many_is_told(street: Make) -> None:
    s = street()
    gate = asyncio.Event()
    s.model.reply_with(lambda _request: [Stall(gate), TextDelta("ok")])
    async with s.house() as (_, talk):
        keys = [await talk.send(str(n)) for n in range(12)]
        await talk.until(lambda: sum("Queued" in text for text in talk.replies()) == 2)
        gate.set()
        for key in keys:
            await talk.facts(key)
    told = [text.partition(".")[0] for text in talk.replies() if "Queued" in text]
    assert told == ["⏳ Queued, 5 ahead", "⏳ Queued, 10 ahead"]


async def test_an_old_interrupted_turn_asks_instead_of_going_on(street: Make) -> None:
    s = street()
    s.model.then("hello")
    async with s.house() as (_, talk):
        await talk.ask("water the plants")
    ledger = await SqliteLedger.open(s.root / "home" / "state" / "ledger.sqlite", s.clock)
    (row,) = await ledger.inbox.rows([1])
    said = replace(decode_message(row)[0], key="k2", alias="k2")
    payload = encode_message(said, *decode_message(row)[1:])
    again = Arrival(
        key="k2",
        alias="k2",
        conversation=row.conversation,
        session=row.session,
        sender=row.sender,
        payload=payload,
        received_at=s.clock.now(),
    )
    taken = await ledger.inbox.accept(row.account, [again])
    await ledger.turns.claim(str(row.session), "main", [taken.rows[0].id])
    await ledger.close()
    s.clock.move(40 * 60)
    async with s.house() as (house, talk):
        await talk.until(talk.replies)
        assert await house.ledger.turns.unfinished() == []
    assert "water the plants" in talk.replies()[0]
    assert "go on" in talk.replies()[0]
    assert len(s.model.requests) == 1


async def test_the_history_of_a_note_names_the_agent_its_session_and_its_turn(street: Make) -> None:
    s = street()
    s.model.then(call("write", path="memory/2026-03-01.md", content="- teal", mode="append"), "noted")
    async with s.house() as (house, talk):
        facts = await talk.ask("we chose teal")
        memory = house.agents["main"].memory
        assert memory is not None
        (version,) = await memory.history.log(audience=OWNER, path="memory/2026-03-01.md")
    assert (version.author.kind, version.author.name, version.author.session) == ("agent", "main", facts["sessionId"])
    assert version.author.turn


async def test_a_fresh_conversation_that_is_stopped_while_notes_are_written_is_told_and_leaves_the_old_one(
    street: Make,
) -> None:
    s = street()
    s.model.reply_with(lambda request: [Stall()] if "[Memory flush]" in request.messages[-1].text else "Heard.")
    async with s.house() as (_, talk):
        before = await talk.ask("my boat is called Wilma")
        key = await talk.send("/new")
        await talk.until(lambda: any(isinstance(f, Activity) and "notes" in f.text for f in talk.frames))
        while "[Memory flush]" not in s.model.requests[-1].messages[-1].text:  # noqa: ASYNC110 - a scripted model tells nobody
            await asyncio.sleep(0.01)
        await talk.link.stop()
        told = await talk.until(lambda: next((f for f in talk.frames if isinstance(f, Rejected) and f.key == key), None))
        assert "goes on as it was" in told.reason
        after = await talk.ask("still there?")
    assert after["sessionId"] == before["sessionId"]


async def test_a_workspace_that_is_gone_is_not_made_anew_in_silence(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "Heard.")
    async with s.house() as (house, talk):
        await talk.ask("hi")
        assert not any("made anew" in notice for notice in house.notices.told)
    shutil.rmtree(s.workspace)
    async with s.house() as (house, _):
        assert any("not mounted" in notice and "memory undo" in notice for notice in house.notices.told)


async def test_a_tool_that_fails_is_shown_with_its_reason(street: Make) -> None:
    s = street()
    s.model.then(call("read", path="nowhere.md"), "It is not there.")
    async with s.house() as (_, talk):
        await talk.ask("read it")
    failed = [f.text for f in talk.frames if isinstance(f, Activity) and f.state == "failed"]
    assert len(failed) == 1
    assert failed[0].startswith("read nowhere.md: ")
