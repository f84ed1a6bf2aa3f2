"""Discord's peer as a stage for the published rules."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from channels.discord.channel import DiscordChannel
from channels.discord.settings import DiscordSettings
from channels.testing.receive import LABEL
from tests.patience import PATIENCE
from tests.peers import discord, discord_state
from tests.peers.hasty import FastClock

if TYPE_CHECKING:
    from channels.testing import Trouble


class DiscordStage:
    lacks = ()
    limit = 2000
    events = (
        *(
            "edit",
            "preview added",
            "reaction",
            "command",
            "press",
            "thread",
            "channel made",
            "channel changed",
            "channel deleted",
        ),
        *("joined", "typing", "message deleted", "pinned", "sticker", "removed from a server", "unknown kind"),
    )
    patience = PATIENCE
    anna = "700000000000000042"
    guild = "800000000000000007"
    post = "POST channels/*/messages"

    def __init__(self, peer: discord.DiscordPeer) -> None:
        self.peer = peer
        self.last = ""
        self.thread: discord_state.Channel | None = None
        self.room = peer.guild_channel(self.guild)

    def channel(self, token: str = discord.TOKEN) -> DiscordChannel:
        given = {
            "token": token,
            "apiRoot": self.peer.root,
            "gatewayUrl": self.peer.gateway,
            "timeoutSeconds": 5,
            "guilds": {self.guild: {}},
        }
        return DiscordChannel(DiscordSettings.model_validate(given), "default", clock=FastClock(), random=lambda: 1.0)

    async def say(self, text: str) -> None:
        self.last = await self.peer.say(self.anna, text)

    async def repeat(self) -> None:
        await self.peer.repeat(self.last)

    async def disconnect(self) -> None:
        await self.peer.cut()

    async def happen(self, event: str) -> None:  # noqa: C901, PLR0912 - one case a kind of event
        peer = self.peer
        where = {"channel_id": self.room.id, "guild_id": self.guild}
        match event:
            case "edit":
                for place in (peer.dm(self.anna), self.room):
                    theirs = [one for one in place.messages if one["author"]["id"] == self.anna][-1]
                    await peer.edit(theirs["id"], "changed")
            case "preview added":
                await self._tell("MESSAGE_UPDATE", {**where, "id": self.room.messages[-1]["id"], "embeds": [{"title": "?"}]})
            case "reaction":
                for place in (peer.dm(self.anna), self.room):
                    await peer.react(self.anna, place.messages[-1]["id"], "👍")
            case "command":
                for place in (peer.dm(self.anna), self.room):
                    await peer.invoke(self.anna, "status", channel=place)
            case "press":
                shown = [one["id"] for one in peer.dm(self.anna).messages if one["components"]]
                await peer.press(self.anna, shown[-1], LABEL)
            case "thread":
                await peer.open_thread(self.room)
            case "channel made" | "channel changed" | "channel deleted":
                made = {"id": peer.snowflake(), "type": 0, "guild_id": self.guild, "name": "hall", "last_message_id": None}
                name = {
                    "channel made": "CHANNEL_CREATE",
                    "channel changed": "CHANNEL_UPDATE",
                    "channel deleted": "CHANNEL_DELETE",
                }
                await self._tell(name[event], made)
            case "joined":
                await peer.note_and_tell(self.room, self.anna, "", kind=7)
            case "pinned":
                await peer.note_and_tell(self.room, self.anna, "", kind=6)
            case "sticker":
                for place in (peer.dm(self.anna), self.room):
                    await peer.note_and_tell(place, self.anna, "", sticker_items=[{"id": "1", "name": "cat", "format_type": 1}])
            case "typing":
                await self._tell("TYPING_START", {**where, "user_id": self.anna, "timestamp": 1})
            case "message deleted":
                await self._tell("MESSAGE_DELETE", {**where, "id": self.room.messages[-1]["id"]})
            case "removed from a server":
                await self._tell("GUILD_DELETE", {"id": "811111111111111111"})
            case _:
                await self._tell("STAR_RISEN", {**where, "id": peer.snowflake()})

    async def garble(self) -> None:
        where = {"channel_id": self.room.id, "guild_id": self.guild}
        odd: list[dict[str, Any]] = [{}, where, {"channel_id": "x"}, {**where, "id": "x", "author": 7}, {**where, "emoji": 7}]
        for content in odd:
            for name in (
                "MESSAGE_CREATE",
                "MESSAGE_UPDATE",
                "MESSAGE_REACTION_ADD",
                "INTERACTION_CREATE",
                "THREAD_CREATE",
                "GUILD_DELETE",
            ):
                await self._tell(name, content)

    async def _tell(self, name: str, content: dict[str, Any]) -> None:
        for session in self.peer.sessions.sessions.values():
            await self.peer.sessions.event(session, name, content)

    async def go_away(self) -> None:
        await self.peer.go_away()

    async def come_back(self) -> None:
        await self.peer.come_back()

    def intruder(self) -> DiscordChannel:
        return self.channel("guessed." + discord.TOKEN)

    async def say_in_group(self, text: str, *, mention: bool = False) -> None:
        await self.peer.say(self.anna, text, channel=self.room, mention=mention)

    async def say_as_bot(self, text: str) -> None:
        await self.peer.note_and_tell(self.room, "700000000000000099", text, bot=True)

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
