"""Connects what answers messages: ``gateway.turns`` with the channels, the models' gate and the parts that a reply passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from channels.messages import API, ChatAddress
from channels.protocol import Channel
from channels.terminal.channel import LOCAL, TerminalChannel
from gateway.agents.running_agent import RunningAgent
from gateway.app.approval_parts import ApprovalParts
from gateway.app.dependencies import Dependencies
from gateway.command_handlers.rights import CommandRights
from gateway.inbound.pipeline import Inbox
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Turn
from gateway.logs.secret_scanner import SecretFilter
from gateway.media.media_service import MediaService
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.outbound.progress import AckReactions
from gateway.queue.lanes import Lanes
from gateway.queue.message_queue import MessageQueue
from gateway.queue.steering import RunningTurn
from gateway.routing.routed_message import RoutedMessage
from gateway.routing.router import Router
from gateway.settings.root import SettingsStore
from gateway.turns.answering import Answering
from gateway.turns.ending import Results, TurnEndings
from gateway.turns.worker import TurnWorker
from gateway.voice.spoken_replies import SpokenReplies


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
        lanes: Lanes[Any],
        queue: MessageQueue,
        running: dict[str, RunningTurn],
        router: Router,
        approvals: ApprovalParts,
        rights: CommandRights,
        channel: Callable[[ChatAddress], Channel],
        terminal: TerminalChannel,
        owner: OwnerNotifications,
        media: MediaService,
        spoken: SpokenReplies,
        acks: AckReactions,
        secret_filter: SecretFilter,
        results: Results,
        wake: Callable[[Turn], None],
    ) -> None:
        self._terminal = terminal
        self._owner = owner
        self.endings = TurnEndings(
            ledger,
            results=results,
            hand_out=inbox.hand_out,
            channel=channel,
            clock=deps.clock,
            lanes=lanes,
            media=media,
            asking=approvals.asking,
            wake=wake,
            resumed_at=self._resumed_at,
            answered=acks.answered,
            agents=agents,
            settings=settings,
            answering=router.answering,
            secret_filter=secret_filter,
            spoken=spoken,
            telemetry=deps.telemetry,
        )
        self.answering = Answering(
            ledger=ledger,
            read=inbox.read,
            channel=channel,
            clock=deps.clock,
            lanes=lanes,
            queue=queue,
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
            queue=queue,
            answering=self.answering,
            endings=self.endings,
            rights=rights,
            running=running,
            decisions=approvals.decisions,
        )

    async def _resumed_at(self, message: RoutedMessage) -> ChatAddress:
        """Return where a turn is answered that had to wait: where it was asked for, unless that was a terminal that is gone.

        The owner's programs do not wait either; a guest's is told with its next message.
        """
        place = message.inbound.conversation
        if place.channel == API:
            return (await self._owner.place() or place) if message.actor.owner else place
        if place.channel != self._terminal.name or self._terminal.attached(place):
            return place
        return await self._owner.place() or replace(place, id=LOCAL)
