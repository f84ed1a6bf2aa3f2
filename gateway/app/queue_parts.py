"""Builds the queue of messages: lanes, what waits in them, the pause, and what becomes of a turn that fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from channels.messages import ChatAddress
from channels.protocol import Channel
from gateway.agents.running_agent import RunningAgent
from gateway.app.dependencies import Dependencies
from gateway.base.errors import StorageFailed, no_descriptor
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Turn
from gateway.outbound.owner_notifications import OwnerNotifications, StartupNotices
from gateway.outbound.progress import AckReactions
from gateway.queue.enqueue import WaitingNotices
from gateway.queue.lanes import Lanes, Ticket
from gateway.queue.message_queue import MessageQueue
from gateway.queue.pause import Pause
from gateway.routing.routed_message import isolated_kind
from gateway.settings.root import SettingsStore
from gateway.turns.storage_retry import StorageRetry
from gateway.turns.worker import Errand, ResetDue, TurnWorker, go_on

log = logging.getLogger(__name__)


class QueueParts:
    """The lanes and what decides about their items. Nothing may run in them before ``connect``.

    ``store_stops`` stores what was stopped while nothing could be written.
    """

    worker: TurnWorker

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        *,
        agents: Mapping[str, RunningAgent],
        notices: StartupNotices,
        owner: OwnerNotifications,
        channel: Callable[[ChatAddress], Channel],
        store_stops: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._agents = agents
        defaults = deps.settings.agents.defaults
        self.lanes: Lanes[Any] = Lanes(
            _too_early,
            limit=defaults.max_concurrent,
            pools={"sub": defaults.subagents.max_concurrent},
            pool_of=isolated_kind,
            broken=self._broken,
        )
        self.queue = MessageQueue(self.lanes, settings, agents, deps.clock)
        self.lanes.hold = self.queue.hold
        self.acks = AckReactions(settings, channel)
        self.pause = Pause(self.lanes, notices.report, notices.withdraw)
        self.storage_retry = StorageRetry(ledger, self.lanes, self.pause, deps.clock, owner.tell, store_stops=store_stops)
        self.waiting_notices = WaitingNotices(ledger.outbox, deps.clock, self.pause)

    def connect(self, worker: TurnWorker) -> None:
        """Say what works on the items."""
        self.worker = worker
        self.lanes.work = worker.work
        self.storage_retry.end_stopped = worker.end_stopped

    def reset_due(self, agent: str, key: str) -> None:
        """Have a session reset that is due for it, unless something waits or runs in it."""
        if not self.lanes.queued(key) and not any(ticket.session == key for ticket in self.lanes.running()):
            self.lanes.submit(key, ResetDue(agent, key))

    def keep_cached(self, agent: str, key: str) -> None:
        """Have the provider's cache of an idle session kept."""
        if not self.lanes.queued(key) and not self.lanes.busy(key):
            self.lanes.submit(key, Errand(partial(self._agents[agent].keep_cached, key)))

    def wake(self, turn: Turn) -> None:
        """Let a turn go on that had to wait."""
        go_on(self.lanes, turn)

    def _broken(self, ticket: Ticket[Any], error: Exception) -> None:
        error = no_descriptor(error) or error
        if isinstance(error, StorageFailed):
            log.warning("a turn of %s failed: %s", ticket.session, error)
            self.storage_retry.met(ticket, error)
        else:
            log.error("a turn of %s failed: %s", ticket.session, error, exc_info=error)
        self.worker.report_failure(ticket.item, error, stopped=ticket.ending == "stop")


async def _too_early(ticket: Ticket[Any]) -> None:
    raise RuntimeError(f"an item of {ticket.session} runs before the parts are connected")
