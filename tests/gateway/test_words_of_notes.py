"""What the owner is told of notes is what happened to them: in the answer to /new, after a reset by the clock, in /status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.messages import Failure, ToolCall, ToolMessage
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]

NOTE = object()
"""A model that writes a note, another one each time."""


def model(flushed: object) -> Callable[[Any], object]:
    flushes: list[object] = []

    def answer(request: Any) -> object:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return "NO_REPLY"
        if "[Memory flush]" not in last.text or flushed is not NOTE:
            return flushed if "[Memory flush]" in last.text else "Heard."
        flushes.append(request)
        arguments = {"path": "x", "content": f"## API\nUse version {len(flushes)}.", "mode": "append"}
        return ToolCall(id="w", name="write", arguments=arguments)

    return answer


@parametrize_some(3, ("flushed", "agent", "told"),
    [
        (NOTE, {}, "What mattered in the last one is in memory/2026-03-01.md."),
        ("NO_REPLY", {}, "What was said in the last one is in memory/2026-03-01.md, word for word."),
        (Failure(kind="overloaded", message="busy"), {}, "What was said in the last one is in memory/2026-03-01.md, word for word."),
        (
            "NO_REPLY",
            {"compaction": {"memoryFlush": {"verbatim": False}}},
            "There was nothing new to note of the last one.",
        ),
        (NOTE, {"sandbox": {"workspaceAccess": "ro"}}, "Nothing of the last one was noted: the workspace may not be changed"),
        (NOTE, {"sandbox": {"workspaceAccess": "none"}}, "Nothing of the last one was noted: the workspace may not be changed"),
        (NOTE, {"compaction": {"memoryFlush": {"enabled": False}}}, "Nothing of the last one was noted: the memory flush is off"),
        (NOTE, {"compaction": {"memoryFlush": {"onReset": False}}}, "Nothing of the last one was noted: resets are not flushed"),
    ],
    ids=["written", "lazy", "failing", "nothing", "read only", "closed", "off", "not on reset"],
)  # fmt: skip
async def test_a_fresh_start_says_what_became_of_the_notes(street: Make, flushed: object, agent: Any, told: str) -> None:
    s = street(agent=agent)
    s.model.reply_with(model(flushed))
    async with s.house() as (house, talk):
        await talk.ask("We use REST for the API.")
        assert told in (await talk.ask("/new"))["reply"]
        assert (s.workspace / "memory" / "2026-03-01.md").exists() == ("memory/2026-03-01.md" in told)
        await talk.ask("The roof of the shed is teal.")
        s.clock.move(20 * 3600)
        await house.schedule.tick()
        await house.lanes.quiet()
        reply = (await talk.ask("good morning to you"))["reply"]
        assert reply
        greeting = next(text for text in reversed(talk.replies()) if "New conversation" in text)
        assert told.partition(":")[0].rstrip(".") in greeting


async def test_the_status_says_when_memory_is_flushed_and_why_it_never_is(street: Make) -> None:
    s = street(agent={"sandbox": {"workspaceAccess": "ro"}})
    s.model.reply_with(model("NO_REPLY"))
    async with s.house() as (_, talk):
        await talk.ask("hello there")
        assert "Memory is not flushed: the workspace may not be changed" in (await talk.ask("/status"))["reply"]
        assert "Memory is not flushed" in (await talk.ask("/context"))["reply"]


async def test_nothing_is_said_of_notes_where_nothing_was_said(street: Make) -> None:
    s = street()
    s.model.reply_with(model("NO_REPLY"))
    async with s.house() as (_, talk):
        await talk.ask("hello there")
        await talk.ask("/new")
        assert (await talk.ask("/new"))["reply"] == "🌱 New conversation. /undo restores the previous one."
