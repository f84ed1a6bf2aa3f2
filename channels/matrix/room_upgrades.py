"""Rooms that were replaced by others (“upgraded”): the agent follows into the new room. Importing this module loads aiohttp.

Whoever may end a room says in it which one takes its place (``m.room.tombstone``), and the new one says whose place it takes. Where both
say so, rules, session and queued messages move to the new room.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from channels.matrix.http_api import TROUBLE, MatrixHttp, Refused, path

if TYPE_CHECKING:
    from channels.common.log import Log
    from channels.matrix.rooms import Room, RoomDirectory
    from channels.matrix.settings import MatrixAccount
    from channels.protocol import InboundSink


class RoomUpgrades:
    """Joins what takes the place of rooms that one account is in."""

    def __init__(
        self, settings: MatrixAccount, http: MatrixHttp, rooms: RoomDirectory, sink: InboundSink, *, log: Log, account: str
    ) -> None:
        self._settings = settings
        self._http = http
        self._rooms = rooms
        self._sink = sink
        self._log = log
        self._account = account
        self._tried: set[str] = set()
        self.trouble = ""

    async def hear(self, room: Room, changes: Mapping[str, Any]) -> None:
        """Take in what a sync tells of a room, before its messages: whether it takes another's place, or another its own."""
        parts = [part for name in ("state", "timeline") if isinstance(part := changes.get(name), dict)]
        kinds = {one.get("type") for part in parts for one in part.get("events") or () if isinstance(one, dict)}
        if kinds & {"m.room.create", "m.room.tombstone"}:
            for former, fresh in pairwise(self._rooms.lineage(room)):
                if former.person is None and fresh.person is None:
                    await self._sink.moved(*(one.conversation(self._account, None) for one in (former, fresh)))

    async def follow(self) -> None:
        """Join the rooms that take the place of others; try again later where the homeserver fails.

        A room that only invited people may join is joined when the invitation comes (``Invitations``).
        """
        self.trouble = ""
        for room in list(self._rooms):
            if not room.replaced_by or self._rooms.get(room.replaced_by) is not None:
                continue
            if self._settings.auto_join == "off":
                self.trouble = (
                    f"{room.name or room.id} was replaced by {room.replaced_by}, and autoJoin is off: join it in Element"
                )
            elif room.replaced_by in self._tried:
                self.trouble = f"{room.name or room.id} was replaced by {room.replaced_by}: invite the agent's account there"
            else:
                await self._join(room.id, room.replaced_by, room.replaced_on)

    async def _join(self, former: str, fresh: str, server: str) -> None:
        try:
            await self._http.ask("POST", path("join", fresh), {}, query={"via": server, "server_name": server})
        except Refused as error:
            if not error.passing:
                self._tried.add(fresh)
                self._log.warning(
                    "a room that replaces another could not be joined", room=fresh, former=former, error=str(error)
                )
        except TROUBLE:
            return
        else:
            self._log.info("joined a room that replaces another", room=fresh, former=former, account=self._account)
