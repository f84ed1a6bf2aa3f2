"""The channels and threads that the bot sees, which of them it reads, and how far it has read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from channels.common.read_marks import ReadMarks
from channels.discord.inbound import Place, is_snowflake, place_of, snowflake
from channels.discord.settings import DiscordAccount
from channels.messages import Inbound

EPOCH_MS = 1_420_070_400_000
"""The first moment of Discord's ids, each of which begins with the millisecond that it was made in."""
SLACK_SECONDS = 30
"""How much Discord's clock may be behind ours."""


def first_id(at: datetime) -> int:
    """Return the smallest id that Discord can give at this time."""
    return max(0, int(at.timestamp() * 1000) - EPOCH_MS) << 22


def made_at(identity: str) -> datetime:
    """Return the time at which Discord gave an id."""
    return datetime.fromtimestamp(((int(identity) >> 22) + EPOCH_MS) / 1000, UTC)


class ChannelDirectory:
    """The channels of one bot. ``dms`` holds the private channel of each person who wrote or was written to.

    ``begun`` is the first id that Discord can have given since this bot first ran; with ``first`` that is now.
    """

    def __init__(
        self, settings: DiscordAccount, stored: str | None, dms: dict[str, str], *, begun: int = 0, first: bool = True
    ) -> None:
        self._settings = settings
        self._known: dict[str, Place] = {}
        self._begun = begun
        self._first = first
        self._since = 0
        self.marks = ReadMarks(snowflake, stored)
        for place in self.marks.all():
            if not is_snowflake(place):
                self.marks.forget(place)
        self.dms = dms
        self.about: dict[str, str] = {}
        """What threads were opened about of which nobody wrote a word yet."""
        self.held: set[str] = set()
        """Channels in which something older than what is written now is still to be read: their marks stay."""
        self.unread: list[tuple[str, str]] = []
        """Channels that came to be while nobody listened, and where reading them begins."""

    def connected(self) -> int:
        """Begin a session: messages newer than all stored ones arrived in the gap. Returns where the gap began, or 0."""
        self._since = max((int(mark) for mark in self.marks.all().values()), default=0)
        gap = self._since or (0 if self._first else self._begun)
        self._first = False
        return gap

    def joined(self, guild: dict[str, Any]) -> None:
        """Add a server, with its channels and open threads."""
        joined = guild.get("joined_at")
        since = max(self._since, first_id(datetime.fromisoformat(joined)) if joined else 0) if self._since else 0
        for channel in [*guild.get("channels", ()), *guild.get("threads", ())]:
            if isinstance(channel, dict) and is_snowflake(channel.get("id")):
                self._seen({**channel, "guild_id": guild["id"]}, since)

    def made(self, channel: dict[str, Any]) -> None:
        """Add a channel or thread. A new one is read from its first message on.

        The first message of a post has the id of the post itself.
        """
        if channel.get("newly_created") or "thread_metadata" not in channel:
            place = self.note(place_of(channel))
            if self.reads(place):
                self.marks.note(place.id, str(int(place.id) - 1))
        else:
            self._seen(channel, 0)

    def _seen(self, channel: dict[str, Any], since: int) -> None:
        """Add a channel that may have existed before; it is read from its newest message on, or from the gap on."""
        place = self.note(place_of(channel))
        if not self.reads(place) or place.id in self.marks.all():
            return
        mark = str(channel.get("last_message_id") or place.id)
        if 0 < since < int(place.id):
            mark = str(int(place.id) - 1)
            self.unread.append((place.id, mark))
        self.marks.note(place.id, mark)

    def taken(self, channel: str, message: str) -> None:
        """Record the newest message stored from a channel."""
        if channel not in self.held:
            self.marks.note(channel, message)

    def with_beginning(self, message: Inbound) -> Inbound:
        """Return the first message of a thread with the message that the thread was opened on as its quote, unless it has one."""
        about = self.about.pop(message.conversation.thread or "", "")
        return replace(message, quoted=about) if about and not message.quoted else message

    def left(self, guild: str) -> None:
        """Remove a server that the bot was removed from."""
        for place in [one for one in self._known.values() if one.guild == guild]:
            self.gone(place.id)

    def gone(self, channel: str) -> None:
        """Remove a channel that was deleted, or that the bot can no longer see."""
        self._known.pop(channel, None)
        self.about.pop(channel, None)
        self.held.discard(channel)
        self.marks.forget(channel)

    def note(self, place: Place) -> Place:
        """Store a channel, and return it."""
        self._known[place.id] = place
        return place

    def known(self, channel: str) -> Place | None:
        """Return a channel, or None if it is unknown."""
        return self._known.get(channel)

    def reads(self, place: Place) -> bool:
        """Return whether the settings let the bot read here."""
        if place.guild:
            return self._settings.reads(place.guild, place.parent or place.id)
        return self._settings.dm.enabled and self._settings.dm.policy != "disabled"
