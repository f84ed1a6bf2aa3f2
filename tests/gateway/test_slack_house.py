"""A whole house on Slack: requests that Slack makes, a slash command, buttons, files, and a channel that gets another id."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from agent.models.scripted import ScriptedModel
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.peers.slack import BOT, SlackPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agent.models.protocol import Request

ANNA, BEN, ROOM = "UANNA0001", "UBEN00001", "CROOM0001"


class Home:
    """A house on a peer, whose model says the last line back."""

    def __init__(self, root: Path, peer: SlackPeer) -> None:
        self.root = root
        self.peer = peer
        self.shown: list[str] = []

    def _said(self, request: Request) -> Any:
        self.shown.append("\n".join(message.text for message in request.messages if hasattr(message, "text")))
        return "re: " + request.messages[-1].text.splitlines()[-1]

    @contextlib.asynccontextmanager
    async def lived_in(self, port: int = 0, **slack: Any) -> AsyncIterator[Gateway]:
        peer = self.peer
        tokens = {"botToken": peer.bot_token, "appToken": peer.app_token, "signingSecret": peer.signing_secret}
        settings = {**tokens, "apiRoot": peer.root, "pingSeconds": 0.5, "dm": {"allowFrom": [ANNA]}, **slack}
        given = {
            "agents": {"defaults": {"workspace": str(self.root / "workspace"), "model": "scripted/model"}},
            "channels": {"slack": settings},
            "gateway": {"port": port},
        }
        opened = await Gateway.open(
            Dependencies(settings=Settings.model_validate(given), paths=Paths(self.root / "home"), env={}, serving=True)
        )
        opened.model_registry.put("scripted/model", ScriptedModel(self._said))
        running = asyncio.ensure_future(opened.run())
        try:
            yield opened
        finally:
            opened.stop()
            await running
            await opened.close()

    async def says(self, count: int, channel: str = "") -> list[str]:
        """Wait until the app has said as much, and return it."""
        place = channel or self.peer.dm(ANNA)
        await self.peer.until(lambda: len(self.peer.said(place)) >= count)
        return self.peer.said(place)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with SlackPeer() as peer:
        yield Home(tmp_path, peer)


async def test_slack_calls_the_house_through_its_http_and_nobody_else_does(home: Home) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, peer = f"http://127.0.0.1:{port}/hooks/slack/default", home.peer
    async with home.lived_in(port, mode="http"), aiohttp.ClientSession() as session:
        await peer.until(lambda: peer.count("auth.test") == 1)
        peer.call_at(address)
        await peer.say(ANNA, "through the door")
        assert await home.says(1) == ["re: through the door"]
        await peer.command(ANNA, "status")
        assert "scripted/model" in (await home.says(2))[1]
        await peer.until(
            lambda: bool(peer.responses)
        )  # what a command shows comes in a call of its own, before the call is answered
        assert peer.responses[0]["response_type"] == "ephemeral"
        async with session.post(address, json={"type": "url_verification", "challenge": "c"}) as answer:
            assert (answer.status, await answer.text()) == (401, "")
        assert len(home.shown) == 1
    assert peer.connections == 0


async def test_a_button_is_pressed_in_place_of_a_command(home: Home) -> None:
    peer = home.peer
    async with home.lived_in():
        await peer.until(lambda: peer.connections == 1)
        await peer.say(ANNA, "/think")
        await home.says(1)
        [message] = [one for one in peer.messages[peer.dm(ANNA)] if one["user"] == BOT]
        labels = [button["text"]["text"] for button in message["blocks"][-1]["elements"]]
        await peer.press(ANNA, labels[-1])
        told = await home.says(2)
        await peer.until(lambda: peer.count("chat.update") == 1)
    assert labels[-1].lower() in told[-1].lower()
    assert [block["type"] for block in message["blocks"]][-1] == "context"


async def test_a_file_comes_into_the_workspace_and_a_strangers_does_not(home: Home) -> None:
    peer = home.peer
    async with home.lived_in(channels={ROOM: {}}):
        await peer.until(lambda: peer.connections == 1)
        evil = peer.upload(BEN, "evil.txt", b"evil", "text/plain")
        await peer.say(BEN, f"<@{BOT}> look", channel=ROOM, files=[evil])
        note = peer.upload(ANNA, "note.txt", b"the key is under the pot\n", "text/plain")
        await peer.say(ANNA, "read this", subtype="file_share", files=[note])
        await home.says(1)
        assert peer.count("files.info") == 1
    assert "the key is under the pot" in home.shown[-1]
    [kept] = (home.root / "workspace" / "inbox").iterdir()
    assert kept.name.endswith("note.txt")


async def test_a_channel_that_gets_another_id_keeps_its_conversation(home: Home) -> None:
    peer = home.peer
    async with home.lived_in(channels={ROOM: {"requireMention": False}}):
        await peer.until(lambda: peer.connections == 1)
        await peer.say(ANNA, "before", channel=ROOM)
        await home.says(1, ROOM)
        await peer.emit(
            {"type": "channel_id_changed", "old_channel_id": ROOM, "new_channel_id": "CROOM0002", "event_ts": "1.1"}
        )
        await peer.say(ANNA, "after", channel="CROOM0002")
        assert await home.says(1, "CROOM0002") == ["re: after"]
    assert "before" in home.shown[-1]


async def test_an_emoji_says_that_somebody_is_there_and_a_correction_is_heard(home: Home) -> None:
    peer = home.peer
    async with home.lived_in(channels={ROOM: {}}):
        await peer.until(lambda: peer.connections == 1)
        stamp = await peer.say(ANNA, f"<@{BOT}> good mourning", channel=ROOM)
        await home.says(1, ROOM)
        await peer.edit(ANNA, stamp, f"<@{BOT}> good morning", channel=ROOM)
        await peer.until(lambda: not peer.waiting)
        await peer.say(ANNA, f"<@{BOT}> and again", channel=ROOM)
        await home.says(2, ROOM)
    assert "good morning" in home.shown[-1]
    assert peer.count("reactions.add") >= 1
