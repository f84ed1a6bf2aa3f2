"""What the owner asks of the house as a whole, from the command line or over HTTP. All answers are JSON values."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agent.context.context_report import context_report
from gateway.base.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.app.gateway import Gateway


class StatusHandlers:
    """Answers for one house."""

    def __init__(self, house: Gateway) -> None:
        self._house = house

    def calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """The calls by name, for the owner's socket."""
        return {
            "status": self.status,
            "context": self.context,
            "sessions.repair": self.repair,
            "settings.reload": self._house.reload.now,
            "resume": self._house.pause.resume,
            "channels.restart": self.restart,
        }

    async def status(self) -> dict[str, Any]:
        """Tell how the house is."""
        house = self._house
        tally = await house.ledger.tally()
        return {
            "pid": os.getpid(),
            "agents": {agent.id: agent.facts() for agent in house.agents.values()},
            "channels": self._channels(),
            "settings": house.reload.facts(),
            "inbox": {"waiting": tally.waiting},
            "turns": {"running": tally.running},
            "outbox": dict(tally.outbox),
            "paused": house.pause.causes,
            "notices": house.notices.told,
        }

    def _channels(self) -> dict[str, Any]:
        facts = self._house.keepers.facts()
        lines = {name: self._house.delivery.troubles.line(name) for name in facts}
        return {
            name: one | ({"sending": f"Nothing could be sent {lines[name]}"} if lines[name] else {})
            for name, one in facts.items()
        }

    async def restart(self, name: str) -> dict[str, Any]:
        """Let the channels begin anew that are called so: ``telegram``, or ``telegram:work``.

        Raises:
            UsageError: there is none.
        """
        platforms = [one for one in self._house.keepers if not one.startswith("terminal:")]
        named = [one for one in platforms if one == name or one.partition(":")[0] == name]
        if not named:
            raise UsageError(f"no channel {name!r} runs here", hint=f"There is: {', '.join(platforms) or 'none'}.")
        for one in named:
            self._house.keepers.restart(one)
        return {"restarted": named}

    async def repair(self, key: str) -> dict[str, Any]:
        """Mend the transcript of a session.

        Raises:
            UsageError: there is no such session, or it is at work.
        """
        agent = next((agent for agent in self._house.agents.values() if agent.store.get(key)), None)
        if agent is None:
            raise UsageError(f"there is no session {key!r}", hint="`homebody sessions list` shows them.")
        if any(ticket.session == key for ticket in self._house.lanes.running()):
            raise UsageError(
                f"the session {key} is at work", hint="Wait for its answer, or say /stop, and run the command again."
            )
        return await agent.repair(key)

    async def context(self, agent: str | None = None, session: str | None = None) -> dict[str, Any]:
        """Tell what the model would be shown next in a session (default: the owner's own of the default agent).

        Raises:
            UsageError: there is no such agent or session.
        """
        house = self._house
        found = house.agents.get(agent or house.on.settings.default_agent)
        if found is None:
            raise UsageError(f"there is no agent {agent!r}", hint=f"There is: {', '.join(house.agents)}.")
        record = found.store.get(session or found.main_key)
        if record is None:
            known = ", ".join(one.key for one in found.store.all()[:5]) or "none yet"
            raise UsageError(f"there is no session {session or found.main_key!r}", hint=f"The latest are: {known}.")
        conversation = await found.conversations.glance(record, house.router.audience(record.key))
        return {
            "agent": found.id,
            "sessionKey": record.key,
            "sessionId": record.session,
            **asdict(context_report(conversation)),
        }
