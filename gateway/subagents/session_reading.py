"""What a session may see of other sessions: the sub-agents below it and, for the owner's main session, the owner's other ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from agent.errors import AgentError, RequestRefused
from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.taint import merged, unfenced
from agent.tools.protocol import Outcome, ToolContext
from agent.tools.spawn import SpawnArguments
from agent.transcript.entries import Said
from gateway.agents.running_agent import RunningAgent
from gateway.ledger.protocol import Ledger
from gateway.ledger.subagent_rows import SubAgent
from gateway.routing.routed_message import is_isolated
from gateway.routing.router import agent_of, is_owners
from gateway.sessions.sessions_file import SessionRecord
from gateway.subagents.origin_turn import label_sources
from gateway.subagents.starting import SubAgentStarter
from gateway.subagents.tree_text import age
from gateway.turns.user_message import cut, one_line

if TYPE_CHECKING:
    from agent.transcript.transcript import Transcript

SHOWN: Final = 20
"""Messages of a history that are returned at once."""
LONGEST: Final = 3000
"""Characters of one message that are returned."""
LISTED: Final = 30


class SessionReading:
    """Implements ``Sessions``. A session's own sub-agents are named by their ids, other sessions by their keys."""

    def __init__(self, ledger: Ledger, agents: Mapping[str, RunningAgent], starter: SubAgentStarter) -> None:
        self._ledger = ledger
        self._agents = agents
        self._starter = starter

    async def list(self, context: ToolContext) -> Outcome:
        """See ``Sessions``."""
        below = await self._ledger.subagents.below(context.key)
        others = self._owners(context)
        sources = {one.id: label_sources(one.payload) for one in below}
        shown = {name: found for name, found in sources.items() if context.taint.issuperset(found)}
        lines = [_subagent_line(one, context.now, shown=one.id in shown) for one in _in_order(below, context.key)[-LISTED:]]
        lines += [_session_line(record, context.now) for record in others[:LISTED]]
        if len(others) > LISTED:
            lines.append(f"({len(others) - LISTED} older ones are not listed)")
        text = "\n".join(lines) or "You have no sub-agents, and may see no other conversations here."
        return Outcome(text=text, sources=merged(*shown.values()))

    async def history(self, session: str, before: int | None, context: ToolContext) -> Outcome:
        """See ``Sessions``."""
        agent, record = await self._found(session, context)
        try:
            transcript = await agent.conversations.transcript(record)
        except AgentError as error:
            raise RequestRefused(str(error), hint=error.hint) from error
        return _page_of(transcript, before, context.max_chars)

    async def send(self, session: str, text: str, context: ToolContext) -> Outcome:
        """See ``Sessions``. The id of another agent starts a sub-agent of that one."""
        below = await self._ledger.subagents.below(context.key)
        found = next((one for one in below if session in {one.id, one.session}), None)
        if found is not None and found.parent == context.key:
            return await self._starter.send(found, text, context)
        if found is not None:
            raise RequestRefused(f"{session} works for another sub-agent of yours; ask that one")
        name = session.removeprefix("agent:").partition(":")[0]
        if name in self._agents and name != agent_of(context.key):
            return await self._starter.spawn(SpawnArguments(task=text, agent=name), context)
        raise RequestRefused(f"{session[:80]!r} is none of your sub-agents", hint="action list names them")

    def _owners(self, context: ToolContext) -> Sequence[SessionRecord]:
        """Return the owner's other sessions with this agent, where the owner's main session asks."""
        agent = self._agents[agent_of(context.key)]
        if context.key != agent.main_key or context.audience.kind != "owner":
            return ()
        return [one for one in agent.store.all() if one.key != context.key and is_owners(one.key) and not is_isolated(one.key)]

    async def _found(self, session: str, context: ToolContext) -> tuple[RunningAgent, SessionRecord]:
        for one in await self._ledger.subagents.below(context.key):
            if session in {one.id, one.session} and one.agent in self._agents:
                agent = self._agents[one.agent]
                record = agent.store.get(one.session)
                if record is None:
                    raise RequestRefused(f"{one.id} has not begun yet")
                return agent, record
        for record in self._owners(context):
            if session == record.key:
                return self._agents[agent_of(context.key)], record
        raise RequestRefused(f"there is no session {session[:80]!r} that you may see", hint="action list names them")


def state_of(one: SubAgent, now: datetime) -> str:
    """Return what a sub-agent does, in words."""
    if one.state == "open":
        return f"working for {age((now - one.created_at).total_seconds())}"
    ago = age((now - (one.ended_at or now)).total_seconds())
    return f"{one.state} {ago} ago{f' ({one.reason})' if one.reason else ''}"


def _in_order(below: Sequence[SubAgent], key: str) -> list[SubAgent]:
    """Return the sub-agents below a session, each before those below it."""
    return [one for top in below if top.parent == key for one in (top, *_in_order(below, top.session))]


def _subagent_line(one: SubAgent, now: datetime, *, shown: bool) -> str:
    """Return the line of a sub-agent in the list. A label that was chosen while other untrusted text was in view is not repeated here."""
    label = f"“{one.label}”" if shown else "(its label was chosen while untrusted text was in view; not shown here)"
    return f"{'  ' * (one.depth - 1)}- sub-agent {one.id} {label}: {state_of(one, now)}"


def _session_line(record: SessionRecord, now: datetime) -> str:
    return f"- {record.key}: {record.turns} turns, last message {age((now - record.spoken).total_seconds())} ago"


def _page_of(transcript: Transcript, before: int | None, room: int) -> Outcome:
    said = [entry.body.message for entry in transcript.entries if isinstance(entry.body, Said)]
    text = history_text(said, before, room)
    return Outcome(text=text, details={"messages": len(said)}, sources=tuple(sorted(transcript.taint)))


def history_text(said: Sequence[Message], before: int | None, room: int) -> str:
    """Return the last messages with their numbers, or those before a number, in at most ``room`` characters unless one is longer."""
    last = len(said) if before is None else max(0, min(before - 1, len(said)))
    lines: list[str] = []
    for number in range(last, max(0, last - SHOWN), -1):
        line = f"#{number} {_line(said[number - 1])}"
        room -= len(line) + 2
        if room < 0 and lines:
            break
        lines.insert(0, line)
    first = last - len(lines)
    more = [f"({first} earlier messages: before {first + 1})"] if first else []
    return "\n\n".join([*more, *lines]) or "Nothing was said in it yet."


def _line(message: UserMessage | AssistantMessage | ToolMessage) -> str:
    match message:
        case ToolMessage():
            return (
                f"result of {message.name}{' (an error)' if message.is_error else ''}: {cut(unfenced(message.text), LONGEST)}"
            )
        case AssistantMessage():
            called = [f"[calls {call.name} {one_line(str(call.arguments), 200)}]" for call in message.calls]
            return "\n".join(["agent:", *filter(None, [cut(message.text, LONGEST), *called])])
        case UserMessage():
            return f"{message.sender or 'message'}: {cut(message.text, LONGEST)}"
