"""Stops what runs: in one session with all that it started, or everything that works for the owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from gateway.approvals.decisions import Decisions
from gateway.base.errors import StorageFailed
from gateway.ledger.protocol import Ledger
from gateway.queue.lanes import Lanes
from gateway.queue.message_queue import MessageQueue
from gateway.routing.routed_message import isolated_kind
from gateway.routing.router import is_owners

log = logging.getLogger(__name__)

NOTHING: Final = "Nothing is running."
_BY_OWNER: Final = "stopped by its owner"


class SubAgentStops(Protocol):
    """Stops sub-agents."""

    async def stop(self, session: str | None) -> int:
        """Stop those below a session, or all for None; return how many. Raises StorageFailed: the ledger cannot be read."""
        ...

    async def works_for(self, session: str) -> bool:
        """Return whether a session has sub-agents that work."""
        ...


class Stopping:
    """Stops turns, the messages that are about to start, background commands, sub-agents and open questions.

    ``end_commands`` ends the background commands of the sessions that a function selects by their keys, and returns how many.
    """

    def __init__(
        self,
        ledger: Ledger,
        lanes: Lanes[Any],
        queue: MessageQueue,
        decisions: Decisions,
        *,
        subagents: SubAgentStops,
        end_commands: Callable[[Callable[[str], bool]], int],
    ) -> None:
        self._ledger = ledger
        self._lanes = lanes
        self._queue = queue
        self._decisions = decisions
        self._subagents = subagents
        self._end_commands = end_commands

    async def possible(self, session: str) -> bool:
        """Return whether there is anything to stop in a session."""
        if self._lanes.busy(session) or self._queue.stopped_with(session):
            return True
        if any(one.session == session for one in await self._ledger.approvals.latest(["pending"])):
            return True
        return await self._subagents.works_for(session)

    async def at_once(self, session: str) -> str:
        """Stop the turn, the commands and the sub-agents of a session although nothing can be stored; return what to say."""
        from gateway.command_handlers.session_commands import counted

        found, also = self._cut_short(session)
        if subagents := await self._stop_subagents(session):
            also.append(counted(subagents, "sub-agent"))
        return _stop_text(found, also)

    async def session(self, session: str, *, all_of_it: bool) -> str:
        """Stop what runs in a session; return what to say. ``all_of_it``: its sub-agents and open questions too, whoever asked for them."""
        from gateway.command_handlers.session_commands import counted

        found, also = self._cut_short(session)
        if not all_of_it:
            return _stop_text(found, also)
        subagents = await self._stop_subagents(session)
        if subagents:
            also.append(counted(subagents, "sub-agent"))
        text = _stop_text(found, also)
        if not (withdrawn := await self._withdraw([session])):
            return text
        waited = f"⏹️ Stopped {counted(withdrawn, 'task')} that waited for an approval; nothing of it was run."
        return waited if text == NOTHING else f"{text} {waited}"

    async def turn(self, session: str) -> None:
        """Stop what runs in a session and its sub-agents; open questions stay."""
        self._cut_short(session)
        await self._stop_subagents(session)

    async def everything(self, here: str = "") -> str:
        """Stop all turns of the owner's sessions, all that no person started, all sub-agents and commands; return what to say.

        What runs in the session ``here`` is stopped, too, whosever it is: that of the group where it was asked for.
        """
        from gateway.command_handlers.session_commands import counted

        def concerned(session: str) -> bool:
            return session == here or is_owners(session)

        sessions = [one for one in self._lanes.sessions() if concerned(one) and isolated_kind(one) != "sub"]
        turns = sum(self._queue.stop(one) is not None for one in sessions)
        commands = self._end_commands(concerned)
        subagents = await self._stop_subagents(None)
        asked = {one.session for one in await self._ledger.approvals.latest(["pending"])}
        questions = await self._withdraw([one for one in asked if concerned(one)])
        counts = ((turns, "turn"), (subagents, "sub-agent"), (commands, "background command"), (questions, "task"))
        parts = [counted(count, what) for count, what in counts if count]
        if questions:
            parts[-1] += " that waited for an approval"
        return f"⏹️ Stopped everything: {_listed(parts)}." if parts else NOTHING

    def _cut_short(self, session: str) -> tuple[bool, list[str]]:
        from gateway.command_handlers.session_commands import counted

        coming, ended = self._queue.stop(session), self._end_commands(lambda key: key == session)
        also = [f"{counted(len(coming), 'message')} that I had not started to answer"] if coming else []
        also += [counted(ended, "background command")] if ended else []
        return coming is not None, also

    async def _stop_subagents(self, session: str | None) -> int:
        await asyncio.sleep(
            0
        )  # a turn that was just stopped may be about to store one that it started; it is stopped with the others then
        try:
            return await self._subagents.stop(session)
        except StorageFailed as error:
            log.warning("sub-agents could not be stopped: %s", error)
            return 0

    async def _withdraw(self, sessions: Sequence[str]) -> int:
        try:
            return sum([await self._decisions.withdraw(one, _BY_OWNER) for one in sessions])
        except StorageFailed as error:
            log.warning("open questions could not be withdrawn: %s", error)
            return 0


def _stop_text(found: bool, also: Sequence[str]) -> str:
    if not found and not also:
        return NOTHING
    return f"⏹️ Stopped, including {_listed(also)}." if also else "⏹️ Stopped."


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([*([", ".join(parts[:-1])] if len(parts) > 1 else []), *parts[-1:]])
