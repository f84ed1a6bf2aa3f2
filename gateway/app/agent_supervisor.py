"""Agents that come, go and change while the house runs.

Who comes is settled in before the new settings hold: where that cannot be done, the settings are refused. Who goes is given
no new messages, answers those that wait, writes down what it knows, and leaves its files where they are. Who is to have
another workspace, time zone or memory is made anew between two turns; messages wait for that moment, and turns keep what
they began with.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from typing import TYPE_CHECKING

from agent.errors import AgentError
from gateway.app.agent_factory import BuiltAgent, build_agent, build_key
from gateway.base.errors import HomebodyError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from gateway.app.gateway import Gateway
    from gateway.settings.root import Settings

log = logging.getLogger(__name__)

SETTLE_SECONDS = 30.0
"""Given to an agent that goes for writing down what it knows."""
PAUSED_SECONDS = 1.0
"""How often a house that was paused is looked at, for messages of an agent that is to go."""


class AgentSupervisor:
    """The agents of a house with their memories. ``house.agents`` is kept in step."""

    def __init__(self, house: Gateway) -> None:
        self._house = house
        self._residents: dict[str, BuiltAgent] = {}
        self._started = False
        self._changing: dict[str, asyncio.Task[None]] = {}
        self._shut: dict[str, asyncio.Event] = {}
        self._at_work: Counter[str] = Counter()
        self._rest = asyncio.Event()

    async def open(self, settings: Settings) -> None:
        """Settle all agents in. Raises what ``prepare`` raises; what was opened so far is closed by ``close``."""
        for agent_id in settings.agent_ids:
            self._welcome(await build_agent(self._house, agent_id, settings))

    def start(self) -> None:
        """Begin what memories do in the background, now and for those who come later."""
        self._started = True
        for resident in self._residents.values():
            resident.start()

    async def prepare(self, settings: Settings) -> Sequence[BuiltAgent]:
        """Settle in who is new in ``settings``, and let nobody meet them yet: ``adopt`` or ``dismiss`` follows.

        Raises:
            StorageFailed, AgentError, UsageError: one of their folders, or their memory, cannot be used.
        """
        newcomers: list[BuiltAgent] = []
        try:
            for agent_id in [one for one in settings.agent_ids if one not in self._residents]:
                newcomers += [await build_agent(self._house, agent_id, settings)]
        except BaseException:  # also when cancelled: what was opened is closed
            await self.dismiss(newcomers)
            raise
        return newcomers

    async def dismiss(self, newcomers: Sequence[BuiltAgent]) -> None:
        """Close those who were prepared and are not wanted after all."""
        for resident in newcomers:
            await resident.close()

    def adopt(self, settings: Settings, newcomers: Sequence[BuiltAgent], busy: Collection[str]) -> None:
        """Let newcomers in and have the others go by ``settings``, which are in force; those who are to go or to change do so by and by."""
        for resident in newcomers:
            self._welcome(resident)
        for agent_id, resident in self._residents.items():
            if agent_id in settings.agent_ids:
                resident.agent.adopt(settings, busy)

    async def look_again(self) -> None:
        """Have those go who are no longer wanted, and those made anew who stand on other ground than they should."""
        settings = self._house.on.settings
        for agent_id in list(self._residents):
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
        """Wait until nobody comes, goes or changes any more."""
        while self._changing:
            await asyncio.wait(self._changing.values())

    @contextlib.contextmanager
    def working(self, session: str) -> Iterator[bool]:
        """Note that a session works; False: not now, its agent is being made anew, and ``hold`` waits for that."""
        agent_id = _agent_of(session)
        if agent_id in self._shut:
            yield False
            return
        self._at_work[agent_id] += 1
        try:
            yield True
        finally:
            self._at_work[agent_id] -= 1
            self._rest.set()

    async def hold(self, session: str) -> None:
        """Wait while the agent of a session is made anew."""
        while (shut := self._shut.get(_agent_of(session))) is not None:
            await shut.wait()

    async def close(self) -> None:
        """Change nothing more, and close every memory."""
        for task in list(self._changing.values()):
            task.cancel()
        await asyncio.gather(*self._changing.values(), return_exceptions=True)
        for resident in self._residents.values():
            await resident.close()

    def _welcome(self, resident: BuiltAgent) -> None:
        self._residents[resident.agent.id] = resident
        self._house.agents[resident.agent.id] = resident.agent
        if self._started:
            resident.start()

    async def _is_right(self, agent_id: str, settings: Settings) -> bool:
        if agent_id not in settings.agent_ids:
            return False
        on = self._house.on
        wanted = await asyncio.to_thread(build_key, settings.agent(agent_id), settings, on.paths, on.env)
        return wanted == self._residents[agent_id].build_key

    async def _see_to(self, agent_id: str) -> None:
        """Bring one agent to what the settings want by the time that it is at rest."""
        while agent_id in self._residents and not await self._is_right(agent_id, self._house.on.settings):
            if agent_id not in self._house.on.settings.agent_ids:
                await self._answered(agent_id)
                if agent_id not in self._house.on.settings.agent_ids:
                    await self._leave(agent_id)
            elif not await self._renew(agent_id):
                return
        if agent_id not in self._residents and agent_id in self._house.on.settings.agent_ids:
            await self._come_back(agent_id)

    async def _answered(self, agent_id: str) -> None:
        """Wait until an agent has answered what came before it was to go."""
        lanes = self._house.lanes
        while True:
            await lanes.quiet(lambda session: _agent_of(session) == agent_id)
            if not any(_agent_of(session) == agent_id for session in lanes.sessions()):
                return
            await self._house.on.clock.sleep(PAUSED_SECONDS)

    async def _leave(self, agent_id: str) -> None:
        resident = self._residents[agent_id]
        await resident.agent.settle(SETTLE_SECONDS, flushing=self._house.on.serving)
        del self._residents[agent_id], self._house.agents[agent_id]
        await resident.close()
        self._house.schedule.look_again()
        log.info("agent %s is gone; its files stay", agent_id)

    async def _come_back(self, agent_id: str) -> None:
        """It was wanted again while it was leaving."""
        try:
            self._welcome(await build_agent(self._house, agent_id, self._house.on.settings))
        except (HomebodyError, AgentError) as error:
            self._house.owner.say(f"⚠️ The agent {agent_id} cannot come back: {error} {error.hint}".strip())
        self._house.schedule.look_again()

    async def _renew(self, agent_id: str) -> bool:
        """Put an agent made by the present settings in the place of the former one. False: it could not be made, and that is told."""
        shut = self._shut[agent_id] = asyncio.Event()
        try:
            while self._at_work[agent_id]:
                self._rest.clear()
                await self._rest.wait()
            settings, former = self._house.on.settings, self._residents[agent_id]
            if agent_id not in settings.agent_ids:
                return True
            await former.agent.settle(SETTLE_SECONDS, flushing=False)
            try:
                fresh = await build_agent(self._house, agent_id, settings)
            except (HomebodyError, AgentError) as error:
                log.warning("agent %s could not be made anew: %s", agent_id, error)
                self._house.owner.say(
                    f"⚠️ The agent {agent_id} stays as it was, because what the settings say of it now cannot be used: "
                    f"{error} {error.hint}".strip()
                )
                return False
            await former.close()
            self._welcome(fresh)
            self._house.schedule.look_again()
            log.info("agent %s was made anew: its workspace is %s", agent_id, fresh.agent.workspace.root)
            return True
        finally:
            del self._shut[agent_id]
            shut.set()


def _agent_of(session: str) -> str:
    return session.split(":", 2)[1] if session.startswith("agent:") else ""
