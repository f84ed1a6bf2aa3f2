"""A silence in a whole gateway: the prompt is kept in the provider's cache for a while, then the memory is flushed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent.context.cache_refresh import ASKED
from agent.messages import AssistantMessage, Text, ToolCall, ToolMessage, Usage
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]


USED = Usage(cache_read=900)


def obliging(request: Any) -> object:
    last = request.messages[-1]
    if isinstance(last, ToolMessage):
        return "NO_REPLY"
    if "[Memory flush]" in last.text:
        note = {"path": "memory/x.md", "content": "- The key is under the pot.", "mode": "append"}
        return ToolCall(id="w", name="write", arguments=note)
    if last.text == ASKED:
        return AssistantMessage(content=(Text(text="NO_REPLY"),), model="anthropic/claude-opus-4-5", stop="end", usage=USED)
    return "Noted."


async def test_a_silence_of_some_hours_keeps_the_prompt_and_ends_with_a_flush(street: Make) -> None:
    s = street(
        agent={"model": "scripted/model", "cacheRetention": "1h", "cacheRefresh": {"leastTokens": 500}},
        session={"reset": {"mode": "daily", "atHour": 15}},  # in four hours and a half
    )
    s.model.name = "anthropic/claude-opus-4-5"
    s.model.reply_with(obliging)
    async with s.house() as (house, talk):
        await talk.ask("The spare key is under the blue pot. " * 200)
        asked: list[int] = []
        for minute in range(0, 4 * 60, 5):
            before = len(s.model.requests)
            s.clock.move(5 * 60)
            await house.schedule.tick()
            async with asyncio.timeout(PATIENCE):
                while house.lanes.queued("agent:main:main") or house.lanes.busy("agent:main:main"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            asked += [minute + 5] * (len(s.model.requests) - before)
        assert asked == [55, 110, 165, 165], "two calls that ask for nothing, then a flush of two"
        assert talk.replies() == ["Noted."]
        assert {(row.name, row.calls) for row in await house.ledger.spending.usage("2000-01-01", "origin")} == {
            ("owner", 1),
            ("refresh", 2),
            ("", 2),
        }
    assert "under the pot" in s.notes()


async def test_a_server_without_a_cache_is_asked_once_and_not_again(street: Make) -> None:
    s = street(agent={"model": "scripted/model", "cacheRetention": "1h", "cacheRefresh": {"leastTokens": 500}})
    s.model.name = "anthropic/claude-opus-4-5"
    s.model.reply_with(lambda request: "NO_REPLY" if request.messages[-1].text == ASKED else "Noted.")
    async with s.house() as (house, talk):
        await talk.ask("The spare key is under the blue pot. " * 200)
        for _ in range(5 * 12):
            s.clock.move(5 * 60)
            await house.schedule.tick()
            async with asyncio.timeout(PATIENCE):
                while house.lanes.queued("agent:main:main") or house.lanes.busy("agent:main:main"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        assert [request.messages[-1].text == ASKED for request in s.model.requests] == [False, True]
