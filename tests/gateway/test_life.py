"""The life of sessions in a whole house: what is kept of them, what comes along, what the clock does."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.events import TextDelta
from agent.messages import Failure, ToolCall, ToolMessage
from agent.models.scripted import ScriptedModel, Stall
from gateway.ledger.rows import NewOutbound
from gateway.sessions.sessions_file import SessionRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]


def model(title: object = "Teal Garden Door!") -> Callable[[Any], object]:
    def answer(request: Any) -> object:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return "NO_REPLY"
        if "[Title request]" in last.text:
            return title
        return "NO_REPLY" if "[Memory flush]" in last.text else "Heard."

    return answer


def kept(s: Street) -> list[str]:
    return sorted(path.name for path in (s.workspace / "memory").glob("2026-*-*-*.md"))


async def test_the_end_of_a_session_becomes_a_note_that_search_finds(street: Make) -> None:
    s = street()
    s.model.reply_with(model())
    async with s.house() as (house, talk):
        for n in range(10):
            await talk.ask(f"fact {n}: the zebra lives in box {n}")
        await talk.ask("/new")
        await house.agents["main"].quiet()
        assert kept(s) == ["2026-03-01-teal-garden-door.md"]
        text = (s.workspace / "memory" / kept(s)[0]).read_text()
        assert "fact 9" in text
        assert "fact 2:" not in text, "the last fifteen messages of twenty"
        assert text.count("**Agent**") + text.count("**Person**") == 15
        assert "/new" not in text
        answer = await house.agents["main"].memory.search("zebra box 9", audience=house.router.audience("agent:main:main"))
        assert any("teal-garden-door" in hit.path for hit in answer.hits)
        assert house.agents["main"].store.get("agent:main:main").unsaved is None


@pytest.mark.parametrize("odd", ["\0", "\x1b[2J", "\x85", "\x07"])
async def test_control_characters_in_an_answer_do_not_keep_a_session_from_being_noted(street: Make, odd: str) -> None:
    s = street()
    answerer = model()
    s.model.reply_with(
        lambda request: f"The zebra {odd} sleeps." if "where" in request.messages[-1].text[-20:] else answerer(request)
    )
    async with s.house() as (house, talk):
        await talk.ask("where is it")
        await talk.ask("/new")
        await house.agents["main"].quiet()
        [note] = kept(s)
        text = (s.workspace / "memory" / note).read_text()
        assert "The zebra \N{REPLACEMENT CHARACTER}" in text
        assert odd[0] not in text


async def test_without_a_title_the_time_of_day_names_the_note_and_none_is_overwritten(street: Make) -> None:
    s = street()
    s.model.reply_with(model(Failure(kind="overloaded", message="busy")))
    async with s.house() as (house, talk):
        for n in range(3):
            await talk.ask(f"conversation number {n} about the house")
            await talk.ask("/new")
            await house.agents["main"].quiet()
    assert kept(s) == ["2026-03-01-1030-2.md", "2026-03-01-1030-3.md", "2026-03-01-1030.md"]


async def test_titles_that_are_speeches_are_no_titles(street: Make) -> None:
    s = street()
    s.model.reply_with(model("Sure! Here is a title for the conversation that you gave me: Garden"))
    async with s.house() as (house, talk):
        await talk.ask("we talked about the garden")
        await talk.ask("/new")
        await house.agents["main"].quiet()
    assert kept(s) == ["2026-03-01-1030.md"]


async def test_what_the_notebook_says_of_itself_is_not_kept(street: Make) -> None:
    s = street(agent={"model": "offline/notebook"})
    async with s.house() as (house, talk):
        await talk.ask("remember that the spare key is under the blue pot")
        await talk.ask("where is the zebra?")
        await talk.ask("/new")
        await house.agents["main"].quiet()
    [name] = kept(s)
    text = (s.workspace / "memory" / name).read_text()
    assert "blue pot" in text
    assert "**Agent**" not in text


async def test_nothing_is_kept_where_nothing_was_said_or_the_hook_is_off(street: Make) -> None:
    s = street(hooks={"internal": {"entries": {"session-memory": {"enabled": False}}}})
    s.model.reply_with(model())
    async with s.house() as (house, talk):
        await talk.ask("we talked about the garden")
        await talk.ask("/new")
        await talk.ask("/new")
        await house.agents["main"].quiet()
    assert kept(s) == []


async def test_a_note_that_a_crash_prevented_is_written_at_the_next_start(street: Make) -> None:
    s = street()
    s.model.reply_with(model())
    async with s.house() as (house, talk):
        facts = await talk.ask("we talked about the garden")
        record = house.agents["main"].store.get("agent:main:main")
        await house.agents["main"].store.put(
            SessionRecord(
                session="next", key=record.key, started=record.started, spoken=record.spoken, unsaved=facts["sessionId"]
            )
        )
    for _ in range(2):
        async with s.house() as (house, _):
            await house.agents["main"].quiet()
            assert house.agents["main"].store.get("agent:main:main").unsaved is None
        assert kept(s) == ["2026-03-01-teal-garden-door.md"]


async def test_pins_come_along_into_the_next_session(street: Make) -> None:
    s = street()
    s.model.reply_with(model())
    async with s.house() as (_, talk):
        assert "Nothing is pinned" in (await talk.ask("/pin"))["reply"]
        await talk.ask("/pin Never mail the tax office.")
        await talk.ask("/pin The cat is Mio.")
        await talk.ask("hello there")
        assert "Never mail the tax office." in str(s.model.requests[-1].messages)
        await talk.ask("/new")
        await talk.ask("hello again")
        assert "Never mail the tax office." in str(s.model.requests[-1].system)
        assert "1. Never mail" in (await talk.ask("/unpin 9"))["reply"]
        assert "Removed the pin" in (await talk.ask("/unpin 1"))["reply"]
        assert (await talk.ask("/pin"))["reply"].count("1. ") == 1
    async with s.house() as (_, talk):
        assert "Mio" in (await talk.ask("/pin"))["reply"]
        await talk.ask("/new")
        await talk.ask("good evening to you")
        assert "tax office" not in str(s.model.requests[-1].system)


async def test_why_tells_what_the_last_answer_rested_on(street: Make) -> None:
    s = street()
    (s.workspace / "memory").mkdir(parents=True)
    (s.workspace / "memory" / "2026-03-01.md").write_text("- The gate code is 4711.\n- The roof leaks.\n")
    async with s.house() as (_, talk):
        assert "not answered" in (await talk.ask("/why"))["reply"]
        await talk.ask("/pin Be brief.")
        s.model.then(ToolCall(id="m", name="memory_search", arguments={"query": "gate code"}), "It is 4711.")
        await talk.ask("what is the gate code?")
        why = (await talk.ask("/why"))["reply"]
    assert "AGENTS.md" in why
    assert "memory/2026-03-01.md: 2 lines" in why
    assert "Pinned: Be brief." in why
    assert "memory_search “gate code”: memory/2026-03-01.md:1" in why
    assert "(0." in why or "(1." in why


async def test_flush_receipts_and_compactions_are_in_the_status(street: Make) -> None:
    s = street()
    s.model.reply_with(
        lambda request: (
            ToolCall(id="w", name="write", arguments={"path": "x", "content": "- teal it is", "mode": "append"})
            if not isinstance(request.messages[-1], ToolMessage) and "[Memory flush]" in request.messages[-1].text
            else "NO_REPLY"
            if isinstance(request.messages[-1], ToolMessage)
            else "Heard."
        )
    )
    async with s.house() as (_, talk):
        await talk.ask("we chose teal for the door")
        compacted = (await talk.ask("/compact"))["reply"]
        status = (await talk.ask("/status"))["reply"]
    assert compacted.startswith("🧹 There is nothing to compact (")
    assert compacted.endswith(" tokens): the conversation is still short.")
    assert re.search(r"; last: written Sun 01 Mar \d\d:\d\d: memory", status)
    assert "memory/2026-03-01.md +" in status


async def test_a_changed_workspace_file_is_named_as_the_place_where_the_cache_is_lost(street: Make, caplog: Any) -> None:
    s = street()
    s.model.reply_with(lambda _: "ok")
    async with s.house() as (_, talk):
        await talk.ask("one")
        await talk.ask("two")
        assert "last changed" not in (await talk.ask("/context detail"))["reply"]
        assert "the prompt changed" not in caplog.text
        soul = s.workspace / "SOUL.md"
        soul.write_text("Be kind.\n" + soul.read_text())
        await talk.ask("three")
        assert "the prompt changed" not in caplog.text, "the model is told, while the provider has the prompt"
        assert "+ Be kind." in str(s.model.requests[-1].messages)
        s.clock.move(3601)
        await talk.ask("four")
        detail = (await talk.ask("/context detail"))["reply"]
    assert "The prompt last changed in system text: SOUL.md, byte 11" in detail
    assert "the prompt changed in system text: SOUL.md" in caplog.text


async def test_only_sessions_whose_time_has_come_are_looked_at(street: Make) -> None:
    s = street(session={"reset": {"mode": "idle", "idleMinutes": 30}})
    s.model.reply_with(model())
    async with s.house() as (house, _):
        store = house.agents["main"].store
        asked: list[str] = []
        get = store.get
        await house.schedule.tick()
        for n in range(50):
            await store.put(
                SessionRecord(session=f"x{n}", key=f"agent:main:s{n}", started=s.clock.now(), spoken=s.clock.now(), turns=1)
            )
        store.get = lambda key: asked.append(key) or get(key)
        await house.schedule.tick()
        assert asked == []
        s.clock.move(31 * 60)
        await house.schedule.tick()
        assert len(set(asked)) == 50
        await house.lanes.quiet()
        assert all(get(f"agent:main:s{n}").session != f"x{n}" for n in range(50))
        asked.clear()
        await house.schedule.tick()
        s.clock.move(3600)
        await house.schedule.tick()
        assert {key for key in asked if get(key).turns} == set()


async def test_sessions_left_long_ago_are_forgotten_and_packed_and_nothing_else(street: Make) -> None:
    s = street(session={"maintenance": {"pruneAfter": "30d"}})
    s.model.reply_with(model())
    async with s.house() as (house, talk):
        await talk.ask("hello there everybody", session="old")
        await talk.ask("hello there everybody", session="busy")
        await talk.ask("/new", session="old")
        agent = house.agents["main"]
        await agent.quiet()
        s.clock.move(timedelta(days=40).total_seconds())
        await agent.maintain()
        assert agent.store.get("agent:main:old") is None
        assert agent.store.get("agent:main:busy") is not None, "it was never left"
        s.clock.set(datetime.now(UTC) + timedelta(days=30))
        await agent.maintain()
        assert len(list((Path(agent.store.transcripts.where) / "archive").glob("*.jsonl.gz"))) == 1
        assert (await talk.ask("hello again", session="old"))["reply"] == "Heard."


async def test_a_house_that_served_flushes_before_it_closes_when_something_was_said(street: Make) -> None:
    s = street()
    s.model.reply_with(model())
    async with s.house() as (house, talk):
        await talk.ask("the gate code is 4711")
        s.model.requests.clear()
        await house.agents["main"].settle(5, flushing=True)
        assert sum("[Memory flush]" in r.messages[-1].text for r in s.model.requests) == 1
        await house.agents["main"].settle(5, flushing=True)
        assert len(s.model.requests) == 1


async def test_new_with_a_model_and_undo_back(street: Make) -> None:
    s = street()
    s.model.reply_with(model())
    async with s.house() as (house, talk):
        first = await talk.ask("hello there")
        assert (await talk.ask("/new nosuch/model"))["exit"] == 4
        assert (await talk.ask("hello"))["sessionId"] == first["sessionId"]
        await talk.ask("/new scripted/model")
        assert house.agents["main"].store.get("agent:main:main").model == "scripted/model"
        await asyncio.sleep(0)
        await talk.ask("/undo")
        assert (await talk.ask("hello"))["sessionId"] == first["sessionId"]


async def test_a_reset_that_cannot_be_written_down_is_made_later_with_one_flush_in_all(street: Make) -> None:
    s = street()
    s.model.reply_with(model())
    async with s.house() as (house, talk):
        first = await talk.ask("the gate code is 4711")
        folder = Path(house.agents["main"].store.transcripts.where)
        aside = folder / "aside"
        (folder / "sessions.json.changes").rename(aside)
        (folder / "sessions.json.changes").mkdir()
        assert (await talk.ask("/new"))["exit"] != 0
        (folder / "sessions.json.changes").rmdir()
        aside.rename(folder / "sessions.json.changes")
        assert (await talk.ask("hello"))["sessionId"] == first["sessionId"], "the former stands"
        s.model.requests.clear()
        assert (await talk.ask("/new"))["exit"] == 0
        await house.agents["main"].quiet()
        flushes = [r for r in s.model.requests if "[Memory flush]" in r.messages[-1].text]
        assert len(flushes) <= 1
        assert (await talk.ask("hello"))["sessionId"] != first["sessionId"]
    assert s.notes().count("4711") >= 1


async def test_what_came_too_late_is_told_and_comes_when_it_is_asked_for(street: Make) -> None:
    s = street()
    s.model = ScriptedModel(model())
    async with s.house() as (house, talk):
        await talk.ask("hello")
        place = (await house.ledger.outbox.latest(["ready", "sending", "sent"]))[0].conversation
        await house.ledger.outbox.enqueue(
            [NewOutbound(conversation=place, text="the soup is ready", ttl=timedelta(seconds=-1))]
        )
        await talk.until(lambda: any("could not be delivered in time" in reply for reply in talk.replies()))
        assert "the soup is ready" not in talk.replies()
        assert "1 message" in (await talk.ask("/missed"))["reply"]
        await talk.until(lambda: "the soup is ready" in talk.replies())
        assert (await talk.ask("/missed"))["reply"] == "There are no missed replies here."


async def test_a_turn_that_is_cut_because_its_agent_is_given_up_does_not_count_as_an_attempt(street: Make) -> None:
    s = street()
    s.model.then([TextDelta("well "), Stall()])
    async with s.house() as (house, talk):
        await talk.send("think for ever")
        await talk.until(lambda: talk.frames)
        await house.lanes.forget(lambda _: True, 0.05)  # what a gateway of a cluster does that rests
        ((turn,), (row,)) = await house.ledger.turns.unfinished(), await house.ledger.inbox.latest(("claimed",))
        assert (turn.state, turn.attempt, row.attempts) == ("running", 0, 0)
