"""Previews of an answer while it is written, for platforms where a message can be edited.

The preview is a message that is edited at most once a second, and its last edit is the finished answer, so the answer appears once.
A turn that ends within three seconds has no preview. Platforms may set longer intervals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from channels.errors import Uncertain
from channels.messages import ChatAddress
from channels.protocol import Clock

AFTER = 3.0
BETWEEN = 1.0
MOST = 200
PREFIX = "preview:"


class Editing(Protocol):
    """What a platform must support. Both raise only ``ChannelError``."""

    async def post(self, conversation: ChatAddress, text: str) -> str:
        """Post a message and return its id."""
        ...

    async def edit(self, conversation: ChatAddress, message: str, text: str) -> None:
        """Replace a message's text."""
        ...


@dataclass
class _Preview:
    turn: str
    began: float
    message: str | None = None
    shown: str = ""
    edited: float = 0.0
    ended: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Previews:
    """The previews of one account, one for each conversation at most."""

    def __init__(
        self,
        editing: Editing,
        clock: Clock,
        *,
        after: float = AFTER,
        between: Callable[[ChatAddress], float] = lambda _: BETWEEN,
    ) -> None:
        self._editing = editing
        self._clock = clock
        self._after = after
        self._between = between
        self._open: dict[str, _Preview] = {}
        self._over: dict[str, str] = {}

    async def show(self, conversation: ChatAddress, turn: str, text: str) -> None:
        """Show ``text`` if enough time has passed. If cancelled, a message that is being posted is still recorded."""
        address = conversation.address
        if self._over.get(address) == turn or not text.strip():
            return
        preview = self._open.get(address)
        if preview is None or preview.turn != turn:
            preview = self._open[address] = _Preview(turn, self._clock.monotonic())
        now = self._clock.monotonic()
        early = now - preview.began < self._after or now - preview.edited < self._between(conversation)
        if early or text == preview.shown or preview.lock.locked():
            return
        await asyncio.shield(asyncio.ensure_future(self._show(conversation, preview, text)))

    async def _show(self, conversation: ChatAddress, preview: _Preview, text: str) -> None:
        async with preview.lock:
            if self._open.get(conversation.address) is not preview:
                return
            preview.shown, preview.edited = text, self._clock.monotonic()
            if preview.message is None:
                try:
                    preview.message = await self._editing.post(conversation, text)
                except Uncertain:  # it may exist: another one would be a duplicate
                    self._over[conversation.address] = preview.turn
                    raise
            else:
                await self._editing.edit(conversation, preview.message, text)

    async def refresh(self, conversation: ChatAddress, older: float) -> None:
        """Show the preview again if it was shown ``older`` seconds ago or earlier, for platforms where it expires."""
        preview = self._open.get(conversation.address)
        if preview is None or not preview.shown or preview.lock.locked():
            return
        if self._clock.monotonic() - preview.edited >= older:
            await asyncio.shield(asyncio.ensure_future(self._show(conversation, preview, preview.shown)))

    def end(self, conversation: ChatAddress, turn: str) -> None:
        """End the previews of a turn: the next message, whatever it is, may replace its preview."""
        preview = self._open.get(conversation.address)
        if preview is not None and preview.turn == turn:
            preview.ended = True

    async def take(self, conversation: ChatAddress, turn: str | None = None) -> str | None:
        """End the preview of a conversation and return its message, which becomes the answer; None if there is none.

        With ``turn``, the preview of another turn that has not ended is kept.
        """
        preview = self._open.get(conversation.address)
        if preview is None or (turn is not None and turn != preview.turn and not preview.ended):
            return None
        del self._open[conversation.address]
        while len(self._over) >= MOST:
            del self._over[next(iter(self._over))]
        self._over[conversation.address] = preview.turn
        async with preview.lock:
            return preview.message
