"""Puts a message in its queue, and shows its sender at once that it arrived and waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from channels.live import Note
from channels.messages import ChatAddress
from channels.protocol import Channel
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.outbound.progress import AckReactions, show_frame
from gateway.queue.lanes import Lanes
from gateway.queue.message_queue import MessageQueue
from gateway.queue.steering import RunningTurn
from gateway.queue.waiting_notice import WaitingNotices
from gateway.routing.routed_message import RoutedMessage


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
        """Put a message in the queue of its session. In mode "interrupt" it cancels the turn that runs in the same conversation."""
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
            show_frame(self._channel(place), place, Note(f"⏳ {ahead} ahead ({mode})"))
