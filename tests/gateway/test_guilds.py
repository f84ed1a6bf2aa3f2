"""A whole house on Discord and Slack: pairing, groups, threads, and nothing said twice over a restart."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from agent.models.scripted import ScriptedModel
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.peers import discord, slack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agent.models.protocol import Request

ANNA, BEN = "700000000000000042", "700000000000000043"
GUILD = "800000000000000007"
ROOM = "CROOM0001"


class Seen:
    """A model that keeps what it was shown and says it back."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, request: Request) -> Any:
        self.shown.append("\n".join(message.text for message in request.messages if hasattr(message, "text")))
        return "re: " + request.messages[-1].text.splitlines()[-1]

    def asked(self, text: str) -> str:
        """Return all that was shown with a question, which was its end."""
        return next(shown for shown in self.shown if shown.endswith(text))


@contextlib.asynccontextmanager
async def house(root: Path, channels: dict[str, Any], seen: Seen) -> AsyncIterator[Gateway]:
    given = {
        "agents": {"defaults": {"workspace": str(root / "workspace"), "model": "scripted/model"}},
        "channels": channels,
        "gateway": {"port": 0},
    }
    opened = await Gateway.open(
        Dependencies(settings=Settings.model_validate(given), paths=Paths(root / "home"), env={}, serving=True)
    )
    opened.model_registry.put("scripted/model", ScriptedModel(seen))
    running = asyncio.ensure_future(opened.run())
    try:
        yield opened
    finally:
        opened.stop()
        await running
        await opened.close()


async def test_anna_is_answered_in_private_and_in_her_server_and_a_stranger_is_not(tmp_path: Path) -> None:
    seen = Seen()
    async with discord.DiscordPeer() as peer:
        hall = peer.guild_channel(GUILD)
        settings = {"token": peer.token, "apiRoot": peer.root, "gatewayUrl": peer.gateway, "dm": {"allowFrom": [ANNA]}}
        async with house(tmp_path, {"discord": {**settings, "guilds": {GUILD: {"users": [ANNA, BEN]}}}}, seen):
            await peer.until(lambda: peer.identified == 1)
            await peer.say(ANNA, "hello")
            await peer.until(lambda: bool(peer.said(peer.dm(ANNA))))
            await peer.say(BEN, "let me in", name="Ben")
            await peer.until(lambda: bool(peer.said(peer.dm(BEN))))
            await peer.say(ANNA, "it rains", channel=hall)
            await peer.say(BEN, "will it stop?", channel=hall, mention=True, name="Ben")
            await peer.until(lambda: bool(peer.said(hall)))
        assert peer.said(peer.dm(ANNA)) == ["re: hello"]
        assert "pairing code" in peer.said(peer.dm(BEN))[0]
        assert "let me in" not in "".join(seen.shown)
        assert peer.said(hall) == ["re: will it stop?"]
        asked = seen.asked("will it stop?")
        assert "Anna: it rains" in asked
        assert "hello" not in asked, "what was said in private is not shown to the group"

        await peer.say(ANNA, "while you slept")
        async with house(tmp_path, {"discord": settings}, seen):
            await peer.until(lambda: len(peer.said(peer.dm(ANNA))) == 2)
        assert peer.said(peer.dm(ANNA)) == ["re: hello", "re: while you slept"]


async def test_a_thread_on_slack_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    seen = Seen()
    async with slack.SlackPeer() as peer:
        tokens = {"botToken": peer.bot_token, "appToken": peer.app_token, "apiRoot": peer.root}
        settings = {**tokens, "dm": {"allowFrom": ["UANNA0001"]}, "channels": {ROOM: {}}}
        async with house(tmp_path, {"slack": settings}, seen):
            await peer.until(lambda: peer.connections == 1)
            first = await peer.say("UANNA0001", f"<@{slack.BOT}> in the room", channel=ROOM)
            await peer.until(lambda: len(peer.said(ROOM)) == 1)
            await peer.say("UANNA0001", f"<@{slack.BOT}> in the thread", channel=ROOM, thread=first)
            await peer.until(lambda: len(peer.said(ROOM)) == 2)
            await peer.until(lambda: not peer.waiting)
        assert peer.said(ROOM, thread=first) == ["re: in the thread"]
        assert "re: in the room" not in seen.asked("in the thread"), "what the thread began with is quoted, and no more"
        assert peer.pings == []


async def test_the_owner_hears_on_one_platform_that_another_is_off_and_that_a_group_refuses_all(tmp_path: Path) -> None:
    async with discord.DiscordPeer() as peer, slack.SlackPeer() as other:
        tokens = {"botToken": "xoxb-revoked", "appToken": other.app_token, "apiRoot": other.root}
        settings = {"token": peer.token, "apiRoot": peer.root, "gatewayUrl": peer.gateway, "dm": {"allowFrom": [ANNA]}}
        hall = peer.guild_channel(GUILD)
        async with house(tmp_path, {"discord": {**settings, "guilds": {GUILD: {}}}}, Seen()) as opened:
            await peer.until(lambda: peer.identified == 1)
            await peer.say(ANNA, "hello")
            await peer.until(lambda: bool(peer.said(peer.dm(ANNA))))
            hall.hidden = True
            for number in (1, 2):
                await peer.say(ANNA, f"question {number}", channel=hall, mention=True)
                while len(await opened.ledger.outbox.latest(["dead"])) < number:  # noqa: ASYNC110 - a ledger tells nobody
                    await asyncio.sleep(0.01)
            await peer.until(lambda: len(peer.said(peer.dm(ANNA))) >= 2)
        refused = [text for text in peer.said(peer.dm(ANNA)) if "rejected" in text]
        assert len(refused) == 1, "once, whatever is said there"
        assert "homebody outbox list" in refused[0]
        both = {"discord": settings, "slack": {**tokens, "dm": {"allowFrom": ["UANNA0001"]}}}
        async with house(tmp_path, both, Seen()):
            await peer.until(lambda: any("slack:default is off" in text for text in peer.said(peer.dm(ANNA))))
        [told] = [text for text in peer.said(peer.dm(ANNA)) if "slack:default is off" in text]
        assert "Reinstall to Workspace" in told or "OAuth & Permissions" in told
