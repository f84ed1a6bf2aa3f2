"""Which previews stand on a platform, stored as a cursor: a process that starts finds those that an earlier one left half written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from channels.errors import NotSent
from channels.messages import ChatAddress, Cursor
from channels.protocol import InboundSink

CURSOR: Final = "previews"
MOST: Final = 200
"""Previews that are kept; the oldest is dropped first."""


class KeptPreview(Struct, frozen=True, kw_only=True):
    """A preview of ``turn``. ``message`` is None from before it is posted until its id is known. ``at``: when, by the system clock."""

    conversation: ChatAddress
    turn: str
    key: str
    at: float
    message: str | None = None


class KeptPreviews:
    """The previews of one account. Nothing is stored before ``load``."""

    def __init__(self) -> None:
        self._sink: InboundSink | None = None
        self._kept: dict[str, KeptPreview] = {}
        self._stored = ""
        self._storing = asyncio.Lock()

    async def load(self, sink: InboundSink) -> list[KeptPreview]:
        """Store in ``sink`` from now on; return what is stored there, oldest first."""
        stored = await sink.cursor(CURSOR)
        self._sink, self._stored = sink, stored or ""
        self._kept = {one.key: one for one in sorted(_read(stored), key=lambda one: one.at)}
        return list(self._kept.values())

    def holds(self, key: str) -> bool:
        """Return whether a preview is still one."""
        return key in self._kept

    async def put(self, preview: KeptPreview) -> None:
        """Store a preview durably. Raises NotSent."""
        if self._sink is None:
            return
        known = preview.key in self._kept
        self._kept[preview.key] = preview
        while len(self._kept) > MOST:
            del self._kept[next(iter(self._kept))]
        try:
            await self._store()
        except NotSent:
            if not known:
                self._kept.pop(preview.key, None)
            raise

    async def drop(self, keys: Iterable[str]) -> None:
        """Store durably that messages are no previews any more. Raises NotSent, and then they are still kept."""
        gone = {key: self._kept.pop(key) for key in keys if key in self._kept}
        if not gone:
            return
        try:
            await self._store()
        except NotSent:
            self._kept = {**gone, **self._kept}
            raise

    def all(self) -> list[KeptPreview]:
        """Return the previews."""
        return list(self._kept.values())

    def of_message(self, conversation: ChatAddress, message: str) -> list[str]:
        """Return the keys of the previews that a message is."""
        return [
            key
            for key, one in self._kept.items()
            if one.message == message and one.conversation.address == conversation.address
        ]

    async def _store(self) -> None:
        async with self._storing:
            value = json.dumps([_written(one) for one in self._kept.values()], separators=(",", ":"))
            if self._sink is None or value == self._stored:
                return
            try:
                await self._sink.accept([], Cursor(name=CURSOR, value=value))
            except Exception as error:  # whatever it is: what is not stored must not be posted
                raise NotSent(f"which message is a preview could not be stored: {error}") from error
            self._stored = value


def _written(preview: KeptPreview) -> dict[str, Any]:
    place = preview.conversation
    found = {"in": place.address, "space": place.space, "turn": preview.turn, "key": preview.key, "at": preview.at}
    return {**found, "message": preview.message}


def _read(stored: str | None) -> list[KeptPreview]:
    """Read a cursor; what cannot be read of it is left out."""
    try:
        found = json.loads(stored or "[]")
    except (ValueError, RecursionError):
        return []
    return [one for raw in (found if isinstance(found, list) else []) if (one := _one(raw)) is not None]


def _one(raw: Any) -> KeptPreview | None:
    try:
        place, message = ChatAddress.parse(raw["in"]), raw["message"]
        preview = KeptPreview(conversation=place, turn=str(raw["turn"]), key=str(raw["key"]), at=float(raw["at"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    if isinstance(space := raw.get("space"), str):
        preview = replace(preview, conversation=replace(place, space=space))
    return replace(preview, message=message) if isinstance(message, str) and message else preview
