"""Where a message that was taken in gets in line, and what its sender sees of that at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from channels.live import Note
from gateway.outbound.progress import show_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from channels.messages import ChatAddress
    from channels.protocol import Channel
    from gateway.agents.running_agent import RunningAgent
    from gateway.outbound.ack_reactions import AckReactions
    from gateway.queue.lanes import Lanes
    from gateway.queue.message_queue import MessageQueue
    from gateway.queue.steering import RunningTurn
    from gateway.queue.waiting_notice import WaitingNotices
    from gateway.routing.routed_message import RoutedMessage


class Enqueuer:
    """Takes each message that arrives, in order, and returns at once."""

    def __init__(
        self,
        *,
        line: MessageQueue,
        lanes: Lanes[Any],
        backlog: WaitingNotices,
        acks: AckReactions,
        agents: Mapping[str, RunningAgent],
        under_way: Callable[[str], RunningTurn | None],
        channel: Callable[[ChatAddress], Channel],
    ) -> None:
        self._line = line
        self._lanes = lanes
        self._backlog = backlog
        self._acks = acks
        self._agents = agents
        self._under_way = under_way
        self._channel = channel

    def __call__(self, arrived: RoutedMessage) -> None:
        """Put a message in line. Where the mode says so, the turn that runs in the same conversation ends for it."""
        place, session = arrived.inbound.conversation, arrived.route.session
        agent = self._agents.get(arrived.route.agent)
        item, ahead = self._line.join(arrived, agent.triggers if agent else ())
        self._acks.taken(arrived)
        mode = self._line.rule(session, place.channel).mode
        running = self._under_way(session)
        if mode == "interrupt" and item.kin and running is not None and running.kin == item.kin:
            self._lanes.stop(session, "interrupt")
            return
        if self._backlog.taken(arrived):
            return
        if ahead and not self._line.held(session):
            self._backlog.note(arrived, ahead, mode)
            show_frame(self._channel(place), place, Note(f"⏳ {ahead} ahead ({mode})"))
