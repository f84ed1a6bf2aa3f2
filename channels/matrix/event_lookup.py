"""Messages by their id: the latest ones from memory, others asked of the homeserver. For quotes, and for reactions that are presses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from channels.common.event_guard import MALFORMED
from channels.matrix.http_api import TROUBLE, MatrixHttp, path
from channels.matrix.inbound import text_of, thread_of
from channels.matrix.sending import BUTTONS

if TYPE_CHECKING:
    from channels.matrix.encryption import Encryption
    from channels.matrix.rooms import Room

MOST: Final = 500
SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a message."""

    sender: str = ""
    text: str = ""
    thread: str | None = None
    buttons: Mapping[str, str] | None = None


class EventLookup:
    """Looks messages up for one connection."""

    def __init__(self, http: MatrixHttp, encryption: Encryption | None) -> None:
        self._http = http
        self._encryption = encryption
        self._known: OrderedDict[tuple[str, str], Known] = OrderedDict()

    def note(self, event: Mapping[str, Any], room: Room) -> None:
        """Remember a message that was just read."""
        self._keep(room, str(event["event_id"]), _known(event, room))

    async def find(self, room: Room, identity: str) -> Known:
        """Return what is known of a message of a room; nothing for one that cannot be had there."""
        found = self._known.get((room.id, identity))
        if found is not None:
            return found
        try:
            event = await self._http.ask("GET", path("rooms", room.id, "event", identity), seconds=SECONDS)
            if event.get("type") == "m.room.encrypted" and self._encryption is not None:
                event = self._encryption.decrypted(room.id, event) or event
            found = _known(event, room)
        except (*TROUBLE, *MALFORMED):
            return Known()
        self._keep(room, identity, found)
        return found

    def _keep(self, room: Room, identity: str, known: Known) -> None:
        key = (room.id, identity)
        self._known[key] = known
        self._known.move_to_end(key)
        while len(self._known) > MOST:
            self._known.popitem(last=False)


def _known(event: Mapping[str, Any], room: Room) -> Known:
    content = event["content"]
    values = content.get(BUTTONS)
    buttons = {str(key): str(value) for key, value in values.items()} if isinstance(values, dict) else None
    mine = str(event["sender"]) == room.me
    return Known(str(event["sender"]), text_of(event, room.me, "")[:300], thread_of(content), buttons if mine else None)
