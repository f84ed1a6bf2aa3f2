"""A sub-agent is started, works apart, and its result comes back as a message that the person's session answers once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.subagents.conftest import MAIN, Cast, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]


async def test_the_result_is_answered_once_where_the_person_asked(street: Make) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    cast.says(
        "main",
        [cast.spawn("⟨beans⟩ Count the beans in the jar.", label="beans")],
        "I have somebody count.",
        "There are 42 beans.",
    )
    cast.says("beans", "I counted 42 beans.")
    async with s.house() as (house, talk):
        await talk.ask("how many beans are there?")
        await talk.until(lambda: "There are 42 beans." in talk.replies())
        await settled(house)
        assert talk.replies() == ["I have somebody count.", "There are 42 beans."]
        told = cast.seen["main"][-1]
        assert "I counted 42 beans." in told
        assert "[from sub-agent “beans”" in told or "from sub-agent “beans”" in told
        assert "Count the beans in the jar" in told, "a fresh conversation knows what it was about"
        (sub,) = await house.ledger.subagents.all(ended_since=s.clock.now().replace(year=2000))
        assert (sub.state, sub.depth, sub.parent) == ("done", 1, MAIN)
        assert house.agents["main"].store.get(sub.session).turns == 1


async def test_it_is_given_its_task_and_how_to_work_and_nothing_private(street: Make) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    cast.says("main", [cast.spawn("⟨x⟩ Look.")], "Started.", "Done.")
    cast.says("x", "Looked.")
    s.workspace.mkdir(parents=True)
    for name in ("MEMORY.md", "USER.md", "SOUL.md", "AGENTS.md", "TOOLS.md"):
        (s.workspace / name).write_text(f"these are the words of {name}")
    async with s.house() as (house, talk):
        await talk.ask("go")
        await settled(house)
    (request,) = cast.requests["x"]
    system = "\n".join(segment.text for segment in request.system)
    assert "words of AGENTS.md" in system
    assert "words of TOOLS.md" in system
    assert not any(f"words of {name}" in system for name in ("MEMORY.md", "USER.md", "SOUL.md"))
    assert "go" not in [message.text for message in request.messages]
    names = {tool.name for tool in request.tools}
    assert names.isdisjoint({"message", "send_file", "cron"})
    assert {"read", "spawn", "sessions"} <= names
