"""Status and repair calls of the admin API and of HTTP. All answers are JSON values."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from gateway.agents.running_agent import RunningAgent
from gateway.app.reload import Reload
from gateway.base.errors import StorageFailed, UsageError
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import FirmWait, Tally
from gateway.outbound.failed_sends import AccountHealth
from gateway.outbound.owner_notifications import StartupNotices
from gateway.queue.lanes import Lanes
from gateway.queue.pause import Pause
from gateway.sandbox.command_sandbox import CommandSandbox
from gateway.supervision.channel_supervisor import ChannelSupervisor

TALLY_SECONDS = 10.0
"""How long a status waits for the ledger: a database may be away, or hang."""
NOT_COUNTED = Tally(waiting=0, running=0)


class StatusHandlers:
    """The calls of one gateway."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        agents: Mapping[str, RunningAgent],
        channels: ChannelSupervisor,
        health: AccountHealth,
        lanes: Lanes[Any],
        pause: Pause,
        reload: Reload,
        notices: StartupNotices,
        sandbox: CommandSandbox,
        heartbeats: Callable[[RunningAgent], dict[str, Any]],
        mail: Callable[[], dict[str, Any]] = dict,
        calendars: Callable[[], dict[str, Any]] = dict,
        mcp: Callable[[], dict[str, Any]] = dict,
        backup: Callable[[], Awaitable[dict[str, Any]]],
        workspaces: Callable[[], dict[str, Any]] = dict,
        stopped_jobs: Callable[[], Awaitable[Sequence[dict[str, str]]]],
    ) -> None:
        self._heartbeats = heartbeats
        self._ledger = ledger
        self._agents = agents
        self._supervisor = channels
        self._health = health
        self._lanes = lanes
        self._pause = pause
        self._reload = reload
        self._notices = notices
        self._sandbox = sandbox
        self._mail = mail
        self._calendars = calendars
        self._mcp = mcp
        self._backup = backup
        self._workspaces = workspaces
        self._stopped_jobs = stopped_jobs

    def calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {
            "status": self.status,
            "sessions.repair": self.repair,
            "settings.reload": self._reload.for_command,
            "resume": self._pause.resume,
            "channels.restart": self.restart,
            "sandbox.explain": self.explain_sandbox,
            "sandbox.check": self._sandbox.check,
        }

    async def status(self) -> dict[str, Any]:
        """Return the state of the gateway."""
        (tally, *trouble), stopped, waits = await self._tally(), await self._stopped(), await self._waits()
        paused = self._pause.causes
        return {
            "pid": os.getpid(),
            "version": await asyncio.to_thread(_version),
            "backup": await self._backup(),
            "agents": {agent.id: agent.facts() for agent in self._agents.values()},
            "channels": self._channels(waits),
            "settings": self._reload.facts(),
            "commands": {
                agent: asdict(known) for agent in self._agents if (known := self._sandbox.known_standing(agent)) is not None
            },
            "inbox": {"waiting": tally.waiting},
            "turns": {"running": tally.running, "suspended": tally.suspended},
            "outbox": dict(tally.outbox),
            "mail": self._mail(),
            "unasked": {"held": tally.held, "kept": tally.kept},
            "heartbeats": [self._heartbeats(agent) for agent in self._agents.values()],
            "calendars": self._calendars(),
            "mcp": self._mcp(),
            "workspaces": self._workspaces(),
            "stoppedJobs": stopped,
            "paused": paused,
            "notices": [*trouble, *(notice for notice in self._notices.told if notice not in paused)],
        }

    async def _stopped(self) -> Sequence[dict[str, str]]:
        try:
            async with asyncio.timeout(TALLY_SECONDS):
                return await self._stopped_jobs()
        except (StorageFailed, TimeoutError):  # that is told with the tally
            return []

    async def _tally(self) -> tuple[Tally, *tuple[str, ...]]:
        """Return how many rows wait in the ledger, and what is wrong with it; then all are zero."""
        try:
            async with asyncio.timeout(TALLY_SECONDS):
                return (await self._ledger.tally(),)
        except StorageFailed as error:
            return NOT_COUNTED, f"{error}. {error.hint}"
        except TimeoutError:
            return NOT_COUNTED, f"The ledger has not answered for {TALLY_SECONDS:g} seconds ({self._ledger.where})."

    def mark(self) -> Hashable:
        """Return what differs once a channel, a pause or a notice has changed. It costs little: it is asked for twice a second."""
        facts = self._supervisor.facts().items()
        channels = (
            (name, one["state"], one["state"] == "silent" or one.get("trouble"), bool(self._health.line(name)))
            for name, one in facts
        )
        return tuple(channels), tuple(self._pause.causes), tuple(self._notices.told)

    async def explain_sandbox(self, agent: str) -> dict[str, Any]:
        """Describe what commands of an agent can see, write and reach. Raises UsageError: there is no such agent."""
        return await self._sandbox.explain(agent)

    async def _waits(self) -> Sequence[FirmWait]:
        try:
            async with asyncio.timeout(TALLY_SECONDS):
                return await self._ledger.outbox.firm_waits()
        except (StorageFailed, TimeoutError):  # that is told with the tally
            return []

    def _channels(self, waits: Sequence[FirmWait]) -> dict[str, Any]:
        facts = self._supervisor.facts()
        lines = {name: self._health.line(name) for name in facts}
        asked = {
            name: [
                {"conversation": one.conversation, "replies": one.count, "until": one.until.isoformat(timespec="seconds")}
                for one in waits
                if one.account == name
            ]
            for name in facts
        }
        return {
            name: one
            | ({"sending": f"Nothing could be sent {lines[name]}"} if lines[name] else {})
            | ({"asksToWait": asked[name]} if asked[name] else {})
            for name, one in facts.items()
        }

    async def restart(self, name: str) -> dict[str, Any]:
        """Reconnect the channels with this name: ``telegram``, or ``telegram:work``.

        Raises:
            UsageError: there is none.
        """
        platforms = [one for one in self._supervisor if not one.startswith("terminal:")]
        named = [one for one in platforms if one == name or one.partition(":")[0] == name]
        if not named:
            raise UsageError(
                f"no channel {name!r} is configured",
                hint=f"There is: {', '.join(platforms) or 'none'}. `homebody channels status` shows each.",
            )
        for one in named:
            self._supervisor.restart(one)
        return {"restarted": named}

    async def repair(self, key: str) -> dict[str, Any]:
        """Repair the transcript of a session.

        Raises:
            UsageError: there is no such session, or it is busy.
        """
        agent = next((agent for agent in self._agents.values() if agent.store.get(key)), None)
        if agent is None:
            raise UsageError(f"there is no session {key!r}", hint="`homebody sessions list` lists all sessions.")
        if any(ticket.session == key for ticket in self._lanes.running()):
            raise UsageError(
                f"the session {key} is busy", hint="Wait for its answer, or send /stop, then run the command again."
            )
        return await agent.repair(key)


def _version() -> str:
    """Return the version of the program; what reads it is loaded when somebody asks."""
    from importlib.metadata import version

    return version("homebody")
