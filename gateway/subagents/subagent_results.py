"""Tells the session that started a sub-agent what came of it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from agent.errors import AgentError
from agent.messages import ToolCall
from agent.taint import merged, neutralised
from agent.timing import Clock
from channels.messages import Inbound, Sender
from gateway.agents.running_agent import RunningAgent
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Arrival, TurnEnd
from gateway.ledger.subagent_rows import ACCOUNT, RESULT, SubAgent
from gateway.routing.routed_message import arrival_of, isolated_kind
from gateway.routing.router import Route
from gateway.subagents.origin_turn import OriginTurn
from gateway.turns.ending import EndedTurn
from gateway.turns.user_message import unmarked

log = logging.getLogger(__name__)

LONGEST: Final = 8000
"""Characters of a result that the asking session is given; the rest is in a file."""
HEAD: Final = 6000
"""Of a longer one so many are its beginning; the others are its end."""
_HAPPENED: Final[dict[TurnEnd, str]] = {
    "done": "has ended. This is its result",
    "failed": "failed. This is what it says",
    "stopped": "was stopped before it had ended",
}


class SubAgentResults:
    """Makes the messages that bring results.

    ``unstored_stops`` are the ids of sub-agents whose stop could not be stored yet; it is told when it is, and not by their turns.
    """

    def __init__(self, ledger: Ledger, agents: Mapping[str, RunningAgent], clock: Clock) -> None:
        self._ledger = ledger
        self._agents = agents
        self._clock = clock
        self.unstored_stops: set[str] = set()

    async def of_turn(self, ended: EndedTurn) -> Sequence[tuple[str, Arrival]]:
        """Return the message for the asking session, where the turn was a sub-agent's; the ledger decides whether it is time for it.

        Raises:
            StorageFailed: the ledger cannot be read.
        """
        route = ended.message.route
        if isolated_kind(route.session) != "sub":
            return ()
        found = await self._ledger.subagents.find(session=route.session)
        if found is None or found.state != "open" or found.id in self.unstored_stops:
            return ()
        text = await self._shortened(found, ended.text.strip(), ended.message.row.uid, ended.taint)
        arrival = self.arrival(found, ended.state, text, ended.taint, name=ended.message.row.uid, reason=ended.reason)
        return ((ACCOUNT, arrival),) if arrival is not None else ()

    def arrival(
        self, subagent: SubAgent, state: TurnEnd, text: str, taint: Collection[str], *, name: str, reason: str = ""
    ) -> Arrival | None:
        """Return the message that brings a result; None where the record of who asked cannot be read. ``name`` makes it one of its kind."""
        try:
            asked = OriginTurn.decoded(subagent.payload)
        except (KeyError, TypeError, ValueError):
            log.warning("the result of the sub-agent %s cannot be told: its record cannot be read", subagent.id)
            return None
        happened = f"Sub-agent {subagent.id} {_HAPPENED[state]}{f' ({reason})' if reason else ''}."
        task, nothing = f"Its task began: “{unmarked(neutralised(asked.task))}”", "(It said nothing.)"
        rules = replace(asked.result, sources=merged(taint, asked.sources))
        if asked.sources:  # the conversation may have begun afresh since
            rules = replace(rules, instruction=f"[{happened}]")
            text = f"[{task}]\n\n{text or nothing}"
        else:
            rules = replace(rules, instruction="\n".join([f"[{happened} {task}]", *([] if text else [nothing])]))
        alias = f"{RESULT}{subagent.id}:{name}"
        inbound = Inbound(
            conversation=asked.place,
            sender=Sender(id=f"subagent:{subagent.id}", name=subagent.label),
            text=text,
            at=self._now(),
            key=alias,
            alias=alias,
            message_id=alias,
        )
        route = Route(agent=asked.agent, session=subagent.parent, audience=asked.audience)
        return replace(arrival_of(inbound, route, rules, self._now()), result_of=subagent.id)

    def _now(self) -> datetime:
        return self._clock.now()

    async def _shortened(self, subagent: SubAgent, text: str, name: str, taint: Collection[str]) -> str:
        """Return a result, or where it is long its beginning and its end, and where all of it is."""
        if len(text) <= LONGEST:
            return text
        lies = await self._kept(subagent, text, name, frozenset(taint)) or (
            f"all of it is in its history: sessions, action history, session {subagent.id}"
        )
        left = len(text) - LONGEST
        mark = f"\n\n[cut: {left:,} of {len(text):,} characters are left out here; {lies}]\n\n"
        return text[:HEAD].rstrip() + mark + text[HEAD - LONGEST :].lstrip()

    async def _kept(self, subagent: SubAgent, text: str, name: str, taint: frozenset[str]) -> str:
        """Write a result to a file that the asking session can read; return where it is, or nothing. A repeat writes the same file."""
        agent = self._agents.get(subagent.agent)
        record = agent.store.get(subagent.session) if agent is not None else None
        conversation = agent.conversations.get(record.session) if agent is not None and record is not None else None
        if conversation is None or not subagent.parent.startswith(f"agent:{subagent.agent}:"):
            return ""
        path = f"{conversation.audience.inbox}/{subagent.id}-{name[:6]}.md"
        call = ToolCall(id="keep", name="write", arguments={"path": path, "content": text, "mode": "create"})
        try:
            written = await conversation.keep(call, "result", taint)
        except AgentError as error:
            log.warning("the result of the sub-agent %s was not written to a file: %s", subagent.id, error)
            return ""
        return "" if written.is_error else f"all of it is in {path}"
