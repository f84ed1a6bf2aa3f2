"""Tells whether a message addresses the bot, and removes the bot's name in front. Offsets are in UTF-16 code units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from telegram.constants import MessageEntityType

if TYPE_CHECKING:
    from telegram import Message, MessageEntity

_PUNCTUATION = " \t\n,:;-–—.!?"


@dataclass(frozen=True, slots=True)
class Me:
    """The bot. ``username`` is without the @; names are compared without regard to case, as Telegram does."""

    id: int
    username: str

    def is_named(self, name: str) -> bool:
        """Return whether ``@name`` or ``name`` is this bot's."""
        return name.removeprefix("@").casefold() == self.username.casefold()


class Written:
    """The text or caption of a message, with its entities."""

    def __init__(self, message: Message, me: Me) -> None:
        self.text = message.text or message.caption or ""
        self._entities: Sequence[MessageEntity] = message.entities if message.text else message.caption_entities
        self._units = self.text.encode("utf-16-le", "surrogatepass")
        self._me = me

    def mentions_me(self) -> bool:
        """Return whether the bot is named: by @name, by a mention that carries its id, or behind a command."""
        return any(self._means_me(one) or self._commands(one) == "me" for one in self._entities)

    def commands_another(self) -> bool:
        """Return whether it begins with a command to another bot, as in ``/help@other_bot``."""
        return any(one.offset == 0 and self._commands(one) == "another" for one in self._entities)

    def readable(self) -> str:
        """Return the text with the addresses behind links, and without the bot's name before it, behind it, or on a command."""
        changes = [change for one in self._entities if (change := self._change(one)) is not None]
        units = self._units
        for start, end, text in sorted(changes, reverse=True):
            units = units[: 2 * start] + text.encode("utf-16-le", "surrogatepass") + units[2 * end :]
        return units.decode("utf-16-le", "surrogatepass").strip()

    def _change(self, entity: MessageEntity) -> tuple[int, int, str] | None:
        start, end = entity.offset, entity.offset + entity.length
        if entity.type == MessageEntityType.TEXT_LINK and entity.url and entity.url != self._part(start, end):
            return end, end, f" ({entity.url})"
        if self._commands(entity) == "me":
            return start + self._part(start, end).index("@"), end, ""
        if not self._means_me(entity):
            return None
        after = self._part(end, len(self._units) // 2)
        before = self._part(0, start)
        if not before.strip():
            return 0, end + len(after) - len(after.lstrip(_PUNCTUATION)), ""
        return (start - len(before) + len(before.rstrip(" ,")), end, "") if not after.strip(_PUNCTUATION) else None

    def _means_me(self, entity: MessageEntity) -> bool:
        if entity.type == MessageEntityType.TEXT_MENTION:
            return entity.user is not None and entity.user.id == self._me.id
        named = entity.type == MessageEntityType.MENTION
        return named and self._me.is_named(self._part(entity.offset, entity.offset + entity.length))

    def _commands(self, entity: MessageEntity) -> str:
        """Return "me" or "another" for a command that names a bot, else nothing."""
        if entity.type != MessageEntityType.BOT_COMMAND:
            return ""
        _, at, name = self._part(entity.offset, entity.offset + entity.length).partition("@")
        if not at:
            return ""
        return "me" if self._me.is_named(name) else "another"

    def _part(self, start: int, end: int) -> str:
        return self._units[2 * start : 2 * end].decode("utf-16-le", "replace")
