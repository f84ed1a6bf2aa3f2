"""The bot's own reaction on a message, one at a time. Importing this module loads the library."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import discord

if TYPE_CHECKING:
    from channels.discord.gateway_client import GatewayClient

MOST = 1000


class BotReactions:
    """Remembers the bot's reaction on each message, and what people's were told; Discord is asked for reactions of an earlier run."""

    def __init__(self) -> None:
        self._own: dict[str, tuple[str, ...]] = {}
        self._none: dict[str, None] = {}
        self._told: dict[str, None] = {}

    def taken(self, message: str) -> None:
        """Record a new message, which has no reaction of the bot yet."""
        self._keep(message, self._own.get(message, ()))

    def no_message(self, identity: str) -> None:
        """Record the id of a command or press, which is no message and cannot have reactions."""
        self._none[identity] = None
        while len(self._none) > MOST:
            del self._none[next(iter(self._none))]

    def told_before(self, alias: str) -> bool:
        """Record a reaction of somebody; return whether the same one was told in this run, so that it was taken away in between."""
        known = alias in self._told
        self._told[alias] = None
        while len(self._told) > MOST:
            del self._told[next(iter(self._told))]
        return known

    async def put(self, link: GatewayClient, channel: int, message: str, emoji: str | None) -> None:
        """Set the bot's reaction on a message, or remove it. Raises one of ``TROUBLE``."""
        if message in self._none:
            return
        identity = int(message)
        own = self._own.get(message)
        if own is None:
            own = await _asked(link, channel, identity)
        for earlier in own:
            if earlier != emoji:
                with contextlib.suppress(discord.NotFound):
                    await link.http.remove_own_reaction(channel, identity, earlier)
        self._keep(message, tuple(one for one in own if one == emoji))
        if emoji is not None and emoji not in own:
            await link.http.add_reaction(channel, identity, emoji)
            self._keep(message, (emoji,))

    def _keep(self, message: str, own: tuple[str, ...]) -> None:
        self._own.pop(message, None)
        self._own[message] = own
        while len(self._own) > MOST:
            del self._own[next(iter(self._own))]


async def _asked(link: GatewayClient, channel: int, message: int) -> tuple[str, ...]:
    found: dict[str, Any] = dict(await link.http.get_message(channel, message))
    return tuple(_written(one["emoji"]) for one in found.get("reactions") or () if one.get("me"))


def _written(emoji: dict[str, Any]) -> str:
    return f"{emoji.get('name')}:{emoji['id']}" if emoji.get("id") else str(emoji.get("name"))
