"""A whole house on Telegram: groups and topics, a webhook, files, buttons, and a group that moves."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from agent.models.scripted import ScriptedModel
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agent.models.protocol import Request

ANNA, BEN = 42, 43
FAMILY = -1001234567890
BOT = "@homebody_test_bot"
SECRET = "s3cret_of_the_hook_0123456789"


class Seen:
    """A model that keeps what it was shown and says the last line back."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, request: Request) -> Any:
        self.shown.append("\n".join(message.text for message in request.messages if hasattr(message, "text")))
        return "re: " + request.messages[-1].text.splitlines()[-1]


class Home:
    """A house on a peer, which can be left and entered again."""

    def __init__(self, root: Path, peer: TelegramPeer) -> None:
        self.root = root
        self.peer = peer
        self.seen = Seen()

    @contextlib.asynccontextmanager
    async def lived_in(
        self,
        port: int = 0,
        session: dict[str, Any] | None = None,
        clock: SystemClock | None = None,
        more: dict[str, Any] | None = None,
        **telegram: Any,
    ) -> AsyncIterator[Gateway]:
        settings = {"botToken": TOKEN, "apiRoot": self.peer.root, "pollTimeoutSeconds": 2, "pacing": False, "allowFrom": [ANNA]}
        given = {
            "agents": {"defaults": {"workspace": str(self.root / "workspace"), "model": "scripted/model"}},
            "channels": {"telegram": {**settings, **telegram}},
            "gateway": {"port": port},
            "session": session or {},
        } | (more or {})
        opened = await Gateway.open(
            Dependencies(
                settings=Settings.model_validate(given),
                paths=Paths(self.root / "home"),
                env={},
                clock=clock or SystemClock(),
                serving=True,
            )
        )
        opened.model_registry.put("scripted/model", ScriptedModel(self.seen))
        running = asyncio.ensure_future(opened.run())
        try:
            yield opened
        finally:
            opened.stop()
            await running
            await opened.close()

    async def says(self, count: int, chat: int = ANNA, thread: int | None = None) -> list[str]:
        """Wait until the bot has said as much in a chat, and return it."""
        await self.peer.until(lambda: len(self.peer.chats.said(chat, thread)) >= count)
        return self.peer.chats.said(chat, thread)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with TelegramPeer(local=True) as peer:
        peer.chats.group(FAMILY, topics=(7,))
        yield Home(tmp_path, peer)


async def test_a_topic_of_a_group_is_answered_in_its_place_and_knows_nothing_of_private_matters(home: Home) -> None:
    rules = {FAMILY: {"allowFrom": [ANNA, BEN], "topics": {7: {"requireMention": False}}}}
    async with home.lived_in(groups=rules):
        await home.peer.say(ANNA, "my private matter")
        await home.says(1)
        await home.peer.say(BEN, "it rains", name="Ben", chat=FAMILY)
        asked = await home.peer.say(BEN, f"{BOT} will it stop?", name="Ben", chat=FAMILY)
        assert await home.says(1, FAMILY) == ["re: will it stop?"]
        await home.peer.say(BEN, "no need to name you here", name="Ben", chat=FAMILY, thread=7)
        assert await home.says(1, FAMILY, 7) == ["re: no need to name you here"]
        await home.peer.say(666, f"{BOT} let me in", name="Mallory", chat=FAMILY)
        await home.peer.until(lambda: home.peer.unconfirmed == 0)
    answer = next(one for one in home.peer.chats.messages[FAMILY] if one.get("text") == "re: will it stop?")
    assert answer["reply_to_message"]["message_id"] == asked
    [shown] = [one for one in home.seen.shown if one.endswith("will it stop?")]
    assert "Ben: it rains" in shown
    assert not any("private matter" in one for one in home.seen.shown if "will it stop?" in one or "no need to name you" in one)
    assert "let me in" not in "".join(home.seen.shown)

    await home.peer.say(ANNA, "while you slept")
    async with home.lived_in(groups=rules):
        assert await home.says(2) == ["re: my private matter", "re: while you slept"]
    assert home.peer.count("setMyCommands") == 2


async def test_a_webhook_brings_messages_in_through_the_gateways_http_and_nothing_forged(home: Home) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    async with home.lived_in(port, webhookUrl=address, webhookSecret=SECRET), aiohttp.ClientSession() as session:
        await home.peer.until(lambda: bool(home.peer.webhook.url))
        await home.peer.say(ANNA, "through the webhook")
        assert await home.says(1) == ["re: through the webhook"]
        update = {
            "update_id": 9,
            "message": {"message_id": 1, "date": 1, "chat": {"id": ANNA, "type": "private"}, "text": "forged"},
        }
        statuses = []
        for headers, body in (
            ({}, {"json": update}),
            ({"X-Telegram-Bot-Api-Secret-Token": "x" * 24}, {"data": io.BytesIO(b"x" * 4_000_000)}),
        ):
            async with session.post(f"{address}/hooks/telegram/default", headers=headers, **body) as answer:
                statuses.append(answer.status)
        assert statuses == [401, 413]
    assert home.peer.count("getUpdates") == 0
    assert "forged" not in "".join(home.seen.shown)

    async with home.lived_in():
        await home.peer.until(lambda: not home.peer.webhook.url)
        await home.peer.say(ANNA, "and by polling again")
        assert await home.says(2) == ["re: through the webhook", "re: and by polling again"]


async def test_a_file_comes_into_the_workspace_and_a_stranger_s_does_not(home: Home) -> None:
    async with home.lived_in():
        await home.peer.attach(666, "document", b"evil", "evil.txt", "text/plain")
        await home.peer.attach(ANNA, "document", b"the key is under the pot\n", "note.txt", "text/plain", text="read this")
        await home.says(1)
        assert home.peer.count("getFile") == 1
    assert "the key is under the pot" in home.seen.shown[-1]
    [kept] = (home.root / "workspace" / "inbox").iterdir()
    assert kept.name.endswith("note.txt")


async def test_a_group_that_becomes_a_supergroup_keeps_its_conversation(home: Home) -> None:
    home.peer.chats.group(-5, kind="group")
    async with home.lived_in(groups={-5: {"requireMention": False}}):
        await home.peer.say(ANNA, "before", chat=-5)
        await home.says(1, -5)
        await home.peer.become_supergroup(-5, -1009)
        await home.peer.say(ANNA, "after", chat=-1009)
        assert await home.says(1, -1009) == ["re: after"]
    assert "before" in home.seen.shown[-1]


async def test_a_button_is_pressed_in_place_of_a_command(home: Home) -> None:
    async with home.lived_in():
        await home.peer.say(ANNA, "/think")
        await home.says(1)
        message = home.peer.chats.messages[ANNA][-1]
        labels = [button["text"] for row in message["reply_markup"]["inline_keyboard"] for button in row]
        await home.peer.press(ANNA, ANNA, labels[-1])
        told = await home.says(2)
        await home.peer.until(lambda: home.peer.count("editMessageReplyMarkup") == 1)
    assert labels[-1].lower() in told[-1]
    assert "reply_markup" not in message


async def test_an_album_and_a_text_that_was_cut_up_are_one_message_each(home: Home) -> None:
    async with home.lived_in(allowFrom=[ANNA, BEN]):
        for text in ("the garden", ""):
            content = text.encode() or b"more"
            await home.peer.attach(ANNA, "document", content, "note.txt", "text/plain", text=text, media_group_id="9")
        for text in ("x" * 4096, "the end"):
            await home.peer.say(BEN, text, name="Ben")
        await home.says(1)
        assert await home.says(1, BEN) == ["re: the end"]
    album = next(one for one in home.seen.shown if "the garden" in one)
    paste = next(one for one in home.seen.shown if one.endswith("the end"))
    assert "more" in album
    assert "x" * 4096 in paste
