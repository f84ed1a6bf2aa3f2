"""Connects what receives messages: ``gateway.inbound`` with routing, the commands that do not wait, and the queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from channels.messages import ChatAddress
from gateway.agents.running_agent import RunningAgent
from gateway.app.dependencies import Dependencies
from gateway.app.outbound_parts import OutboundParts
from gateway.app.queue_parts import QueueParts
from gateway.app.routing_parts import RoutingParts
from gateway.approvals.decisions import Decisions
from gateway.command_handlers.stopping import Stopping
from gateway.command_handlers.urgent_commands import FurtherCommand, UrgentCommands
from gateway.inbound.pipeline import Inbox
from gateway.ledger.protocol import Ledger
from gateway.queue.enqueue import Enqueuer
from gateway.queue.steering import RunningTurn
from gateway.sandbox.protocol import Standing
from gateway.settings.root import SettingsStore


class InboundParts:
    """The inbox, and what it hands messages to."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        *,
        agents: Mapping[str, RunningAgent],
        running: dict[str, RunningTurn],
        routing: RoutingParts,
        queue: QueueParts,
        outbound: OutboundParts,
        decisions: Decisions,
        stopping: Stopping,
        confined: Callable[[str], Standing | None],
        further: Callable[[str], FurtherCommand | None],
        status_lines: Callable[[RunningAgent], Awaitable[Sequence[str]]],
    ) -> None:
        channel, owner, delivery, groups = outbound.channel, outbound.owner, outbound.delivery, routing.groups
        self._urgent = UrgentCommands(
            ledger=ledger,
            lanes=queue.lanes,
            agents=agents,
            channel=channel,
            resume=lambda: queue.pause.everywhere(),  # noqa: PLW0108 (it is set later)
            gateway=lambda: queue.pause.name,
            queue=queue.queue,
            running=running,
            rights=routing.rights,
            confined=confined,
            decisions=decisions,
            stopping=stopping,
            further=further,
            status_lines=status_lines,
            group_lines=groups.status_lines,
        )
        enqueuer = Enqueuer(
            queue=queue.queue,
            lanes=queue.lanes,
            waiting_notices=queue.waiting_notices,
            acks=queue.acks,
            owner=owner,
            running=running,
            channel=channel,
        )
        self.inbox = Inbox(
            ledger,
            routing.access,
            routing.router,
            agents=agents,
            settings=settings,
            clock=deps.clock,
            migrations=routing.migrations,
            urgent=self._urgent,
            enqueue=enqueuer.enqueue,
            channel=channel,
            ready=delivery.ready,
            bounced=delivery.bounced,
            alive=outbound.channel_supervisor.alive,
            arrivals=groups.arrivals(owner, routing.router, agents=agents, settings=settings, owners=routing.access.owner_ids),
            tell_owner=owner.say,
            telemetry=deps.telemetry,
        )

    async def stop_client(self, place: ChatAddress) -> None:
        """Stop what runs for a terminal, a page or an API client."""
        if session := self.inbox.dispatcher.sessions.get(place):
            await self._urgent.stop_session(session)
