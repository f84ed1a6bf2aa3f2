"""Discord's peer as a stage for the published rules."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from channels.discord.channel import DiscordChannel
from channels.discord.settings import DiscordSettings
from tests.peers import discord, discord_state
from tests.peers.hasty import HastyClock

if TYPE_CHECKING:
    from channels.conformance import Trouble


class DiscordStage:
    lacks = ()
    limit = 2000
    patience = 20.0
    anna = "700000000000000042"
    guild = "800000000000000007"
    post = "POST channels/*/messages"

    def __init__(self, peer: discord.DiscordPeer) -> None:
        self.peer = peer
        self.last = ""
        self.thread: discord_state.Channel | None = None

    def channel(self) -> DiscordChannel:
        given = {
            "token": discord.TOKEN,
            "apiRoot": self.peer.root,
            "gatewayUrl": self.peer.gateway,
            "timeoutSeconds": 5,
            "guilds": {self.guild: {}},
        }
        return DiscordChannel(DiscordSettings.model_validate(given), "default", clock=HastyClock(), random=lambda: 1.0)

    async def say(self, text: str) -> None:
        self.last = await self.peer.say(self.anna, text)

    async def repeat(self) -> None:
        await self.peer.repeat(self.last)

    async def disconnect(self) -> None:
        await self.peer.cut()

    def trouble(self, kind: Trouble) -> None:
        match kind:
            case "refused":
                self.peer.fault(self.post, "status", code=403)
            case "rate limit":
                self.peer.fault(self.post, "retry_after", seconds=0.2)
            case _:
                self.peer.fault(self.post, kind.replace("cut ", "drop_"))

    def heard(self) -> list[str]:
        return self.peer.said(self.peer.dm(self.anna))

    def typed(self) -> int:
        return len(self.peer.typed)

    def length(self, text: str) -> int:
        return len(text)

    async def edit(self, text: str) -> None:
        await self.peer.edit(self.last, text)

    async def react(self, emoji: str, message: str) -> None:
        await self.peer.react(self.anna, message, emoji)

    def reactions(self) -> list[str]:
        return self.peer.own_reactions(self.last)

    async def say_in_thread(self, text: str) -> None:
        if self.thread is None:
            self.thread = await self.peer.open_thread(self.peer.guild_channel(self.guild))
        await self.peer.say(self.anna, text, channel=self.thread)

    def heard_in_thread(self) -> list[str]:
        return self.peer.said(self.thread) if self.thread else []

    async def attach(self, name: str, media_type: str, content: bytes) -> None:
        self.last = await self.peer.say(self.anna, "", files=[(name, media_type, content)])

    def files(self) -> list[tuple[str, bytes]]:
        return self.peer.files(self.peer.dm(self.anna))

    def buttons(self) -> list[str]:
        return self.peer.buttons(self.peer.dm(self.anna).messages[-1]["id"])

    async def press(self, label: str) -> None:
        made = await self.peer.press(self.anna, self.peer.dm(self.anna).messages[-1]["id"], label)
        await asyncio.wait_for(made.taken.wait(), self.patience)

    def offered(self) -> list[str]:
        return [one["name"] for one in self.peer.rest.commands]

    def menu_changes(self) -> int:
        return self.peer.rest.menu_changes

    async def choose(self, name: str) -> None:
        made = await self.peer.choose(self.anna, name)
        await asyncio.wait_for(made.taken.wait(), self.patience)
