"""The gateway is killed while a half answer stands on a platform: nobody reads it twice, and no half of it stays."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from channels.messages import REPEATED
from tests.fire import chat_stream
from tests.fire.model import PredictableModel
from tests.fire.platforms import WatchedDiscord, WatchedMatrix, WatchedSlack, WatchedTelegram
from tests.fire.world import Kill, Nursery, World, missing_tools

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fire.platforms import Platform

pytestmark = [
    pytest.mark.skipif("Linux with pidfd" in missing_tools(), reason="there are no kills without Linux"),
]
ANSWER = " ".join(f"Sentence {number} of an answer that takes long." for number in range(24)) + " The end."
RESTARTED = "(I was restarted and went on.)"
PIECES, PAUSE = 12, 0.4


class Slow(PredictableModel):
    """Writes for five seconds."""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        with contextlib.suppress(ConnectionResetError):
            await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        size = len(ANSWER) // PIECES + 1
        with contextlib.suppress(ConnectionResetError):
            await response.prepare(request)
            for start in range(0, len(ANSWER), size):
                await chat_stream.say(response, {"content": ANSWER[start : start + size]}, None)
                await asyncio.sleep(PAUSE)
            await chat_stream.end(response)
        return response


async def killed(root: Path, nursery: Nursery, platform: Callable[[], Platform], place: str) -> list[str]:
    """Live once until the kill and once more; return what the person reads in the end."""
    more = {"telegram": {"streaming": "edit"}}
    async with World(root, nursery, settings=more, model=Slow(), platform=platform()) as world:
        await world.say("tell me all")
        if place == SHOWN:
            life = await world.start()
            await world.platform.until(lambda: bool(world.said()))
            begun = world.said()
            await world.platform.until(lambda: world.said() != begun)  # so its id is known
            await life.end(signal.SIGKILL)
        else:
            assert await world.live(Kill.parse(place)), f"{place} was never reached"
        assert not await world.live()
        return world.said()


SHOWN = "shown"
KILLS: tuple[tuple[Callable[[], Platform], str], ...] = (
    *((platform, SHOWN) for platform in (WatchedDiscord, WatchedMatrix, WatchedSlack, WatchedTelegram)),
    *((WatchedTelegram, place) for place in ("after-accept:2", "before-accept:3", "after-accept:3", "before-finish:1")),
    *((WatchedTelegram, place) for place in ("after-sending:1", "before-accept:4", "after-accept:4", "before-sent:1")),
    *((WatchedDiscord, place) for place in ("after-sending:1", "before-sent:1")),
)


async def test_no_half_answer_stays_and_none_is_read_twice_wherever_the_house_is_killed_over_it(tmp_path: Path) -> None:
    left, found = list(enumerate(KILLS)), {}

    async def worker(nursery: Nursery) -> None:
        while left:
            number, (platform, place) = left.pop()
            said = await killed(tmp_path / str(number), nursery, platform, place)
            found[f"{platform.__name__} {place}"] = [text for text in said if text != RESTARTED]

    async with Nursery.opened() as nursery, asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(worker(nursery))
    unknown, unposted = (found.pop(f"WatchedTelegram {place}") for place in ("before-accept:3", "after-accept:2"))
    assert found == {name: [ANSWER] for name in found}
    assert unknown[1:] == [f"{REPEATED}{RESTARTED}", ANSWER], "Telegram had not told its id"
    assert ANSWER.startswith(unknown[0])
    assert unposted == unknown[1:], "it may have been posted"
