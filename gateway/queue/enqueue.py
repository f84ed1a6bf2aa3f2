"""Puts a message in its queue, and shows its sender at once that it arrived and waits, and why."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from agent.timing import Clock
from channels.live import PAUSE_NOTICE, Note
from channels.messages import ChatAddress
from channels.protocol import Channel
from gateway.base.errors import StorageFailed
from gateway.ledger.outbox_rows import OutboxLedger
from gateway.ledger.rows import NewOutbound
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.outbound.progress import AckReactions, show_frame
from gateway.queue.lanes import Lanes
from gateway.queue.message_queue import MessageQueue
from gateway.queue.pause import Pause
from gateway.queue.steering import RunningTurn
from gateway.routing.routed_message import RoutedMessage
from gateway.settings.message_settings import QueueMode

log = logging.getLogger(__name__)


class Enqueuer:
    """Enqueues messages in order; never blocks."""

    def __init__(
        self,
        *,
        queue: MessageQueue,
        lanes: Lanes[Any],
        waiting_notices: WaitingNotices,
        acks: AckReactions,
        running: Mapping[str, RunningTurn],
        owner: OwnerNotifications,
        channel: Callable[[ChatAddress], Channel],
    ) -> None:
        self._queue = queue
        self._lanes = lanes
        self._waiting_notices = waiting_notices
        self._acks = acks
        self._running = running
        self._owner = owner
        self._channel = channel

    def enqueue(self, message: RoutedMessage) -> None:
        """Put a message in the queue of its session. In mode "interrupt" it cancels the turn that runs in the same conversation.

        A message that no person wrote only waits: nobody is told how long, and it cancels nothing.
        """
        if message.automation is not None:
            self._queue.join(message)
            return
        self._owner.heard(message)
        place, session = message.inbound.conversation, message.route.session
        item, ahead = self._queue.join(message)
        self._acks.taken(message)
        mode = self._queue.rule(session, place.channel).mode
        running = self._running.get(session)
        if mode == "interrupt" and item.group_key and running is not None and running.group_key == item.group_key:
            self._lanes.stop(session, "interrupt")
            return
        if self._waiting_notices.taken(message):
            return
        if ahead and not self._queue.held(session):
            self._waiting_notices.note(message, ahead, mode)
            show_frame(self._channel(place), place, Note(f"⏳ {ahead} ahead ({mode})", message.inbound.message_id))


WORTH_TELLING = 5
"""From so many messages ahead the sender is notified, and again whenever that number doubles."""
TTL = timedelta(minutes=10)
PAUSED = "⏸ Your message is kept, but I am paused and answer nothing at the moment; it is answered when that is over. /status says why."
HOW: dict[QueueMode, str] = {
    "collect": "I answer what waits together",
    "steer": "I look at it between two steps",
    "followup": "I take them one after the other",
    "interrupt": "I answer what waits together",
}


class WaitingNotices:
    """Sends "queued, N ahead", and a notice during a pause."""

    def __init__(self, outbox: OutboxLedger, clock: Clock, pause: Pause) -> None:
        self._outbox = outbox
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause = pause

    def note(self, message: RoutedMessage, ahead: int, mode: QueueMode = "followup") -> None:
        """Notify about a message that was put behind ``ahead`` others, unless it is older than ``TTL``."""
        steps, rest = divmod(ahead, WORTH_TELLING)
        if rest or steps.bit_count() != 1 or self._clock.now() - message.row.received_at > TTL:
            return
        self._say(message, f"⏳ Queued, {ahead} ahead. {HOW[mode]}; /stop ends what runs.")

    def taken(self, message: RoutedMessage) -> bool:
        """Notify the conversation of a new message about a pause, once; return whether there is one.

        The notice has a key of the message, so that a message that still waits after a restart in the pause has no second one.
        """
        if not self._pause.lasts:
            return False
        if self._pause.untold(message.inbound.conversation.address):
            self._say(message, PAUSED, key=f"{PAUSE_NOTICE}{message.row.uid}")
        return True

    def _say(self, message: RoutedMessage, text: str, key: str | None = None) -> None:
        notice = NewOutbound(conversation=message.inbound.conversation, text=text, ttl=TTL, key=key)
        task = asyncio.ensure_future(self._tell(notice))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self, notice: NewOutbound) -> None:
        try:
            await self._outbox.enqueue([notice])
        except StorageFailed as error:  # the message itself is safe
            log.warning("a notice could not be queued: %s", error)
