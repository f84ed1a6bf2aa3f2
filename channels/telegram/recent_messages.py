"""Recent messages: which the bot wrote, their threads, and texts that Telegram split. In memory only, and bounded."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta

from channels.common.recent import Recent

MESSAGES = 2000
SENDERS = 200
CUT_AT = 4000
"""A text of this length was probably cut by the sender's client, which does so at 4,096 units or at a word before."""
AT_ONCE = timedelta(seconds=2)
"""Telegram's times are whole seconds."""
NEIGHBOURS = 3
"""How far apart the ids of two parts may be: others write too."""
MOST_PARTS = 12
_NO_TOPIC = (None, False), (None, True)
"""What is known of a message without a topic, once for all of them."""


class SeenMessages:
    """The topic of each message and whether the bot wrote it, which reactions and presses do not say."""

    def __init__(self) -> None:
        self._seen: Recent[str, tuple[str | None, bool]] = Recent(MESSAGES)
        self.newest_private = 0
        """The highest id of a message in a private chat: Telegram numbers the messages of all private chats of a bot together."""

    def note(self, chat: str, message: str, thread: str | None, *, mine: bool) -> None:
        """Remember a message."""
        self._seen.put(f"{chat} {message}", _NO_TOPIC[mine] if thread is None else (thread, mine))
        if message.isdecimal() and not chat.startswith("-"):
            self.newest_private = max(self.newest_private, int(message))

    def find(self, chat: str, message: str) -> tuple[str | None, bool] | None:
        """Return the topic, and whether the bot wrote the message; None if it is unknown."""
        return self._seen.get(f"{chat} {message}")


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    message: int
    at: datetime
    count: int


class Pastes:
    """Finds the parts of a long text that the sender's client split into messages."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[str, ...], _Part] = OrderedDict()

    def part_of(self, where: tuple[str, ...], message: int, at: datetime, length: int) -> str | None:
        """Return the key that the parts of one text share. ``where`` is the conversation and the sender.

        A text of ``CUT_AT`` units or more may have a next part; a message directly after it counts as that.
        """
        before = self._last.pop(where, None)
        follows = (
            before is not None
            and 0 < message - before.message <= NEIGHBOURS
            and at - before.at <= AT_ONCE
            and before.count < MOST_PARTS
        )
        name, count = (before.name, before.count + 1) if before is not None and follows else (f"paste:{message}", 1)
        if length >= CUT_AT:
            self._last[where] = _Part(name, message, at, count)
            while len(self._last) > SENDERS:
                self._last.popitem(last=False)
        elif not follows:
            return None
        return name
