"""What works now: sessions with a turn, and the sub-agents below sessions, as facts and as text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from agent.timing import Clock
from channels.messages import Button
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import StorageFailed
from gateway.ledger.protocol import Ledger
from gateway.ledger.subagent_rows import SubAgent
from gateway.queue.lanes import Lanes
from gateway.queue.steering import RunningTurn
from gateway.routing.routed_message import RoutedMessage
from gateway.routing.router import agent_of
from gateway.subagents.origin_turn import OriginTurn
from gateway.subagents.subagent_service import SubAgents
from gateway.subagents.tree_text import USAGE, tree_text

_NO_RIGHT: Final = "Only my owner can use this command."


class WorkTree:
    """Lists what works now. ``running`` are the turns that run, by session."""

    def __init__(
        self,
        ledger: Ledger,
        agents: Mapping[str, RunningAgent],
        clock: Clock,
        *,
        lanes: Lanes[Any],
        running: Mapping[str, RunningTurn],
        subagents: SubAgents,
    ) -> None:
        self._ledger = ledger
        self._agents = agents
        self._clock = clock
        self._lanes = lanes
        self._running = running
        self._subagents = subagents

    def calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """Return the calls of the command line, by name."""
        return {"agents.tree": self.facts}

    async def command(self, argument: str, message: RoutedMessage) -> tuple[str, Sequence[Button]]:
        """Run ``/agents``."""
        if not message.actor.owner:
            return _NO_RIGHT, ()
        word, _, name = argument.strip().partition(" ")
        try:
            if word.casefold() == "stop" and name.strip():
                return await self._stop(name.strip().casefold()), ()
            if word.casefold() not in {"", "tree"}:
                return f"“{word[:40]}” is nothing that /agents does. {USAGE}", ()
            return self.as_markdown(await self.facts()), ()
        except StorageFailed as error:
            return f"💾 {error} {error.hint}".strip(), ()

    async def _stop(self, name: str) -> str:
        found = await self._ledger.subagents.find(subagent=name)
        if found is None or found.state != "open":
            return f"No sub-agent {name[:40]} works now. `/agents` lists those that do."
        count = await self._subagents.stop_one(found.id)
        below = f", and {count - 1} below it" if count > 1 else ""
        return f"⏹️ Stopped the sub-agent {found.id} “{found.label}”{below}."

    async def facts(self) -> dict[str, Any]:
        """Return the agents, their sessions with work, and the sub-agents that work or ended today, as JSON values. Ages are in seconds."""
        now = self._clock.now()
        subagents = await self._ledger.subagents.all(ended_since=self._midnight(now))
        began = {turn.session: turn.started_at for turn in await self._ledger.turns.unfinished()}
        waits = {one.session for one in await self._ledger.approvals.latest(["pending"])}
        first = min((one.created_at for one in subagents), default=now)
        spent = await self._ledger.spending.of_sessions([one.session for one in subagents], first)
        sessions = [self._session(key, began, waits, now) for key in self._sessions(subagents, waits)]
        rows = [self._subagent(one, spent.get(one.session, (0, 0.0)), waits, now) for one in subagents]
        return {"agents": sorted(self._agents), "sessions": sessions, "subagents": rows}

    def _midnight(self, now: datetime) -> datetime:
        """Return when today began for the owner."""
        zone = next((agent.zone for agent in self._agents.values()), UTC)
        return now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)

    def _sessions(self, subagents: Sequence[SubAgent], waits: set[str]) -> list[str]:
        """Return the keys of sessions that are no sub-agents' and in which something runs, waits, or has sub-agents."""
        own = {one.session for one in subagents}
        keys = {*self._lanes.sessions(), *waits, *(one.parent for one in subagents if one.state == "open")}
        return sorted(key for key in keys - own if agent_of(key) in self._agents and not _is_subagents(key))

    def _session(self, key: str, began: Mapping[str, datetime], waits: set[str], now: datetime) -> dict[str, Any]:
        busy = self._lanes.busy(key)
        running = self._running.get(key)
        return {
            "key": key,
            "agent": agent_of(key),
            "state": "running" if busy else "suspended" if key in waits else "idle",
            "age": round((now - began[key]).total_seconds()) if busy and key in began else None,
            "toolCalls": running.turn.tool_calls if running is not None and running.turn is not None else 0,
            "waiting": self._lanes.queued(key),
        }

    def _subagent(self, one: SubAgent, spent: tuple[int, float], waits: set[str], now: datetime) -> dict[str, Any]:
        try:
            task = OriginTurn.decoded(one.payload).task
        except (KeyError, TypeError, ValueError):
            task = ""
        state = one.state if one.state != "open" else self._work(one, waits)
        return {
            "id": one.id,
            "label": one.label,
            "agent": one.agent,
            "session": one.session,
            "parent": one.parent,
            "depth": one.depth,
            "state": state,
            "reason": one.reason,
            "endedAt": None if one.ended_at is None else one.ended_at.isoformat(timespec="seconds"),
            "age": round(((one.ended_at or now) - one.created_at).total_seconds()),
            "tokens": spent[0],
            "usd": round(spent[1], 4),
            "task": task,
        }

    def _work(self, one: SubAgent, waits: set[str]) -> str:
        if one.session in self._running:
            return "running"
        if one.session in waits:
            return "suspended"
        return "queued" if self._lanes.queued(one.session) else "waiting"

    def as_markdown(self, facts: dict[str, Any]) -> str:
        """Return the facts as Markdown for people."""
        return tree_text(facts, {agent.id: agent.profile.name for agent in self._agents.values()})


def _is_subagents(key: str) -> bool:
    return key.split(":")[2:3] == ["sub"]
