"""A second opinion: the channel against a Slack that others wrote."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from channels.errors import NotSent
from channels.messages import Attachment, ChatAddress, Outbound, OutboundFile
from channels.slack.channel import SlackChannel
from channels.slack.settings import SlackSettings
from tests.peers.door import BookDoor
from tests.peers.emulate import BOT_TOKEN, Emulated, emulated, missing_part
from tests.peers.hasty import FastClock
from tests.peers.slack import SIGNING_SECRET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PICTURE = bytes(range(256)) * 40


class House:
    """A channel that runs, and the room it speaks in."""

    def __init__(self, slack: Emulated, channel: SlackChannel, room: str, clock: FastClock) -> None:
        self.slack = slack
        self.channel = channel
        self.room = ChatAddress(channel="slack", kind="group", id=room)
        self.clock = clock
        self.recorded: list[str] = []

    async def record(self, noted: str) -> None:
        self.recorded.append(noted)

    async def send(self, text: str, key: str = "k1", to: ChatAddress | None = None, **more: Any) -> str:
        outbound = Outbound(key=key, conversation=to or self.room, text=text, **more)
        return (await self.channel.send(outbound, self.record)).platform_id

    async def shown(self, **more: Any) -> list[dict[str, Any]]:
        method = "conversations.replies" if more else "conversations.history"
        found: list[dict[str, Any]] = (await self.slack.ask(method, channel=self.room.id, include_all_metadata=True, **more))[
            "messages"
        ]
        return found


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    reason = missing_part()
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    async with emulated(tmp_path) as slack:
        given = {"botToken": BOT_TOKEN, "signingSecret": SIGNING_SECRET, "mode": "http", "apiRoot": slack.root}
        clock = FastClock()
        channel = SlackChannel(SlackSettings.model_validate(given), "default", clock=clock, random=lambda: 1.0)
        door = BookDoor()
        ready = asyncio.ensure_future(door.until_ready())
        task = asyncio.ensure_future(channel.run(door))
        try:
            await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
            yield House(slack, channel, await slack.channel(), clock)
        finally:
            task.cancel()
            ready.cancel()
            await asyncio.gather(task, ready, return_exceptions=True)


async def test_what_is_said_stands_there_in_its_thread_and_is_found_by_its_key(house: House) -> None:
    assert (await house.channel.probe()).count("@") == 1
    first = await house.send("*one* & <!channel>")
    place = ChatAddress(channel="slack", kind="group", id=house.room.id, thread=first)
    answer = await house.send("two", "k2", to=place)
    assert await house.send("two", "k2", to=place, attempt=2, uncertain=True) == answer
    assert await house.send("*one* & <!channel>", attempt=2, uncertain=True) == first
    [message] = [one for one in await house.shown() if one["ts"] == first]
    assert message["text"] == "_one_ &amp; &lt;!channel&gt;", "it knows no Markdown, and is written to in Slack's own notation"
    assert [one["text"] for one in await house.shown(ts=first)][1:] == ["two"]


async def test_a_preview_becomes_the_answer_and_a_refusal_is_known(house: House) -> None:
    await house.channel.draft(house.room, "t", "Let me")
    await house.clock.sleep(3)
    await house.channel.draft(house.room, "t", "Let me think")
    await house.send("Done.")
    assert [one["text"] for one in await house.shown() if one["text"].startswith(("Let", "Done"))] == ["Done."]
    with pytest.raises(NotSent, match="channel_not_found") as caught:
        await house.send("hello?", to=ChatAddress(channel="slack", kind="group", id="CNONE0001"))
    assert caught.value.permanent


async def test_emoji_are_put_replaced_and_taken_off(house: House) -> None:
    message = await house.send("look")
    for emoji, expected in (("👀", ["eyes"]), ("👍", ["+1"]), (None, [])):
        await house.channel.react(house.room, message, emoji)
        found = (await house.slack.ask("reactions.get", channel=house.room.id, timestamp=message))["message"].get(
            "reactions"
        ) or []
        assert [one["name"] for one in found] == expected


async def test_a_file_goes_there_and_back(house: House, tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(PICTURE)
    await house.send("a chart", enclosure=OutboundFile(path=tmp_path / "copy", name="chart.png", media_type="image/png"))
    [message] = [one for one in await house.shown() if one.get("files")]
    [file] = message["files"]
    assert (message["text"], file["name"], house.recorded) == ("a chart", "chart.png", [f"file:{file['id']}"])
    await house.channel.fetch(Attachment(kind="image", handle=file["id"]), tmp_path / "back", 20_000)
    assert (tmp_path / "back").read_bytes() == PICTURE
