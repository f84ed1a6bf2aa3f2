"""Tells the owner while the database takes nothing: it is away, its disk is full, or it has become read-only.

What the owner is sent meanwhile cannot be stored, so it goes straight to their chat, once for each outage: it may be missing or, after a
crash, said twice.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final, Protocol

from msgspec import Struct

from gateway.base.errors import StorageFailed

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
TELL_AFTER: Final = 60.0
"""How long it lasts before the owner is told in the chat: a restart of the server does not matter to anybody."""


class OutageClock(Protocol):
    """What this needs of a clock."""

    def now(self) -> datetime:
        """Return the current instant."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Probed(Protocol):
    """What is used of ``PostgresLedger``."""

    @property
    def trouble(self) -> StorageFailed | None:
        """Why something could not be stored, since the last ``probe`` that succeeded."""
        ...

    async def probe(self) -> None:
        """Store something. Raises StorageFailed."""
        ...


class Outage(Struct, frozen=True):
    """One that lasts."""

    since: datetime
    error: StorageFailed


class DatabaseOutage:
    """Looks whether something could not be stored, and tries until it can be.

    ``tell`` adds a notice for log and status, ``end`` takes it away. ``send`` sends a line straight to the owner's chat; it returns whether
    it did. ``say`` queues one.
    """

    def __init__(
        self,
        ledger: Probed,
        clock: OutageClock,
        *,
        tell: Callable[[str], None],
        end: Callable[[str], None],
        send: Callable[[str], Awaitable[bool]],
        say: Callable[[str], None],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._tell, self._end, self._send, self._say = tell, end, send, say
        self.present: Outage | None = None

    async def facts(self) -> dict[str, Any]:
        """Return the outage that lasts, as JSON values."""
        lasts = self.present
        if lasts is None:
            return {"outage": None}
        since = lasts.since.isoformat(timespec="seconds")
        return {"outage": {"since": since, "text": str(lasts.error), "mend": lasts.error.hint}}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            if (error := self._ledger.trouble) is not None:
                await self._last(error)

    async def _last(self, error: StorageFailed) -> None:
        began, notice, told = self._clock.monotonic(), "", False
        self.present = Outage(self._clock.now(), error)
        while True:
            try:
                await self._ledger.probe()
            except StorageFailed as failed:
                self.present = Outage(self.present.since, failed)
                if (fresh := f"{failed}. {failed.hint}".strip()) != notice:
                    self._end(notice)
                    self._tell(notice := fresh)
                if not told and self._clock.monotonic() - began >= TELL_AFTER:
                    what = "I can store nothing at present, so I do not answer"
                    told = await self._send(f"💾 {what}. {fresh} I go on by myself as soon as I can.")
                await self._clock.sleep(LOOK_SECONDS)
            else:
                break
        self.present = None
        self._end(notice)
        if told:
            self._say("💾 I can write again, and go on.")
