"""Tells the owner which servers and channels the bot is in that the settings do not list, with the command that lists each."""

from __future__ import annotations

from typing import Any

from channels.common.log import Log
from channels.discord.inbound import Place, mentions
from channels.discord.settings import DiscordAccount

MOST = 1000
"""Places that are remembered as told."""


class UnreadPlaces:
    """Logs each place once."""

    def __init__(self, settings: DiscordAccount, account: str, log: Log) -> None:
        self._settings = settings
        self._account = account
        self._log = log
        self._told: set[str] = set()

    def joined(self, guild: dict[str, Any]) -> None:
        """Tell of a server that is not listed."""
        identity = str(guild.get("id"))
        if self._settings.guild(identity) is None and self._first(identity):
            self._log.warning(
                "the bot is on a server that is not read",
                server=identity,
                name=str(guild.get("name") or "")[:80],
                hint=self._hint(identity),
                account=self._account,
            )

    def note(self, message: dict[str, Any], place: Place, me: str) -> None:
        """Tell of a message that mentions the bot in a channel that is not read."""
        channel = place.parent or place.id
        if place.guild and mentions(message, me) and self._first(f"{place.guild}/{channel}"):
            self._log.warning(
                "the bot was mentioned in a channel that is not read",
                server=place.guild,
                channel=channel,
                hint=self._hint(place.guild, channel),
                account=self._account,
            )

    def _first(self, key: str) -> bool:
        if key in self._told or len(self._told) >= MOST:
            return False
        self._told.add(key)
        return True

    def _hint(self, guild: str, channel: str = "") -> str:
        """Return the command that lists a server, or a channel of a listed one; nothing where groups are switched off."""
        if self._settings.group_policy == "disabled":
            return ""
        key = "channels.discord" + ("" if self._account == "default" else f".accounts.{self._account}") + f".guilds.{guild}"
        if channel and self._settings.guild(guild) is not None:
            return f"homebody config set {key}.channels.{channel}.allow true"
        return f"homebody config set {key}.requireMention true"
