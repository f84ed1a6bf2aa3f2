"""Retries turns that failed because nothing could be written: they go back to the front of their lanes, and all lanes pause.

Messages are stored as long as the ledger can be written, urgent commands are answered, and nothing has to be restarted when there is room
again. A turn that had begun continues from its transcript.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from agent.timing import Clock
from gateway.base.errors import StorageAway, StorageFailed
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Turn
from gateway.queue.lanes import Lanes, Ticket
from gateway.queue.message_queue import QueuedMessage
from gateway.queue.pause import Pause
from gateway.turns.worker import InterruptedTurn

log = logging.getLogger(__name__)

SHORTEST, LONGEST = 1.0, 10.0
FORGOTTEN_AFTER = 120.0
"""Seconds without a setback after which the next wait is the shortest again."""
FREE_RETRIES = 3
"""Setbacks of one turn that do not count as attempts at it; a turn that fills the disk itself must come to an end."""
FREE_OUTAGES = 10
"""The same where the database was away, which hardly any turn is the reason of."""


class StorageRetry:
    """Keeps failed items and gives them back to the lanes. ``tell`` notifies the owner and raises StorageFailed.

    The owner is not told of a database that is away: ``gateway.supervision.database_outage`` does that, once it lasts.
    ``store_stops`` stores what was stopped meanwhile beside the items, and raises it, too.
    """

    def __init__(
        self,
        ledger: Ledger,
        lanes: Lanes[Any],
        pause: Pause,
        clock: Clock,
        tell: Callable[[str], Awaitable[None]],
        *,
        store_stops: Callable[[], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._lanes = lanes
        self._pause = pause
        self._clock = clock
        self._tell = tell
        self._store_stops = store_stops
        self._stopped: list[tuple[str, Any, bool]] = []
        self._ended: list[QueuedMessage | InterruptedTurn] = []
        self._setbacks: Counter[tuple[str, bool]] = Counter()
        """By turn, and whether the database was away."""
        self._wait = SHORTEST
        self._over = float("-inf")
        self._waiting: asyncio.Task[None] | None = None
        self._told = False
        self._closed = False
        self.end_stopped: Callable[[QueuedMessage | InterruptedTurn], Awaitable[None]] = _not_connected
        """Records that its owner stopped an item. Idempotent."""
        self.here: Callable[[str], bool] = lambda _session: True
        """Whether a session is this gateway's still, where several share them."""

    def met(self, ticket: Ticket[Any], error: StorageFailed) -> None:
        """Keep an item that failed with ``error``. Called while its lane counts it as running, so that nothing overtakes it.

        An item that its owner stopped stays stopped: that is recorded as soon as the ledger can be written.
        """
        if self._closed:
            return
        away = isinstance(error, StorageAway)
        if isinstance(ticket.item, (QueuedMessage, InterruptedTurn)):  # the scheduler finds a reset that is due again
            if ticket.ending == "stop":
                self._ended.append(ticket.item)
            else:
                self._stopped.append((ticket.session, ticket.item, away))
        self._told = self._told or not away
        notice = f"{error}. I keep what is said to me, and go on by myself as soon as I can write. {error.hint}"
        first = self._clock.monotonic() - self._over > FORGOTTEN_AFTER
        self._pause.begin("storage", notice, known=away or not first)
        if self._waiting is None:
            self._wait = SHORTEST if first else self._wait
            self._waiting = asyncio.ensure_future(self._go_on(first=first))

    def close(self) -> None:
        """Stop waiting. What is kept here is in the ledger too."""
        self._closed = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _go_on(self, *, first: bool) -> None:
        """Resume once the ledger can be written. The owner is notified the first time, not when it fails again at once."""
        while True:
            await self._clock.sleep(self._wait)
            self._wait = min(LONGEST, 2 * self._wait)
            try:
                await self._store_stops()
                for ended in self._ended:
                    await self.end_stopped(ended)
                found = [(session, await self._present(item, away=away)) for session, item, away in self._stopped]
                if first and self._told:
                    await self._tell("💾 I can write again, and go on.")
            except StorageFailed as error:
                log.warning("the ledger still cannot be written: %s", error)
            else:
                break
        self._stopped, self._ended, self._waiting, self._over = [], [], None, self._clock.monotonic()
        self._told = False
        for session, item in reversed(found):
            if item is not None and self.here(session):
                self._lanes.put_first(session, item)
        self._pause.end("storage")

    async def _present(self, item: QueuedMessage | InterruptedTurn, *, away: bool) -> QueuedMessage | InterruptedTurn | None:
        """Return the item to retry, from the ledger: the message, the turn that it was claimed for, or None when it has ended."""
        found = await self._found(item)
        if found is None or isinstance(found, QueuedMessage):
            return found
        self._setbacks[found.id, away] += 1
        if self._setbacks[found.id, away] <= (FREE_OUTAGES if away else FREE_RETRIES):
            await self._ledger.turns.interrupted(found.id)
        return InterruptedTurn(found)

    async def _found(self, item: QueuedMessage | InterruptedTurn) -> QueuedMessage | Turn | None:
        wanted = item.turn.id if isinstance(item, InterruptedTurn) else None
        if isinstance(item, QueuedMessage):
            rows = await self._ledger.inbox.rows([item.row])
            if not rows or rows[0].state not in {"waiting", "claimed"}:
                return None
            if rows[0].state == "waiting":
                return item
            wanted = rows[0].turn
        return next((turn for turn in await self._ledger.turns.unfinished() if turn.id == wanted), None)


async def _not_connected(_item: QueuedMessage | InterruptedTurn) -> None:
    raise RuntimeError("an item was stopped before the parts are connected")
