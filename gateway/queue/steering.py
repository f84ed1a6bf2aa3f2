"""Letting messages into the turn that runs, and what is known of that turn meanwhile."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.loop.turn import ExtraMessage, SteeringSource
from gateway.base.errors import InvalidTransition, StorageFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from agent.loop.turn import Turn
    from agent.messages import UserMessage
    from gateway.ledger.protocol import TurnLedger
    from gateway.queue.lanes import Lanes
    from gateway.queue.message_queue import MessageQueue, QueuedMessage
    from gateway.routing.routed_message import RoutedMessage

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class RunningTurn:
    """The turn that a session works on. ``items`` are its first messages in the lane, ``steered`` those that came in on the way."""

    session: str
    kin: str
    items: Sequence[QueuedMessage] = ()
    turn: Turn | None = None
    steered: list[RoutedMessage] = field(default_factory=list)

    @property
    def begun(self) -> bool:
        """Whether its messages are part of the conversation already."""
        return self.turn is not None and self.turn.begun


class Steering(SteeringSource):
    """What arrives for one turn, as its agent sees it.

    A message is claimed for the turn in the ledger before the agent is given it. What a crash leaves between the two is among
    the turn's messages at the next start, and the transcript knows which of them it has.
    """

    def __init__(
        self,
        under_way: RunningTurn,
        turn: str,
        *,
        line: MessageQueue,
        lanes: Lanes[QueuedMessage],
        turns: TurnLedger,
        read: Callable[[Sequence[int]], Awaitable[list[RoutedMessage]]],
        hear: Callable[[RoutedMessage], Awaitable[UserMessage]],
    ) -> None:
        self._under_way = under_way
        self._turn = turn
        self._line = line
        self._lanes = lanes
        self._turns = turns
        self._read = read
        self._hear = hear

    def any(self) -> bool:
        """See ``SteeringSource``."""
        return bool(self._line.steerable(self._under_way.session, self._under_way.kin))

    async def take(self) -> Sequence[ExtraMessage]:
        """See ``SteeringSource``. What the ledger does not give stays in the lane for a turn of its own."""
        items = self._line.steerable(self._under_way.session, self._under_way.kin)
        rows = [item.row for item in items]
        if not rows:
            return ()
        try:
            await self._turns.join(self._turn, rows)
        except (InvalidTransition, StorageFailed) as error:
            log.warning("messages %s could not be let into the turn that runs: %s", rows, error)
            return ()
        self._lanes.take(self._under_way.session, items)
        arrived = await self._read(rows)
        self._under_way.steered += arrived
        return [ExtraMessage(one.row.uid, await self._hear(one)) for one in arrived]
