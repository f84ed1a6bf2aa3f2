"""Steering: waiting messages join the running turn between two of its steps."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct, field

from agent.loop.steering_source import ExtraMessage, SteeringSource
from agent.messages import UserMessage
from gateway.base.errors import InvalidTransition, StorageFailed
from gateway.ledger.protocol import TurnLedger
from gateway.queue.lanes import Lanes
from gateway.queue.message_queue import MessageQueue, QueuedMessage
from gateway.routing.routed_message import RoutedMessage

if TYPE_CHECKING:
    from agent.loop.turn import Turn

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


@dataclasses.dataclass
class Steering(SteeringSource):
    """The steering source of one turn.

    A message is claimed for the turn in the ledger before the agent gets it. After a crash between the two it is among the turn's messages
    at the next start; the transcript says which of them the agent got.
    """

    running: RunningTurn
    turn: str
    queue: MessageQueue
    lanes: Lanes[QueuedMessage]
    turns: TurnLedger
    read: Callable[[Sequence[int]], Awaitable[list[RoutedMessage]]]
    hear: Callable[[RoutedMessage], Awaitable[UserMessage]]
    _rejected: set[int] = dataclasses.field(default_factory=set, init=False)

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
            await self.turns.join(self.turn, rows)
        except (InvalidTransition, StorageFailed) as error:
            log.warning("messages %s could not be let into the turn that runs: %s", rows, error)
            self._rejected.update(rows)
            return ()
        self.lanes.take(self.running.session, items)
        arrived = await self.read(rows)
        self.running.steered += arrived
        return [ExtraMessage(one.row.uid, await self.hear(one)) for one in arrived]

    def _joinable(self) -> list[QueuedMessage]:
        """Return the messages that may join; none behind one that the ledger did not let join, which would hold tools back for ever."""
        items = self.queue.steerable(self.running.session, self.running.group_key)
        return list(takewhile(lambda item: item.row not in self._rejected, items))
