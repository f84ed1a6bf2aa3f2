"""The agent's own reaction on a message, one at a time. Importing this module loads aiohttp."""

from __future__ import annotations

import contextlib
import uuid
from collections import OrderedDict
from typing import Final

from channels.matrix.http_api import V3, MatrixHttp, Refused, event_of, path
from channels.matrix.sending import Outgoing
from channels.messages import ChatAddress

MOST: Final = 1000


class OwnReactions:
    """Remembers the own reaction on each message; the homeserver is asked for those of an earlier run."""

    def __init__(self) -> None:
        self._own: OrderedDict[str, dict[str, str]] = OrderedDict()

    async def put(self, outgoing: Outgoing, conversation: ChatAddress, message: str, emoji: str | None) -> None:
        """Set the reaction on a message, or remove it. Raises one of ``TROUBLE``, or ChannelError."""
        room = outgoing.room(conversation)
        own = self._own.get(message)
        if own is None:
            own = await _asked(outgoing.http, room.id, message, room.me)
        for key, event in list(own.items()):
            if key != emoji:
                await outgoing.http.ask("PUT", path("rooms", room.id, "redact", event, uuid.uuid4().hex), {})
                del own[key]
        if emoji is not None and emoji not in own:
            relation = {"rel_type": "m.annotation", "event_id": message, "key": emoji}
            with contextlib.suppress(_AlreadyThere):
                own[emoji] = await _added(outgoing, room.id, relation)
        self._own[message] = own
        self._own.move_to_end(message)
        while len(self._own) > MOST:
            self._own.popitem(last=False)


class _AlreadyThere(Exception):
    """The homeserver holds this reaction already."""


async def _added(outgoing: Outgoing, room: str, relation: dict[str, str]) -> str:
    try:
        found = await outgoing.http.ask(
            "PUT", path("rooms", room, "send", "m.reaction", uuid.uuid4().hex), {"m.relates_to": relation}
        )
    except Refused as error:
        if error.code == "M_DUPLICATE_ANNOTATION":
            raise _AlreadyThere from error
        raise
    return event_of(found)


async def _asked(http: MatrixHttp, room: str, message: str, me: str) -> dict[str, str]:
    where = path("rooms", room, "relations", message, "m.annotation", "m.reaction").replace(V3, "/_matrix/client/v1", 1)
    found = await http.ask("GET", where, query={"limit": "100"})
    own = {}
    for event in found.get("chunk") or ():
        if isinstance(event, dict) and event.get("sender") == me:
            relation = (event.get("content") or {}).get("m.relates_to") or {}
            own[str(relation.get("key"))] = str(event["event_id"])
    return own
