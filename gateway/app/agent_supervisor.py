"""Adds, removes and rebuilds agents while the gateway runs.

New agents are built before the new settings are in force: if one cannot be built, the settings are refused. An agent that is removed
gets no new messages, answers those that wait, flushes its sessions, and leaves its files in place. An agent that gets another
workspace, time zone or memory is rebuilt between two turns; its messages wait, and running turns keep what they began with.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from agent.errors import AgentError
from gateway.agents.running_agent import RunningAgent
from gateway.app.agent_factory import AgentParts, BuiltAgent, build_agent, build_key, folder_of
from gateway.base.errors import HomebodyError
from gateway.queue.lanes import AgentsAtWork, Lanes
from gateway.routing.router import agent_of
from gateway.settings.root import Settings

log = logging.getLogger(__name__)

SETTLE_SECONDS = 30.0
"""Time for an agent that is removed to flush its sessions."""
ANSWER_SECONDS = 60.0
"""Time for an agent of a cluster that is removed to answer what waits; other agents are not handed over meanwhile."""
PAUSED_SECONDS = 1.0
"""How often a paused gateway is polled for messages of an agent that is to be removed."""


class AgentSupervisor:
    """Owns the agents and their memories, and keeps ``agents`` (by id) up to date.

    ``serving``: sessions are flushed when an agent is removed. ``look_again`` is called when the schedule of sessions may have changed,
    and ``leaving`` with the id of an agent that is removed, before it answers what waits.
    """

    def __init__(
        self,
        parts: AgentParts,
        agents: dict[str, RunningAgent],
        lanes: Lanes[Any],
        *,
        at_work: AgentsAtWork,
        serving: bool,
        look_again: Callable[[], None],
        leaving: Callable[[str], Awaitable[None]],
    ) -> None:
        self._parts = parts
        self._agents = agents
        self._lanes = lanes
        self._at_work = at_work
        self._serving = serving
        self._reschedule = look_again
        self._leaving = leaving
        self.ours: Callable[[str], bool] = lambda _: True
        """Whether an agent is this gateway's, where several share them."""
        self._built: dict[str, BuiltAgent] = {}
        self._started = False
        self._changing: dict[str, asyncio.Task[None]] = {}
        self._one_at_a_time: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By agent: settings and leases bring, rebuild and remove it, and either may come while the other is at it."""
        self._given_up: set[str] = set()

    @property
    def _settings(self) -> Settings:
        return self._parts.settings.current

    def _wanted(self, agent_id: str) -> bool:
        return self.ours(agent_id) and agent_id not in self._given_up

    async def open(self, settings: Settings) -> None:
        """Build all agents. Raises what ``prepare`` raises; what was opened so far is closed by ``close``."""
        for agent_id in filter(self.ours, settings.agent_ids):
            self._add(await build_agent(self._parts, agent_id, settings))

    def start(self) -> None:
        """Start the background work of all memories, also of agents that are added later."""
        self._started = True
        for built in self._built.values():
            built.start()

    async def prepare(self, settings: Settings) -> Sequence[BuiltAgent]:
        """Build the agents that are new in ``settings`` without making them reachable: ``adopt`` or ``dismiss`` follows.

        Raises:
            StorageFailed, AgentError, UsageError: a folder or a memory cannot be used.
        """
        newcomers: list[BuiltAgent] = []
        try:
            for agent_id in [one for one in settings.agent_ids if one not in self._built and self._wanted(one)]:
                newcomers += [await build_agent(self._parts, agent_id, settings)]
            while late := [one for one in newcomers if one.agent.id in self._built or not self._wanted(one.agent.id)]:
                newcomers = [one for one in newcomers if one not in late]
                await self.dismiss(late)  # a lease came or went meanwhile
        except BaseException:  # also when cancelled: what was opened is closed
            await self.dismiss(newcomers)
            raise
        return newcomers

    async def take(self, agent_id: str) -> None:
        """Build an agent that another gateway had. Raises what ``prepare`` raises."""
        async with self._one_at_a_time[agent_id]:
            self._given_up.discard(agent_id)
            if agent_id in self._built:
                return
            built = await build_agent(self._parts, agent_id, self._settings)
            if agent_id in self._built:  # new settings brought it meanwhile
                await built.close()
                return
            self._add(built)
            self._reschedule()

    async def give_up(self, agent_id: str, within: float | None = None) -> None:
        """Let an agent answer what it has begun, and remove it, because another gateway goes on with it or the settings lack it.

        Where the settings lack it nobody else answers what waits: it is given time for that. When it returns the agent is gone, whoever
        removed it. What still runs after ``within`` seconds is cancelled, and goes on at the other gateway.
        """
        self._given_up.add(agent_id)
        goes_on = agent_id in self._settings.agent_ids
        if not goes_on:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._answered(agent_id)
        await self._lanes.forget(lambda session: agent_of(session) == agent_id, within)
        await self._leave(agent_id, flushing=self._serving and not goes_on)

    async def bring_left(self) -> None:
        """Bring to their repositories what this gateway had not pushed of workspaces whose agents others have now, until cancelled."""
        parts = self._parts
        while True:
            await parts.clock.sleep(self._settings.cluster.lease_seconds)
            for agent_id in self._settings.agent_ids:
                known = agent_id in self._settings.agent_ids  # the settings may have changed since the last one was brought
                if known and agent_id not in self._built and not self.ours(agent_id):
                    profile = self._settings.agent(agent_id)
                    await parts.workspaces.bring(profile, partial(folder_of, parts, profile))

    async def dismiss(self, newcomers: Sequence[BuiltAgent]) -> None:
        """Close agents that were prepared and are not needed."""
        for built in newcomers:
            await built.close()

    def adopt(self, settings: Settings, newcomers: Sequence[BuiltAgent], busy: Collection[str]) -> None:
        """Make the new agents reachable and hand ``settings`` to the others. Removals and rebuilds follow in ``look_again``."""
        for built in newcomers:
            self._add(built)
        if newcomers:
            self._reschedule()
        for agent_id, built in self._built.items():
            if agent_id in settings.agent_ids:
                built.agent.adopt(settings, busy)

    async def look_again(self) -> None:
        """Begin to remove agents that are no longer configured, and to rebuild those whose build key changed, in the background."""
        settings = self._settings
        for agent_id in list(self._built):
            if agent_id not in self._changing and not await self._is_right(agent_id, settings):
                task = asyncio.create_task(self._see_to(agent_id), name=agent_id)
                self._changing[agent_id] = task
                task.add_done_callback(self._changed)

    def _changed(self, task: asyncio.Task[None]) -> None:
        del self._changing[task.get_name()]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("agent %s did not change as the settings want", task.get_name(), exc_info=error)

    @property
    def changing(self) -> frozenset[str]:
        """The agents that come, go or change now."""
        return frozenset(self._changing)

    async def settled(self) -> None:
        """Wait until no removal or rebuild is in progress."""
        while self._changing:
            await asyncio.wait(self._changing.values())

    async def close(self) -> None:
        """Cancel changes in progress and close every memory."""
        for task in list(self._changing.values()):
            task.cancel()
        await asyncio.gather(*self._changing.values(), return_exceptions=True)
        for built in self._built.values():
            await built.close()

    def _add(self, built: BuiltAgent) -> None:
        self._built[built.agent.id] = built
        self._agents[built.agent.id] = built.agent
        if self._started:
            built.start()

    async def _is_right(self, agent_id: str, settings: Settings) -> bool:
        if agent_id not in settings.agent_ids:
            return False
        paths, env = self._parts.paths, self._parts.env
        wanted = await asyncio.to_thread(build_key, settings.agent(agent_id), settings, paths, env)
        built = self._built.get(agent_id)  # it may have been given up meanwhile
        return built is None or wanted == built.build_key

    async def _see_to(self, agent_id: str) -> None:
        """Remove or rebuild one agent until it is as the settings say."""
        while agent_id in self._built and not await self._is_right(agent_id, self._settings):
            if agent_id not in self._settings.agent_ids:
                await self._leaving(agent_id)
                await self._answered(agent_id)
                if agent_id not in self._settings.agent_ids:
                    await self._leave(agent_id, flushing=self._serving)
            elif not await self._renew(agent_id):
                return
        await self._come_back(agent_id)

    async def _answered(self, agent_id: str) -> None:
        """Wait until an agent has answered the messages that came before its removal."""
        lanes = self._lanes
        while True:
            await lanes.quiet(lambda session: agent_of(session) == agent_id)
            if not any(agent_of(session) == agent_id for session in lanes.sessions()):
                return
            await self._parts.clock.sleep(PAUSED_SECONDS)

    async def _leave(self, agent_id: str, *, flushing: bool) -> None:
        """Remove an agent, unless it is gone."""
        async with self._one_at_a_time[agent_id]:
            built = self._built.get(agent_id)
            if built is None:
                return
            await built.agent.settle(SETTLE_SECONDS, flushing=flushing)
            del self._built[agent_id], self._agents[agent_id]
            await built.close()
            self._reschedule()
            log.info("agent %s is not here any more; its files stay", agent_id)

    async def _come_back(self, agent_id: str) -> None:
        """Build an agent again that was configured again during its removal, unless a lease brought it or took it away."""

        def missing() -> bool:
            return agent_id not in self._built and agent_id in self._settings.agent_ids and self._wanted(agent_id)

        async with self._one_at_a_time[agent_id]:
            if not missing():
                return
            try:
                built = await build_agent(self._parts, agent_id, self._settings)
            except (HomebodyError, AgentError) as error:
                self._parts.tell_owner(f"⚠️ The agent {agent_id} cannot come back: {error} {error.hint}".strip())
            else:
                if missing():
                    self._add(built)
                else:
                    await built.close()
        self._reschedule()

    async def _renew(self, agent_id: str) -> bool:
        """Replace an agent by one built from the current settings. Returns False when it could not be built; the owner is told."""
        async with self._at_work.shutting(agent_id), self._one_at_a_time[agent_id]:
            settings, former = self._settings, self._built.get(agent_id)
            if former is None or agent_id not in settings.agent_ids:
                return True
            await former.agent.settle(SETTLE_SECONDS, flushing=False)
            try:
                fresh = await build_agent(self._parts, agent_id, settings)
            except (HomebodyError, AgentError) as error:
                log.warning("agent %s could not be rebuilt: %s", agent_id, error)
                self._parts.tell_owner(
                    f"⚠️ The agent {agent_id} stays as it was, because what the settings say of it now cannot be used: "
                    f"{error} {error.hint}".strip()
                )
                return False
            await former.close()
            self._add(fresh)
            self._reschedule()
            log.info("agent %s was rebuilt; its workspace is %s", agent_id, fresh.agent.workspace.root)
            return True
