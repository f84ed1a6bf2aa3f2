"""The 24 hours after a person wrote, in which WhatsApp takes free messages to them (the customer service window).

https://developers.facebook.com/documentation/business-messaging/whatsapp/messages/send-messages
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from channels.messages import Cursor
from channels.whatsapp.kept_facts import put, read, written

if TYPE_CHECKING:
    from channels.protocol import Clock, InboundSink

CURSOR: Final = "windows"
OPEN_SECONDS: Final = 24 * 3600.0
COARSE_SECONDS: Final = 600.0
"""How much later a stored time may be than the true one: so that not every message writes all of them."""
_ASKED: Final = "asked"


class Windows:
    """When people last wrote, by conversation; and who was asked by a template to write since. Nothing is known of others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stored: dict[str, str] = {}
        self._wrote: dict[str, float] = {}
        self._slack: dict[str, float] = {}

    async def begin(self, sink: InboundSink) -> None:
        """Read what an earlier process stored."""
        self._stored = read(await sink.cursor(CURSOR))
        for place, value in self._stored.items():
            if value.removesuffix(_ASKED).isdecimal() and place not in self._wrote:
                self._wrote[place], self._slack[place] = float(value.removesuffix(_ASKED)), COARSE_SECONDS

    @property
    def any(self) -> bool:
        """Whether it is known that anybody ever wrote."""
        return bool(self._wrote)

    def heard(self, place: str, at: float) -> bool:
        """Note that somebody wrote at this time. Returns whether that has to be stored, with ``cursor``."""
        if at > self._wrote.get(place, 0.0):
            self._wrote[place], self._slack[place] = at, 0.0
        kept = self._stored.get(place, "0")
        if kept.isdecimal() and at - float(kept) < COARSE_SECONDS:
            return False
        if float(kept.removesuffix(_ASKED)) >= at:
            return False
        put(self._stored, place, str(int(at)))
        while len(self._wrote) > 2 * len(self._stored) + 1:
            self._forget(next(iter(self._wrote)))
        return True

    def shut(self, place: str) -> bool:
        """Return whether it is known that no free message is taken."""
        wrote = self._wrote.get(place)
        return wrote is not None and self._clock.now().timestamp() - wrote > OPEN_SECONDS + self._slack.get(place, 0.0)

    def found_shut(self, place: str) -> None:
        """Note what Meta says: the window is shut."""
        self._wrote[place] = min(self._wrote.get(place, 0.0), self._clock.now().timestamp() - 2 * OPEN_SECONDS)
        self._slack[place] = 0.0

    def asked(self, place: str) -> bool:
        """Return whether the person was asked by a template since they wrote last."""
        return self._stored.get(place, "").endswith(_ASKED)

    def note_asked(self, place: str) -> Cursor:
        """Note that a template is about to be sent, and return what has to be stored before."""
        put(self._stored, place, f"{int(max(self._wrote.get(place, 0.0), 0))}{_ASKED}")
        return self.cursor()

    def cursor(self) -> Cursor:
        """Return what has to be stored."""
        return Cursor(name=CURSOR, value=written(self._stored))

    def _forget(self, place: str) -> None:
        self._wrote.pop(place, None)
        self._slack.pop(place, None)
