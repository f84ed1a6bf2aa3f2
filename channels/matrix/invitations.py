"""Invitations into rooms: who may invite, and the joining. Importing this module loads aiohttp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from channels.common.event_guard import EventGuard
from channels.matrix.http_api import TROUBLE, MatrixHttp, Refused, path

if TYPE_CHECKING:
    from channels.common.log import Log
    from channels.matrix.rooms import RoomDirectory
    from channels.matrix.settings import MatrixAccount
    from channels.protocol import Clock, InboundSink

STRANGERS_AN_HOUR: Final = 10
"""Private chats of people who are not known that are joined in an hour; invitations beyond wait."""
MOST: Final = 200
_HOUR: Final = 3600.0


class Invitations:
    """The invitations of one account that wait. The homeserver lists all that are open at each start."""

    def __init__(
        self,
        settings: MatrixAccount,
        http: MatrixHttp,
        sink: InboundSink,
        rooms: RoomDirectory,
        *,
        clock: Clock,
        log: Log,
        account: str,
    ) -> None:
        self._settings = settings
        self._http = http
        self._sink = sink
        self._rooms = rooms
        self._clock = clock
        self._log = log
        self._account = account
        self._guard = EventGuard(log, account)
        self._open: dict[str, tuple[str, bool]] = {}
        self._told: set[str] = set()
        self._strangers: list[float] = []

    def hear(self, rooms: Mapping[str, Any]) -> None:
        """Take in the part ``invite`` of a sync."""
        for room, told in rooms.items():
            with self._guard.reading({"kind": "invite", "room": room}):
                for event in told["invite_state"]["events"]:
                    mine = event.get("type") == "m.room.member" and event.get("state_key") == self._rooms.me
                    if mine and event["content"].get("membership") == "invite":
                        self._open[str(room)] = (str(event["sender"]), event["content"].get("is_direct") is True)
        while len(self._open) > MOST:
            del self._open[next(iter(self._open))]

    def withdrawn(self, room: str) -> None:
        """Forget an invitation that is over."""
        self._open.pop(room, None)

    async def answer(self) -> None:
        """Join the rooms whose invitation is accepted; try again later where the homeserver fails."""
        for room, (inviter, direct) in list(self._open.items()):
            if not await self._accepts(room, inviter, direct=direct):
                if room not in self._told:
                    self._told.add(room)
                    self._log.info("an invitation is left open", room=room, inviter=inviter, account=self._account)
                continue
            try:
                await self._http.ask("POST", path("rooms", room, "join"), {})
            except Refused as error:
                if error.passing:
                    return
                self._log.warning("an invitation could not be accepted", room=room, inviter=inviter, error=str(error))
            except TROUBLE:
                return
            else:
                self._log.info("joined a room", room=room, inviter=inviter, account=self._account)
            self._open.pop(room, None)

    async def _accepts(self, room: str, inviter: str, *, direct: bool) -> bool:
        match self._settings.auto_join:
            case "off":
                return False
            case "always":
                return True
        if self._rooms.awaits(room) or await self._sink.admits(inviter):
            return True
        if not direct or not self._settings.dm.enabled or self._settings.dm.policy != "pairing":
            return False
        now = self._clock.monotonic()
        self._strangers = [one for one in self._strangers if now - one < _HOUR]
        if len(self._strangers) >= STRANGERS_AN_HOUR:
            return False
        self._strangers.append(now)
        return True
