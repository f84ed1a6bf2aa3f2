"""A small house for channels to talk to: it keeps what it was given, once, and can be told to refuse."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from channels.errors import NotSent
    from channels.messages import ChatAddress, Cursor, Inbound


class BookDoor:
    """A ``Door`` that writes everything down. ``refuse`` is raised by accept while it is set."""

    def __init__(self, cursors: dict[str, str] | None = None) -> None:
        self.messages: list[Inbound] = []
        self.cursors = cursors if cursors is not None else {}
        self.refuse: Exception | None = None
        self.refused = 0
        self.readied = 0
        self.lives = 0
        self.admitted: set[str] | None = None
        self.moves: list[tuple[ChatAddress, ChatAddress]] = []
        self.added_to: list[tuple[ChatAddress, str, str, str]] = []
        self.told_owner: list[str] = []
        self.returned: list[tuple[ChatAddress, str, NotSent]] = []
        self.knows_what_it_sent = True
        self._changed = asyncio.Condition()
        self._ready = asyncio.Event()

    async def accept(self, messages: Sequence[Inbound], cursor: Cursor | None = None) -> None:
        async with self._changed:
            self._changed.notify_all()
            if self.refuse is not None:
                self.refused += 1
                raise self.refuse
            aliases = {one.alias for one in self.messages}
            fresh = {(one.key, one.alias): one for one in messages if one.alias not in aliases}
            self.messages += fresh.values()  # one delivery may hold a message twice
            if cursor is not None:
                self.cursors[cursor.name] = cursor.value

    async def cursor(self, name: str) -> str | None:
        return self.cursors.get(name)

    async def admits(self, person: str) -> bool:
        return self.admitted is None or person in self.admitted

    async def added(self, group: ChatAddress, *, key: str, title: str = "", by: str = "") -> None:
        self.added_to.append((group, key, title, by))

    def tell_owner(self, text: str) -> None:
        self.told_owner.append(text)

    async def moved(self, former: ChatAddress, present: ChatAddress) -> None:
        async with self._changed:
            if self.refuse is not None:
                raise self.refuse
            self.moves.append((former, present))
            self._changed.notify_all()

    async def bounced(self, conversation: ChatAddress, platform_id: str, error: NotSent) -> bool:
        async with self._changed:
            if self.refuse is not None:
                raise self.refuse
            self.returned.append((conversation, platform_id, error))
            self._changed.notify_all()
        return self.knows_what_it_sent

    def ready(self) -> None:
        self.readied += 1
        self._ready.set()

    async def until_ready(self) -> None:
        """Wait until the channel says so anew."""
        self._ready.clear()
        await self._ready.wait()

    def alive(self) -> None:
        self.lives += 1

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.messages]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until an accept made the condition true."""
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(condition), PATIENCE)
