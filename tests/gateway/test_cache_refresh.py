"""A silence in a whole gateway: the prompt is kept in the provider's cache for a while, then the memory is flushed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent.context.cache_refresh import ASKED
from agent.messages import ToolCall, ToolMessage
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]


def obliging(request: Any) -> object:
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return "NO_REPLY"
    if "[Memory flush]" in last.text:
        note = {"path": "memory/x.md", "content": "- The key is under the pot.", "mode": "append"}
        return ToolCall(id="w", name="write", arguments=note)
    return "NO_REPLY" if last.text == ASKED else "Noted."


async def test_a_silence_of_some_hours_keeps_the_prompt_and_ends_with_a_flush(street: Make) -> None:
    s = street(agent={"model": "scripted/model", "cacheRetention": "1h", "cacheRefresh": {"leastTokens": 500}})
    s.model.name = "anthropic/claude-opus-4-5"
    s.model.reply_with(obliging)
    async with s.house() as (house, talk):
        await talk.ask("The spare key is under the blue pot. " * 200)
        asked: list[int] = []
        for minute in range(0, 5 * 60, 5):
            before = len(s.model.requests)
            s.clock.move(5 * 60)
            await house.schedule.tick()
            async with asyncio.timeout(PATIENCE):
                while house.lanes.queued("agent:main:main") or house.lanes.busy("agent:main:main"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            asked += [minute + 5] * (len(s.model.requests) - before)
        assert asked == [55, 110, 165, 165], "two calls that ask for nothing, then a flush of two"
        assert talk.replies() == ["Noted."]
    assert "under the pot" in s.notes()
