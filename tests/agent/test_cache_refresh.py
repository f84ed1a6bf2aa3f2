from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from agent.context import cache_refresh
from agent.context.cache_retention import cheaper
from agent.context.window import is_cold
from agent.messages import AssistantMessage, Failure, Text, Usage
from agent.transcript.entries import CacheRefreshed

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from tests.agent.conftest import Room

    Make = Callable[..., Room]

HOUR = 3600.0
MINUTE = 60.0
KEPT = AssistantMessage(
    content=(Text(text="NO_REPLY"),), model="anthropic/claude-opus-4-5", stop="end", usage=Usage(cache_read=900)
)
RULES = {"cacheRetention": "1h", "cacheRefresh": {"leastTokens": 500}}


async def talked(make: Make, *answers: object, settings: dict[str, Any] | None = None) -> Room:
    r = make("Noted.", *answers, settings={**RULES, **(settings or {})})
    r.model.name = "anthropic/claude-opus-4-5"
    await r.say("The spare key is under the blue pot. " * 200)
    return r


def due(r: Room, *, spoken: datetime, ends: datetime | None = None) -> str | None:
    assert r.conversation is not None
    now = r.clock.now()
    return cache_refresh.due(r.conversation, spoken=spoken, ends=lambda: ends, now=now)


@pytest.mark.parametrize(
    ("minutes", "wanted"), [(1, None), (53, None), (55, "refresh"), (58, "refresh"), (59.5, None), (90, None)]
)
async def test_a_prompt_is_read_again_shortly_before_it_is_forgotten(room: Make, minutes: float, wanted: str | None) -> None:
    r = await talked(room)
    spoken = r.clock.now()
    r.clock.move(minutes * MINUTE)
    assert due(r, spoken=spoken) == wanted


async def test_the_call_extends_the_prompt_by_one_message_and_counts_as_the_last_one(room: Make) -> None:
    r = await talked(room, "NO_REPLY")
    assert r.conversation is not None
    before = r.model.requests[-1]
    r.clock.move(55 * MINUTE)
    assert await cache_refresh.refresh(r.conversation, "refresh")
    asked = r.model.requests[-1]
    assert asked.system == before.system
    assert asked.tools == before.tools
    assert asked.messages[: len(before.messages)] == before.messages
    assert asked.messages[-1].text == cache_refresh.ASKED
    assert asked.background
    r.clock.move(55 * MINUTE)
    assert not is_cold(r.conversation.transcript.entries, r.clock.now(), HOUR)
    assert (await r.open()).messages()[-1].text == "Noted.", "nobody sees it in the history, after a restart neither"


async def test_the_last_time_the_memory_is_flushed_and_only_if_there_is_something_to_flush(room: Make) -> None:
    r = await talked(room, KEPT, KEPT, "NO_REPLY")
    assert r.conversation is not None
    spoken, seen = r.clock.now(), []
    for _ in range(5):
        r.clock.move(55 * MINUTE)
        seen.append(due(r, spoken=spoken))
        if seen[-1] == "refresh":
            assert await cache_refresh.refresh(r.conversation, "refresh")
        elif seen[-1] == "flush":
            await cache_refresh.flush.flush(r.conversation, "leave", "quiet")
    assert seen == ["refresh", "refresh", "flush", None, None]


async def test_a_session_that_ends_soon_is_flushed_at_once(room: Make) -> None:
    r = await talked(room)
    spoken = r.clock.now()
    r.clock.move(55 * MINUTE)
    assert due(r, spoken=spoken, ends=r.clock.now() + timedelta(minutes=30)) == "flush"
    assert due(r, spoken=spoken, ends=r.clock.now() + timedelta(minutes=90)) == "refresh"


@pytest.mark.parametrize(
    "settings",
    [
        {"cacheRefresh": {"hours": 0}},
        {"cacheRefresh": {"leastTokens": 100_000}},
        {"cacheRetention": "5m"},
    ],
    ids=["switched off", "a short prompt", "five minutes"],
)
async def test_when_it_is_left(room: Make, settings: dict[str, Any]) -> None:
    r = await talked(room, settings=settings)
    spoken = r.clock.now()
    r.clock.move(55 * MINUTE)
    assert due(r, spoken=spoken) is None


async def test_other_providers_prompts_are_left(room: Make) -> None:
    r = await talked(room)
    r.model.name = "openai/gpt-5"
    spoken = r.clock.now()
    r.clock.move(55 * MINUTE)
    assert due(r, spoken=spoken) is None


async def test_a_call_that_fails_changes_nothing(room: Make) -> None:
    r = await talked(room, Failure(kind="overloaded", message="busy"))
    assert r.conversation is not None
    r.clock.move(55 * MINUTE)
    assert not await cache_refresh.refresh(r.conversation, "refresh")
    assert not any(isinstance(entry.body, CacheRefreshed) for entry in r.conversation.transcript.entries)


def test_silences_that_a_refresh_bridges_speak_for_an_hour() -> None:
    pauses = [90 * MINUTE] * 40
    assert cheaper(pauses) == "5m"
    assert cheaper(pauses, refreshed=3 * HOUR) == "1h"
    assert cheaper([12 * HOUR] * 40, refreshed=3 * HOUR) == "5m", "what is forgotten in the end was read for nothing"
