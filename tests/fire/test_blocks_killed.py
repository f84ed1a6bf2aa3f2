"""The gateway is killed while an answer is sent in blocks: between what is durable and what is queued, and all around it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from agent.messages import AssistantMessage
from agent.transcript.entries import Said, decode
from agent.transcript.history_view import CUT_OFF
from channels.messages import REPEATED
from tests.fire import chat_stream
from tests.fire.model import PredictableModel
from tests.fire.world import Kill, Nursery, World, missing_tools

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif("Linux with pidfd" in missing_tools(), reason="there are no kills without Linux"),
]
ANSWER = "".join(f"Paragraph number {number} of a long answer.\n\n" for number in range(5)) + "The end."
BLOCKS = {"blockStreamingDefault": "on", "blockStreamingChunk": {"minChars": 30, "maxChars": 100}}


class Talkative(PredictableModel):
    """Says a long answer in small pieces, and goes on behind what it is shown of it."""

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            body: dict[str, Any] = json.loads(await request.read())
        except ConnectionResetError:
            return web.StreamResponse()
        said = "".join(str(one["content"]) for one in body["messages"] if one["role"] == "assistant")
        assert ANSWER.startswith(said), said
        assert (CUT_OFF in json.dumps(body["messages"][-1], ensure_ascii=False)) == bool(said)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        with contextlib.suppress(ConnectionResetError):
            await response.prepare(request)
            for start in range(len(said), len(ANSWER), 15):
                await chat_stream.say(response, {"content": ANSWER[start : start + 15]}, None)
                await asyncio.sleep(0.01)
            await chat_stream.end(response)
        return response


async def killed(root: Path, nursery: Nursery, places: Sequence[str]) -> None:
    """Live once for each kill and once more; judge what the person reads and what is kept."""
    async with World(root, nursery, settings={"agent": BLOCKS}, model=Talkative()) as world:
        await world.say("tell me all")
        for place in places:
            assert await world.live(Kill.parse(place)), f"{place} was never reached"
        assert not await world.live()
        judge(world)


def judge(world: World) -> None:
    """Everything is read once, in its order, but for what the platform may have shown before and is marked as such."""
    read: list[str] = []
    for text in world.said():
        again = text.startswith(REPEATED) and text.removeprefix(REPEATED) in read
        if not again and "I was restarted" not in text:
            read.append(text.removeprefix(REPEATED))
    assert "".join("".join(read).split()) == "".join(ANSWER.split()), world.said()
    entries = [decode(line).body for path in world.transcripts() for line in path.read_bytes().splitlines()]
    kept = [one.message.text for one in entries if isinstance(one, Said) and isinstance(one.message, AssistantMessage)]
    assert "".join(kept) == ANSWER


KILLS = (
    ("after-transcript:3",),
    ("before-enqueue_for_turn:1",),
    ("after-enqueue_for_turn:1",),
    ("before-transcript:5",),
    ("after-sending:1",),
    ("before-sent:2",),
    ("before-finish:1",),
    ("after-enqueue_for_turn:2", "after-transcript:2"),
    ("after-transcript:4", "before-enqueue_for_turn:1"),
)


async def test_what_was_sent_of_an_answer_is_gone_on_with_wherever_the_house_is_killed(tmp_path: Path) -> None:
    left = list(enumerate(KILLS))

    async def worker(nursery: Nursery) -> None:
        while left:
            number, places = left.pop()
            await killed(tmp_path / str(number), nursery, places)

    async with Nursery.opened() as nursery, asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(worker(nursery))
