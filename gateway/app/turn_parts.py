"""Connects what answers messages: ``gateway.turns`` with the channels, the models' gate and the parts that a reply passes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from channels.messages import API, ChatAddress
from channels.terminal.channel import LOCAL
from gateway.agents.running_agent import RunningAgent
from gateway.app.approval_parts import ApprovalParts
from gateway.app.dependencies import Dependencies
from gateway.app.outbound_parts import OutboundParts
from gateway.app.queue_parts import QueueParts
from gateway.app.routing_parts import RoutingParts
from gateway.inbound.pipeline import Inbox
from gateway.ledger.protocol import Ledger
from gateway.queue.steering import RunningTurn
from gateway.routing.routed_message import RoutedMessage
from gateway.settings.root import SettingsStore
from gateway.turns.answering import Answering
from gateway.turns.ending import Results, TurnEndings
from gateway.turns.unanswered_words import UnansweredWords
from gateway.turns.worker import TurnWorker


class TurnParts:
    """The worker of the lanes, what it answers with, and what ends a turn, in the order in which a message passes them."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        *,
        agents: Mapping[str, RunningAgent],
        inbox: Inbox,
        running: dict[str, RunningTurn],
        routing: RoutingParts,
        queue: QueueParts,
        outbound: OutboundParts,
        approvals: ApprovalParts,
        results: Results,
    ) -> None:
        lanes, router = queue.lanes, routing.router
        channel, media, secret_filter = outbound.channel, outbound.media, outbound.secret_filter
        spoken = outbound.media_parts.spoken_replies(media.outgoing)
        self._terminal = outbound.terminal
        self._owner = outbound.owner
        words = UnansweredWords(ledger.turns, inbox.read, media.intake)
        self.endings = TurnEndings(
            ledger,
            results=results,
            hand_out=inbox.hand_out,
            channel=channel,
            clock=deps.clock,
            lanes=lanes,
            media=media,
            asking=approvals.asking,
            wake=queue.wake,
            resumed_at=self._resumed_at,
            name_at=self._owner.name_at,
            answered=queue.acks.answered,
            agents=agents,
            settings=settings,
            answering=router.answering,
            secret_filter=secret_filter,
            spoken=spoken,
            telemetry=deps.telemetry,
            words=words,
        )
        self.answering = Answering(
            ledger=ledger,
            read=inbox.read,
            channel=channel,
            clock=deps.clock,
            lanes=lanes,
            queue=queue.queue,
            media=media,
            gate=approvals.gate,
            endings=self.endings,
            settings=settings,
            secret_filter=secret_filter,
            spoken=spoken,
        )
        self.worker = TurnWorker(
            ledger=ledger,
            read=inbox.read,
            agents=agents,
            channel=channel,
            audience=router.audience,
            clock=deps.clock,
            lanes=lanes,
            queue=queue.queue,
            answering=self.answering,
            endings=self.endings,
            rights=routing.rights,
            running=running,
            decisions=approvals.decisions,
            words=words,
        )

    async def _resumed_at(self, message: RoutedMessage) -> ChatAddress:
        """Return where a turn is answered that had to wait: where it was asked for, unless that was a terminal that is gone.

        The owner's programs do not wait either; a guest's is told with its next message.
        """
        place = message.inbound.conversation
        if place.channel == API:
            return (await self._owner.place_of(message.route.agent) or place) if message.actor.owner else place
        if place.channel != self._terminal.name or self._terminal.attached(place):
            return place
        return await self._owner.place_of(message.route.agent) or replace(place, id=LOCAL)
