"""Steering: waiting messages join the running turn between two of its steps."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile

from msgspec import Struct, field

from agent.loop.turn import ExtraMessage, SteeringSource, Turn
from agent.messages import UserMessage
from gateway.base.errors import InvalidTransition, StorageFailed
from gateway.ledger.protocol import TurnLedger
from gateway.queue.lanes import Lanes
from gateway.queue.message_queue import MessageQueue, QueuedMessage
from gateway.routing.routed_message import RoutedMessage

log = logging.getLogger(__name__)


class RunningTurn(Struct, eq=False):
    """The turn that runs in a session. ``items`` are the messages it began with, ``steered`` those that joined it."""

    session: str
    group_key: str
    items: Sequence[QueuedMessage] = ()
    turn: Turn | None = None
    steered: list[RoutedMessage] = field(default_factory=list)

    @property
    def begun(self) -> bool:
        """Whether its messages are in the transcript."""
        return self.turn is not None and self.turn.begun


class Steering(SteeringSource):
    """The steering source of one turn.

    A message is claimed for the turn in the ledger before the agent gets it. After a crash between the two it is among the turn's messages
    at the next start; the transcript says which of them the agent got.
    """

    def __init__(
        self,
        running: RunningTurn,
        turn: str,
        *,
        queue: MessageQueue,
        lanes: Lanes[QueuedMessage],
        turns: TurnLedger,
        read: Callable[[Sequence[int]], Awaitable[list[RoutedMessage]]],
        hear: Callable[[RoutedMessage], Awaitable[UserMessage]],
    ) -> None:
        self._running = running
        self._turn = turn
        self._queue = queue
        self._lanes = lanes
        self._turns = turns
        self._read = read
        self._hear = hear
        self._rejected: set[int] = set()

    def any(self) -> bool:
        """See ``SteeringSource``."""
        return bool(self._joinable())

    async def take(self) -> Sequence[ExtraMessage]:
        """See ``SteeringSource``. Messages that the ledger does not let join stay in the lane for a turn of their own."""
        items = self._joinable()
        rows = [item.row for item in items]
        if not rows:
            return ()
        try:
            await self._turns.join(self._turn, rows)
        except (InvalidTransition, StorageFailed) as error:
            log.warning("messages %s could not be let into the turn that runs: %s", rows, error)
            self._rejected.update(rows)
            return ()
        self._lanes.take(self._running.session, items)
        arrived = await self._read(rows)
        self._running.steered += arrived
        return [ExtraMessage(one.row.uid, await self._hear(one)) for one in arrived]

    def _joinable(self) -> list[QueuedMessage]:
        """Return the messages that may join; none behind one that the ledger did not let join, which would hold tools back for ever."""
        items = self._queue.steerable(self._running.session, self._running.group_key)
        return list(takewhile(lambda item: item.row not in self._rejected, items))
