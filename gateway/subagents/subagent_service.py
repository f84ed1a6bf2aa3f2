"""Looks after sub-agents: stops them, tells of those whose work was lost, and forgets those that ended a while ago."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from agent.timing import Clock
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import StorageFailed
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Arrival, InboxRow
from gateway.ledger.subagent_rows import StoppedSubAgents, SubAgent
from gateway.queue.lanes import Lanes
from gateway.queue.message_queue import MessageQueue
from gateway.routing.router import agent_of
from gateway.subagents.origin_turn import OriginTurn
from gateway.subagents.subagent_results import SubAgentResults
from gateway.turns.worker import InterruptedTurn

log = logging.getLogger(__name__)

STOPPED: Final = "stopped by its owner"
REMOVED: Final = "its agent was removed"
LOST: Final = "its task could not be worked on"


class SubAgents:
    """The sub-agents of all agents.

    ``end_commands`` ends the background commands of the sessions that a function selects; ``hand_out`` enqueues a stored message.
    """

    def __init__(
        self,
        ledger: Ledger,
        agents: Mapping[str, RunningAgent],
        clock: Clock,
        *,
        lanes: Lanes[Any],
        queue: MessageQueue,
        results: SubAgentResults,
        end_commands: Callable[[Callable[[str], bool]], int],
        hand_out: Callable[[InboxRow], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._agents = agents
        self._clock = clock
        self._lanes = lanes
        self._queue = queue
        self._results = results
        self._end_commands = end_commands
        self._hand_out = hand_out

    async def begin(self, agents: Collection[str] | None = None) -> None:
        """End the turns of sub-agents that were stopped before the last process ended. Called before turns are taken up.

        ``agents``: those whose turns are taken up; None for all.
        """
        for turn in await self._ledger.turns.unfinished():
            if agents is not None and turn.agent not in agents:
                continue
            found = await self._ledger.subagents.find(session=turn.session)
            if found is not None and found.state == "stopped":
                await self._ledger.turns.finish(turn.id, "stopped", reason=found.reason or STOPPED)

    async def tick(self) -> None:
        """Tell of sub-agents whose work was lost, and archive those that ended. What fails is tried again with the next call."""
        try:
            await self.store_stops()
            await self._tell_lost()
            await self._archive()
        except StorageFailed as error:
            log.warning("sub-agents are looked after later: %s", error)

    async def stop(self, session: str | None) -> int:
        """Stop all sub-agents below a session, or all there are, with their commands; return how many.

        Whoever started one and is not stopped with it is told with the next message. Where nothing can be written they end all the same,
        and the stop is stored, and told, when there is room again.

        Raises:
            StorageFailed: the ledger cannot be read either, and nothing was stopped.
        """
        try:
            return await self._stopped(await self._ledger.subagents.stop(STOPPED, below=session, told=self._stop_notice))
        except StorageFailed as error:
            ledger = self._ledger.subagents
            return await self._stopped_unstored(await (ledger.all() if session is None else ledger.below(session)), error)

    async def works_for(self, session: str) -> bool:
        """Return whether a session has sub-agents that work."""
        return bool(self._working(await self._ledger.subagents.below(session)))

    async def stop_one(self, subagent: str) -> int:
        """Stop the sub-agent with this id and all below it, likewise; return how many. Raises StorageFailed."""
        try:
            return await self._stopped(await self._ledger.subagents.stop(STOPPED, only=[subagent], told=self._stop_notice))
        except StorageFailed as error:
            found = await self._ledger.subagents.find(subagent=subagent)
            return await self._stopped_unstored(
                [found, *await self._ledger.subagents.below(found.session)] if found is not None else [], error
            )

    async def store_stops(self) -> None:
        """Store the stops that could not be stored, with what is told of them. Raises StorageFailed."""
        if unstored := sorted(self._results.unstored_stops):
            await self._stopped(await self._ledger.subagents.stop(STOPPED, only=unstored, told=self._stop_notice))
            self._results.unstored_stops.difference_update(unstored)

    async def stop_agent(self, agent: str) -> None:
        """Stop the sub-agents of an agent that is removed, and those that its sessions started. Other agents are told by a message."""
        try:
            found = [one.id for one in await self._ledger.subagents.all() if agent in {one.agent, agent_of(one.parent)}]
            if found:
                await self._stopped(
                    await self._ledger.subagents.stop(REMOVED, only=found, told=lambda one: self._by_message(one, REMOVED))
                )
        except StorageFailed as error:  # they go on until they end by themselves
            log.warning("the sub-agents of %s could not be stopped: %s", agent, error)

    def _working(self, found: Sequence[SubAgent]) -> list[SubAgent]:
        return [one for one in found if one.state == "open" and one.id not in self._results.unstored_stops]

    async def _stopped_unstored(self, found: Sequence[SubAgent], error: StorageFailed) -> int:
        """End what sub-agents do, and remember that this is still to be stored."""
        working = self._working(found)
        log.warning("the stop of %d sub-agents is stored later: %s", len(working), error)
        self._results.unstored_stops.update(one.id for one in working)
        sessions = {one.session for one in working}
        self._end_commands(sessions.__contains__)
        for session in sessions:
            self._queue.stop(session)
        return len(working)

    async def _stopped(self, stopped: StoppedSubAgents) -> int:
        sessions = {one.session for one in stopped.subagents}
        self._end_commands(sessions.__contains__)
        for one in stopped.subagents:
            log.info("the sub-agent %s was stopped", one.id)
            self._queue.stop(one.session)
            for item in self._lanes.waiting(one.session):
                if isinstance(item, InterruptedTurn):
                    self._lanes.take(one.session, [item])
                    await self._ledger.turns.finish(item.turn.id, "stopped", reason=STOPPED)
        for row in stopped.rows:
            await self._hand_out(row)
        return len(stopped.subagents)

    def _stop_notice(self, one: SubAgent) -> Arrival | tuple[str, str] | None:
        """Tell of a stop: a sub-agent by a message, or it would wait for ever; a person's session with the next message."""
        if one.depth > 1:
            return self._by_message(one, STOPPED)
        try:
            place = OriginTurn.decoded(one.payload).place
        except (KeyError, TypeError, ValueError):
            return None
        return place.address, f"[Your sub-agent {one.id} was stopped by your owner, before it had a result.]"

    def _by_message(self, one: SubAgent, reason: str) -> Arrival | None:
        return self._results.arrival(one, "stopped", "", (), name="stopped", reason=reason)

    async def _tell_lost(self) -> None:
        while lost := await self._ledger.subagents.abandoned():
            await self._tell(lost)

    async def _tell(self, lost: Sequence[SubAgent]) -> None:
        for one in lost:
            arrival = self._results.arrival(one, "failed", "", (), name=f"lost-{one.messages}", reason=one.reason or LOST)
            row = await self._ledger.subagents.end(one.id, "failed", arrival, reason=one.reason or LOST) if arrival else None
            if row is not None:
                await self._hand_out(row)
            else:  # nobody can be told
                await self._ledger.subagents.stop(LOST, only=[one.id])

    async def _archive(self) -> None:
        for agent in list(self._agents.values()):
            kept = timedelta(minutes=agent.profile.subagents.archive_after_minutes)
            for one in await self._ledger.subagents.archive(agent.id, self._clock.now() - kept):
                record = agent.store.get(one.session)
                if record is not None and not self._lanes.busy(one.session):
                    agent.conversations.forget(record.session)
                    await agent.store.remove(one.session)
