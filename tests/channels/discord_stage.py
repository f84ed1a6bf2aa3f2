"""Discord's peer as a stage for the published rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.conformance import EXTRAS
from channels.discord.channel import DiscordChannel
from channels.discord.settings import DiscordSettings
from tests.peers import discord
from tests.peers.hasty import HastyClock

if TYPE_CHECKING:
    from channels.conformance import Trouble


class DiscordStage:
    lacks = tuple(rule.__name__ for rule in EXTRAS)
    limit = 2000
    patience = 20.0
    anna = "700000000000000042"
    post = "POST channels/*/messages"

    def __init__(self, peer: discord.DiscordPeer) -> None:
        self.peer = peer
        self.last = ""

    def channel(self) -> DiscordChannel:
        given = {"token": discord.TOKEN, "apiRoot": self.peer.root, "gatewayUrl": self.peer.gateway, "timeoutSeconds": 5}
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
                self.peer.fault(self.post, "retry_after", seconds=45)
            case _:
                self.peer.fault(self.post, kind.replace("cut ", "drop_"))

    def heard(self) -> list[str]:
        return self.peer.said(self.peer.dm(self.anna))

    def typed(self) -> int:
        return len(self.peer.typed)

    def length(self, text: str) -> int:
        return len(text)
