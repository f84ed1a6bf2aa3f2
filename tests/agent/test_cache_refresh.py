from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.context import cache_refresh
from agent.context.cache_retention import NEW_SHARE, cheaper, new_share, pays
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
    before, since = r.model.requests[-1], r.conversation.transcript.last_call
    r.clock.move(55 * MINUTE)
    assert await cache_refresh.refresh(r.conversation, "refresh")
    asked = r.model.requests[-1]
    assert asked.system == before.system
    assert asked.tools == before.tools
    assert asked.messages[: len(before.messages)] == before.messages
    assert asked.messages[-1].text == cache_refresh.ASKED
    assert asked.background
    assert since is not None
    assert asked.useful_until == since + timedelta(hours=0.98), "from then on it is not sent"
    r.clock.move(55 * MINUTE)
    assert not is_cold(r.conversation.transcript.last_call, r.clock.now(), HOUR)
    assert (await r.open()).messages()[-1].text == "Noted.", "nobody sees it in the history, after a restart neither"


async def test_the_last_time_the_memory_is_flushed_and_only_if_there_is_something_to_flush(room: Make) -> None:
    r = await talked(room, KEPT, KEPT, "NO_REPLY")
    assert r.conversation is not None
    spoken, seen = r.clock.now(), []
    for _ in range(5):
        r.clock.move(55 * MINUTE)
        seen.append(due(r, spoken=spoken, ends=spoken + timedelta(hours=5)))
        if seen[-1] == "refresh":
            assert await cache_refresh.refresh(r.conversation, "refresh")
        elif seen[-1] == "flush":
            await cache_refresh.flush.flush(r.conversation, "leave", "quiet")
    assert seen == ["refresh", "refresh", "flush", None, None]


async def test_a_session_that_goes_on_is_not_flushed_for_a_silence(room: Make) -> None:
    r = await talked(room, KEPT, KEPT)
    assert r.conversation is not None
    spoken, seen = r.clock.now(), []
    for _ in range(3):
        r.clock.move(55 * MINUTE)
        seen.append(due(r, spoken=spoken))
        if seen[-1] == "refresh":
            assert await cache_refresh.refresh(r.conversation, "refresh")
    assert seen == ["refresh", "refresh", None]


async def test_a_session_that_somebody_goes_on_with_before_its_reset_is_not_flushed(room: Make) -> None:
    r = await talked(room, KEPT, KEPT)
    assert r.conversation is not None
    spoken = r.clock.now()
    for _ in range(2):
        r.clock.move(55 * MINUTE)
        assert await cache_refresh.refresh(r.conversation, "refresh")
    r.clock.move(55 * MINUTE)
    assert due(r, spoken=spoken, ends=spoken + timedelta(hours=20)) is None
    assert due(r, spoken=spoken, ends=spoken + timedelta(hours=5)) == "flush"


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


def test_a_prompt_is_read_only_where_silences_like_those_so_far_end_in_time() -> None:
    asked = {"so_far": 55 * MINUTE, "longest": 3 * HOUR}
    assert pays([], **asked), "until there is anything to go by"
    assert pays([90 * MINUTE] * 20, **asked)
    assert pays([3.5 * HOUR] * 20, **asked), "three times"
    assert not pays([9 * HOUR] * 20, **asked)
    assert pays([9 * HOUR] * 20 + [90 * MINUTE] * 5, **asked), "one in five saves what the others cost"


def test_a_prompt_of_which_pruning_takes_most_is_better_forgotten() -> None:
    asked = {"so_far": 55 * MINUTE, "longest": 3 * HOUR}
    assert pays([90 * MINUTE] * 20, shrinks=0.3, calls=10, **asked)
    assert not pays([90 * MINUTE] * 20, shrinks=0.7, calls=10, **asked)
    assert not pays([90 * MINUTE] * 20, shrinks=0.5, calls=20, **asked), (
        "each call until the next long silence would pay for it"
    )


def test_what_pruning_takes_off_speaks_for_five_minutes() -> None:
    pauses = [60.0] * 8 + [10 * MINUTE] * 2 + [5 * HOUR]
    assert cheaper(pauses * 5, 0.1) == "1h"
    assert cheaper(pauses * 5, 0.1, shrinks=0.8) == "5m", "it would be sent along until the next long silence"


async def test_what_a_turn_adds_is_told_by_calls_that_found_the_cache(room: Make) -> None:
    warm = AssistantMessage(content=(Text(text="Yes."),), model="m", stop="end", usage=Usage(cache_read=800, cache_write=200))
    cold = AssistantMessage(content=(Text(text="Yes."),), model="m", stop="end", usage=Usage(cache_write=1000))
    r = room(cold, warm, warm)
    for turn in ("one", "two", "three"):
        await r.say("And now?", turn)
    assert r.conversation is not None
    expected = (10 * NEW_SHARE + 2 * 0.4) / (10 + 2 * 2)
    assert new_share(r.conversation.transcript.entries) == pytest.approx(expected), (
        "the turn that wrote everything is no measure"
    )
    assert new_share([]) == NEW_SHARE


@given(
    st.lists(st.floats(0, 86_400), max_size=60),
    st.floats(3000, 3528),
    st.floats(0, 1),
    st.floats(0, 50),
)
def test_what_saves_with_more_to_prune_saves_with_less(gaps: list[float], so_far: float, shrinks: float, calls: float) -> None:
    asked = {"so_far": so_far, "longest": 3 * HOUR}
    assert pays(gaps, **asked) or not pays(gaps, shrinks=shrinks, calls=calls, **asked)


def test_silences_that_a_refresh_bridges_speak_for_an_hour() -> None:
    pauses = [90 * MINUTE] * 40
    assert cheaper(pauses) == "5m"
    assert cheaper(pauses, refreshed=3 * HOUR) == "1h"
    assert cheaper([12 * HOUR] * 40, refreshed=3 * HOUR) == "5m", "what is forgotten in the end was read for nothing"
