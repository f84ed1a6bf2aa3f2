"""Private chats that the agent begins: the room is made when it writes to somebody with whom it has none. Importing this loads aiohttp."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from channels.errors import NotSent
from channels.matrix.api_errors import send_error
from channels.matrix.http_api import TROUBLE, MatrixHttp, path

if TYPE_CHECKING:
    from channels.matrix.rooms import RoomDirectory
    from channels.protocol import Clock

AGAIN_AFTER: Final = 24 * 3600.0
"""Seconds after which somebody who left a private chat, or declined it, is invited again."""
_DOUBT: Final = 10.0
"""Seconds for which a room may still turn up after a request whose answer was lost."""
_TOLD_WITHIN: Final = 5.0
_PERSON: Final = re.compile(r"@[^:\s]+:\S+")
ALGORITHM: Final = "m.megolm.v1.aes-sha2"


@dataclass(slots=True)
class _Made:
    at: float
    room: str = ""


class PrivateChats:
    """Makes the private chats of one account, each once.

    The homeserver has no key for that, so the rooms that we are in are looked at first.
    One that was made before a crash is among them at the next start, since its only other member is invited.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[str, _Made] = {}
        self._making = asyncio.Lock()

    async def make(self, person: str, http: MatrixHttp, rooms: RoomDirectory, *, encrypted: bool) -> None:
        """Make the private chat with a person, who is invited. Raises NotSent if it is not there yet, or is not to be made."""
        if _PERSON.fullmatch(person) is None:
            raise NotSent(f"{person[:80]!r} is no id of a person on Matrix, such as @anna:example.org", permanent=True)
        async with self._making:
            if rooms.private(person) is not None:
                return
            known, now = self._made.get(person), self._clock.monotonic()
            if known is not None and not known.room and now - known.at < _DOUBT:
                raise NotSent(f"it is not known yet whether the private chat with {person} was made", retry_after=_DOUBT)
            if known is not None and rooms.get(known.room) is not None and now - known.at < AGAIN_AFTER:
                what = f"{person} has left the private chat, or it is one of several people now"
                raise NotSent(what, permanent=True, hint="ask them to write to the agent: that begins a new one")
            if known is None or not known.room or rooms.get(known.room) is not None:
                known = self._made[person] = _Made(now)
                known.room = await self._created(person, http, encrypted=encrypted)
        try:
            await rooms.told(known.room, _TOLD_WITHIN)
        except TimeoutError as error:
            raise NotSent("the homeserver has not told of the new private chat yet", retry_after=1.0) from error

    async def _created(self, person: str, http: MatrixHttp, *, encrypted: bool) -> str:
        sealed = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": ALGORITHM}}
        wanted: dict[str, Any] = {
            "preset": "trusted_private_chat",
            "is_direct": True,
            "invite": [person],
            "initial_state": [sealed] if encrypted else [],
        }
        try:
            found = await http.ask("POST", path("createRoom"), wanted)
            return str(found["room_id"])
        except TROUBLE as error:
            problem = send_error(error)
            if isinstance(problem, NotSent):
                self._made.pop(person, None)
                raise problem from error
            raise NotSent(f"the private chat with {person} may not have been made: {problem}") from error
