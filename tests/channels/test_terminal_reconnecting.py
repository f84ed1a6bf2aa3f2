"""An open conversation lives through a restart of the gateway."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from channels.errors import LinkLost
from channels.live import Note, Reply
from channels.messages import Outbound
from channels.terminal import reconnecting
from channels.terminal.reconnecting import ReconnectingLink
from gateway.api.api_client import ChatConnection
from gateway.base.clock import SystemClock
from tests.http.test_chat import HERE, record, serving

if TYPE_CHECKING:
    from pathlib import Path


class Impatient(SystemClock):
    """A clock by which seconds of waiting pass quickly."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0.0

    def monotonic(self) -> float:
        return self.waited

    async def sleep(self, seconds: float) -> None:
        self.waited += seconds
        await asyncio.sleep(0.01)


async def linked(path: Path) -> ReconnectingLink:
    return ReconnectingLink(await ChatConnection.open(path), lambda: ChatConnection.open(path), Impatient())


async def test_a_restart_is_told_and_replies_come_to_the_new_link(tmp_path: Path) -> None:
    path = tmp_path / "run/chat.sock"
    async with serving(path):
        link = await linked(path)
        frames = link.frames()
        told = asyncio.ensure_future(anext(frames))
        await asyncio.sleep(0)
    gone = await told
    assert isinstance(gone, Note)
    assert "Waiting" in gone.text
    async with serving(path) as again:
        assert await anext(frames) == Note("The gateway is back.")
        sending = asyncio.ensure_future(again.channel.send(Outbound(key="k", conversation=HERE, text="hello"), record))
        assert await anext(frames) == Reply("hello", "k")
        await sending
        await link.close()


async def test_a_message_said_while_the_gateway_is_away_is_taken_once_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "run/chat.sock"
    async with serving(path):
        link = await linked(path)
        heard: list[object] = []

        async def listen() -> None:
            async for frame in link.frames():
                heard.append(frame)  # noqa: PERF401 - it is looked at meanwhile

        listening = asyncio.ensure_future(listen())
        await asyncio.sleep(0)
    while not heard:  # noqa: ASYNC110 - a list tells nobody
        await asyncio.sleep(0.01)
    saying = asyncio.ensure_future(link.say("are you there?", key="m1"))
    async with serving(path) as again:
        await saying
        assert again.door.texts == ["are you there?"]
        await link.close()
        await listening


async def test_a_gateway_that_stays_away_ends_the_conversation(tmp_path: Path) -> None:
    path = tmp_path / "run/chat.sock"
    async with serving(path):
        link = await linked(path)
        frames = link.frames()
        told = asyncio.ensure_future(anext(frames))
        await asyncio.sleep(0)
    await told
    with pytest.raises(LinkLost):
        await anext(frames)
    with pytest.raises(LinkLost):
        await link.say("hello?", key="m1")
    assert reconnecting.PATIENCE_SECONDS >= 60
