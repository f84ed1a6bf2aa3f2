"""The same of the platforms themselves: three real channels and their peers, private chats, groups, topics and threads."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from agent.models.scripted import ScriptedModel
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.peers.discord import DiscordPeer
from tests.peers.slack import BOT, SlackPeer
from tests.peers.telegram import TelegramPeer
from tests.queueing.canaries import Nosy, Place, judge_files, judge_transcripts, judge_what_was_shown, texts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agent.models.protocol import Request
    from tests.peers.discord_state import Channel

FAMILY, TOPIC = -1001234567890, 7
SERVER, HALL = "800000000000000007", "810000000000000001"
ROOM = "CROOM0001"
IDS = {
    "telegram": {"anna": "42", "ben": "43"},
    "discord": {"anna": "700000000000000042", "ben": "700000000000000043"},
    "slack": {"anna": "UANNA0001", "ben": "UBEN00001"},
}
PLACES = (
    Place("telegram", "main", "anna", "swordfish", "memory"),
    Place("telegram", "main", "ben", "marlin", "memory/peers/telegram-43"),
    Place("telegram", "main", "ben", "halibut", f"memory/groups/telegram-{FAMILY}", "family"),
    Place("telegram", "work", "ben", "flounder", f"memory/groups/telegram-{FAMILY}", "family", "topic"),
    Place("discord", "main", "ben", "grouper", "memory/peers/discord-700000000000000043"),
    Place("discord", "main", "ben", "sturgeon", f"memory/groups/discord-{HALL}", "hall"),
    Place("discord", "main", "ben", "lamprey", f"memory/groups/discord-{HALL}", "hall", "thread"),
    Place("slack", "work", "anna", "turbot", "memory"),
    Place("slack", "work", "ben", "mullet", "memory/peers/slack-uben00001"),
    Place("slack", "work", "ben", "haddock", "memory/groups/slack-croom0001", "room"),
    Place("slack", "work", "ben", "wrasse", "memory/groups/slack-croom0001", "room", "thread"),
)


class World:
    """Three platforms."""

    def __init__(self, telegram: TelegramPeer, discord: DiscordPeer, slack: SlackPeer) -> None:
        self.telegram, self.discord, self.slack = telegram, discord, slack
        telegram.chats.group(FAMILY, topics=(TOPIC,))
        self._hall = discord.guild_channel(SERVER, identity=HALL)
        self._thread: Channel | None = None
        self._root = ""

    def settings(self) -> dict[str, Any]:
        users = {channel: list(ids.values()) for channel, ids in IDS.items()}
        t, d, s = self.telegram, self.discord, self.slack
        telegram = {"botToken": t.token, "apiRoot": t.root, "pacing": False, "pollTimeoutSeconds": 2}
        discord = {"token": d.token, "apiRoot": d.root, "gatewayUrl": d.gateway, "dm": {"allowFrom": users["discord"]}}
        slack = {"botToken": s.bot_token, "appToken": s.app_token, "apiRoot": s.root, "dm": {"allowFrom": users["slack"]}}
        return {
            "telegram": {**telegram, "allowFrom": users["telegram"], "groups": {str(FAMILY): {}}},
            "discord": {**discord, "guilds": {SERVER: {}}},
            "slack": {**slack, "channels": {ROOM: {}}},
        }

    async def connected(self) -> None:
        await self.discord.until(lambda: self.discord.identified == 1)
        await self.slack.until(lambda: self.slack.connections == 1)
        self._thread = await self.discord.open_thread(self._hall)

    async def say(self, place: Place, text: str) -> None:
        """Let somebody speak there, and wait for the answer."""
        person, before = IDS[place.wire][place.by], len(self.said(place))
        match place.wire:
            case "telegram":
                name = f"{text} @homebody_test_bot" if place.group else text
                more = {"chat": FAMILY, "thread": TOPIC if place.thread else None} if place.group else {}
                await self.telegram.say(int(person), name, **more)
            case "discord":
                where = self._thread if place.thread else self._hall if place.group else None
                await self.discord.say(person, text, channel=where, mention=bool(place.group))
            case _:
                called = f"<@{BOT}> {text}" if place.group else text
                stamp = await self.slack.say(
                    person, called, channel=ROOM if place.group else "", thread=self._root if place.thread else ""
                )
                self._root = self._root or (stamp if place.group else "")
        peer: Any = getattr(self, place.wire)
        await peer.until(lambda: len(self.said(place)) > before)

    def said(self, place: Place) -> list[str]:
        person = IDS[place.wire][place.by]
        match place.wire, bool(place.group), bool(place.thread):
            case "telegram", True, _:
                return self.telegram.chats.said(FAMILY, TOPIC if place.thread else None)
            case "telegram", _, _:
                return self.telegram.chats.said(int(person))
            case "discord", True, True:
                return self.discord.said(self._thread) if self._thread else []
            case "discord", group, _:
                return self.discord.said(self._hall if group else self.discord.dm(person))
            case _, True, thread:
                return self.slack.said(ROOM, thread=self._root if thread else None)
        return self.slack.said(self.slack.dm(person))


@contextlib.asynccontextmanager
async def lived_in(root: Path, world: World, model: ScriptedModel) -> AsyncIterator[Gateway]:
    peer = {"kind": "group", "id": str(FAMILY)}
    given = {
        "agents": {
            "defaults": {"model": "scripted/model"},
            "list": [{"id": agent, "workspace": str(root / agent)} for agent in ("main", "work")],
        },
        "bindings": [
            {"agentId": "work", "match": {"channel": "slack"}},
            {"agentId": "work", "match": {"channel": "telegram", "peer": peer, "thread": str(TOPIC)}},
        ],
        "channels": world.settings(),
        "messages": {"queue": {"debounceMs": 0}, "ackReactionScope": "off"},
        "gateway": {"port": 0},
    }
    settings = Settings.model_validate(given)
    house = await Gateway.open(Dependencies(settings=settings, paths=Paths(root / "home"), env={}, serving=True))
    house.model_registry.put("scripted/model", model)
    running = asyncio.ensure_future(house.run())
    try:
        await world.connected()
        yield house
    finally:
        house.stop()
        await running
        await house.close()


async def test_nothing_that_is_said_on_one_platform_shows_up_elsewhere(tmp_path: Path) -> None:
    nosy = Nosy(PLACES)
    model = ScriptedModel(nosy)
    seen: dict[Place, list[Request]] = {place: [] for place in PLACES}
    async with TelegramPeer() as telegram, DiscordPeer() as discord, SlackPeer() as slack:
        world = World(telegram, discord, slack)
        async with lived_in(tmp_path, world, model) as house:
            for step in ("tell", "/compact", "/new", "ask"):
                for place in PLACES:
                    before = len(model.requests)
                    nosy.folder = place.folder
                    words = {"tell": f"remember the secret password {place.secret}", "ask": "what is the secret password?"}
                    await world.say(place, words.get(step, step))
                    await house.lanes.quiet()
                    for agent in house.agents.values():
                        await agent.quiet()
                    seen[place] += model.requests[before:]
                for agent in house.agents.values():
                    assert agent.memory is not None
                    await agent.memory.sync()
        for place in PLACES:
            judge_what_was_shown(PLACES, place, texts(seen[place]), world.said(place))
    judge_files(PLACES, tmp_path)
    judge_transcripts(PLACES, tmp_path / "home" / "agents")
