"""Connects what watches a ledger in a database: the owner is told of an outage in their chat, without anything being stored."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from channels.messages import ChatAddress, Outbound
from channels.protocol import Channel
from gateway.app.dependencies import Dependencies
from gateway.base.errors import StorageFailed
from gateway.ledger.protocol import Ledger
from gateway.outbound.owner_notifications import OwnerNotifications, StartupNotices

if TYPE_CHECKING:
    from gateway.supervision.database_outage import DatabaseOutage

log = logging.getLogger(__name__)


class OutageParts:
    """What is known of an outage of the database. Nothing of it is loaded before ``watch``."""

    def __init__(
        self,
        deps: Dependencies,
        ledger: Ledger,
        *,
        notices: StartupNotices,
        owner: OwnerNotifications,
        channel: Callable[[ChatAddress], Channel],
    ) -> None:
        self._deps = deps
        self._ledger = ledger
        self._notices = notices
        self._owner = owner
        self._channel = channel
        self._outage: DatabaseOutage | None = None

    async def watch(self) -> None:
        """Tell the owner of a database that takes nothing, until cancelled. Returns at once where the ledger is a file."""
        from gateway.ledger.postgres.ledger import PostgresLedger
        from gateway.supervision.database_outage import DatabaseOutage

        if not isinstance(self._ledger, PostgresLedger):
            return
        self._outage = DatabaseOutage(
            self._ledger,
            self._deps.clock,
            tell=self._notices.tell,
            end=self._notices.withdraw,
            send=self._send_at_once,
            say=partial(self._owner.say, waits=True),
        )
        with contextlib.suppress(StorageFailed):
            await self._owner.place()  # it is remembered for when it cannot be looked up
        await self._outage.run()

    async def facts(self) -> dict[str, Any]:
        """Return whether an outage lasts, as JSON values."""
        return {"outage": None} if self._outage is None else await self._outage.facts()

    async def _send_at_once(self, text: str) -> bool:
        """Send a line to the owner's chat without storing it; return whether it was sent."""

        async def record(_text: str) -> None:
            """Nothing is kept of it."""

        place = self._owner.known_place()
        if place is None:
            return False
        line = Outbound(key=f"outage{secrets.token_hex(6)}", conversation=place, text=self._deps.outgoing.text(text), turn="")
        try:
            await self._channel(place).send(line, record)
        except Exception as error:  # noqa: BLE001 - a channel that fails, too, leaves the log
            log.warning("the owner could not be told: %s", error)
            return False
        return True
