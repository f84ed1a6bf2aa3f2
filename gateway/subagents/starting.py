"""Starts sub-agents and sends them messages, within the limits of the settings and with no right that the asking turn lacks."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from agent.errors import AgentError, RequestRefused
from agent.taint import neutralised
from agent.tools.policy import named
from agent.tools.protocol import Outcome, ToolContext
from agent.tools.spawn import SpawnArguments
from channels.messages import Inbound, Sender
from channels.silent import is_silent, silent_place
from gateway.agents.running_agent import RunningAgent
from gateway.base.wait import finish_despite_cancel
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import InboxRow
from gateway.ledger.subagent_rows import NewSubAgent, Obstacle, SentToSubAgent, SubAgent
from gateway.routing.routed_message import Automation, RoutedMessage, arrival_of
from gateway.routing.router import Route
from gateway.settings.subagent_settings import SubAgentSettings
from gateway.subagents.asking_turn import Asking, AskingTurns
from gateway.subagents.origin_turn import OriginTurn, label_sources
from gateway.turns.user_message import cut, one_line, unmarked

NEVER: Final = frozenset({"cron", "message", "send_file"})
"""Tools that no sub-agent has: what it has to say is its result, and it goes to the session that asked."""
NESTING: Final = frozenset({"spawn", "sessions"})
"""Tools that are of use only to those that may have sub-agents."""
ID_LENGTH: Final = 8
TASK_SHOWN: Final = 160
_EVERY: Final = "*"
MOST_UNTRUSTED: Final = 3
"""The most sub-agents of one request where untrusted text is in view and the owner cannot be asked: in groups, for guests, webhooks."""


class SubAgentStarter:
    """Implements ``Spawner``, and sends to sub-agents. ``read`` reads messages by their rows, and ``hand_out`` enqueues one."""

    def __init__(
        self,
        ledger: Ledger,
        agents: Mapping[str, RunningAgent],
        asking: AskingTurns,
        *,
        read: Callable[[Sequence[int]], Awaitable[list[RoutedMessage]]],
        hand_out: Callable[[InboxRow], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._agents = agents
        self._asking = asking
        self._read = read
        self._hand_out = hand_out

    async def spawn(self, wanted: SpawnArguments, context: ToolContext) -> Outcome:
        """See ``Spawner``."""
        from gateway.approvals.taint_rules import may_be_asked

        asking = await self._asking.of(context)
        limits = asking.agent.profile.subagents
        depth = asking.depth + 1
        if depth > limits.max_spawn_depth:
            raise RequestRefused(
                f"sub-agents may be nested {limits.max_spawn_depth} deep, and this one is {asking.depth} deep already",
                hint="do it yourself, or the owner raises agents.defaults.subagents.maxSpawnDepth",
            )
        child = self._agent(wanted.agent, asking)
        subagent = id_of(context.turn, context.call)
        label = " ".join((wanted.label or "").split()) or cut(one_line(wanted.task, 30), 30)
        session = f"agent:{child.id}:sub:{subagent}"
        above = _above(asking, label, subagent)
        task = Automation(
            origin="agent",
            name=label,
            source=above.result.source,
            model=_model(child, wanted.model or limits.model, asking.model),
            allow=_tools(wanted.tools, asking.tools, nests=depth < limits.max_spawn_depth),
            daily_usd=above.result.daily_usd,
            daily_tokens=above.result.daily_tokens,
            urgent=above.result.urgent,
            sources=tuple(sorted(context.taint)),
            instruction=unmarked(neutralised(wanted.task)) if context.taint else "",
            parent=context.key,
            depth=depth,
            owner=asking.message.actor.owner,
            made_in=_made_in(asking.message),
            asked_by=above.result.asked_by,
            request=above.result.request,
        )
        route = Route(agent=child.id, session=session, audience=above.audience)
        inbound = _from_session(context, asking.agent, f"task:{subagent}", session, "" if task.instruction else wanted.task)
        new = NewSubAgent(
            id=subagent,
            name=f"{context.turn}/{context.call}",
            agent=child.id,
            session=session,
            parent=context.key,
            request=above.result.request,
            depth=depth,
            label=label,
            payload=replace(above, task=one_line(wanted.task, TASK_SHOWN), sources=tuple(sorted(context.taint))).encoded(),
            usd=_usd(wanted.usd, limits),
        )
        arrival = arrival_of(inbound, route, task, context.now)
        if context.taint and not may_be_asked(context):
            limits = limits.model_copy(update={"max_per_request": min(limits.max_per_request, MOST_UNTRUSTED)})
        sent = await self._stored(
            self._ledger.subagents.start(new, arrival, children=limits.max_children, of_request=limits.max_per_request)
        )
        if sent.obstacle is not None:
            raise _refused(sent, limits)
        return Outcome(
            text=f"Sub-agent {subagent} (“{label}”) works on it. Its result comes as a message: end your turn, do not wait.",
            details={"subagent": subagent, "session": session, "label": label},
        )

    async def send(self, subagent: SubAgent, text: str, context: ToolContext) -> Outcome:
        """Send a sub-agent of this session a message; it has the rights that it had for its task.

        Raises:
            RequestRefused: it has ended for good, or was sent too many.
        """
        asking = await self._asking.of(context)
        limits = asking.agent.profile.subagents
        row = await self._first_message(subagent)
        if row is None or row.automation is None:
            raise RequestRefused(f"{subagent.id} can be asked no more: it ended too long ago", hint="spawn another one")
        tainted = tuple(sorted(context.taint))
        rules = replace(row.automation, sources=tainted, instruction=unmarked(neutralised(text)) if tainted else "")
        name = id_of(context.turn, context.call)
        inbound = _from_session(context, asking.agent, f"send:{name}", subagent.session, "" if tainted else text)
        arrival = arrival_of(inbound, row.route, rules, context.now)
        sent = await self._stored(self._ledger.subagents.send(subagent.id, arrival, most=limits.max_messages))
        if sent.obstacle is not None:
            raise _refused(sent, limits)
        name = f" (“{subagent.label}”)" if context.taint.issuperset(label_sources(subagent.payload)) else ""
        return Outcome(text=f"Sent to {subagent.id}{name}. Its answer comes as a message.")

    async def _stored(self, work: Awaitable[SentToSubAgent]) -> SentToSubAgent:
        """Store and enqueue, also when the turn is cancelled meanwhile: what is stored must have somebody who works on it."""

        async def both() -> SentToSubAgent:
            sent = await work
            if sent.row is not None:
                await self._hand_out(sent.row)
            return sent

        return await finish_despite_cancel(both())

    async def _first_message(self, subagent: SubAgent) -> RoutedMessage | None:
        row = await self._ledger.subagents.task(subagent.session)
        return None if row is None else next(iter(await self._read([row])), None)

    def _agent(self, wanted: str | None, asking: Asking) -> RunningAgent:
        name = (wanted or asking.agent.id).strip().lower()
        allowed = asking.agent.profile.subagents.allow_agents
        if name != asking.agent.id and not ({name, _EVERY} & set(allowed)):
            named_ones = ", ".join(allowed) or "none"
            raise RequestRefused(
                f"{asking.agent.id} may not start sub-agents as {name!r}; allowed are: {named_ones}",
                hint="the owner can name it in agents.defaults.subagents.allowAgents",
            )
        if name not in self._agents:
            raise RequestRefused(f"there is no agent {name!r}; there is {', '.join(sorted(self._agents))}")
        return self._agents[name]


def id_of(turn: str, call: str) -> str:
    """Return the id that a call gives to what it makes: the same for a repeat, short, and to be typed by people."""
    digest = hashlib.sha256(f"{turn}\0{call}".encode("utf-8", "replace")).digest()
    return base64.b32encode(digest).decode().lower()[:ID_LENGTH]


def _above(asking: Asking, label: str, subagent: str) -> OriginTurn:
    """Return what is kept of the asking turn. Its result is answered by the rules of that turn, as the origin "agent"."""
    message, before = asking.message, asking.message.automation
    rules = before or Automation(
        origin="agent", name="", source=f"subagent:{subagent}", urgent=True, owner=message.actor.owner, asked_by=message.origin
    )
    result = replace(
        rules,
        origin="agent",
        name=label,
        fresh=False,
        light=False,
        sources=(),
        instruction="",
        made_in=_made_in(message),
        asked_by=rules.asked_by or message.origin,
        request=rules.request or message.row.uid,
        result_of=subagent,
    )
    place = message.inbound.conversation
    return OriginTurn(agent=asking.agent.id, place=place, audience=message.route.audience, result=result, task="")


def _made_in(message: RoutedMessage) -> str:
    place = message.inbound.conversation
    before = message.automation.made_in if message.automation else ""
    return before or ("" if is_silent(place) else place.address)


def _from_session(context: ToolContext, agent: RunningAgent, name: str, session: str, text: str) -> Inbound:
    return Inbound(
        conversation=silent_place(session),
        sender=Sender(id=f"session:{context.key}", name=agent.profile.name),
        text=text,
        at=context.now,
        key=name,
        alias=name,
        message_id=name,
    )


def _tools(wanted: Sequence[str] | None, had: Sequence[str], *, nests: bool) -> tuple[str, ...]:
    """Return the tools of a sub-agent: those of the asking turn at most, and of these the ones that are wanted."""
    possible = [name for name in had if name not in NEVER and (nests or name not in NESTING)]
    if wanted is None:
        return tuple(possible)
    missing = [pattern for pattern in wanted if not any(named(name, [pattern]) for name in possible)]
    if missing:
        raise RequestRefused(
            f"a sub-agent of this conversation cannot have {', '.join(missing)}",
            hint=f"it can have {', '.join(possible) or 'no tools'}",
        )
    return tuple(name for name in possible if named(name, wanted))


def _usd(wanted: float | None, limits: SubAgentSettings) -> float | None:
    """Return what a sub-agent may spend in a day, in USD; what asks is bounded by its own budgets, which count all below it."""
    return min((usd for usd in (wanted, limits.usd) if usd is not None), default=None)


def _model(child: RunningAgent, wanted: str | None, usual: str) -> str | None:
    """Return the model that is wanted, else that of the asking session, else None for the agent's own."""
    names = child.conversations.models.names(child.profile.settings)
    try:
        return names.resolve(wanted or usual)
    except AgentError as error:
        if wanted is None:
            return None
        raise RequestRefused(str(error), hint=error.hint) from error


def _refused(sent: SentToSubAgent, limits: SubAgentSettings) -> RequestRefused:
    told: dict[Obstacle, tuple[str, str]] = {
        "children": (
            f"{limits.max_children} sub-agents of this conversation work already",
            "wait for their results: end your turn",
        ),
        "request": (f"{limits.max_per_request} sub-agents came of this request already", "answer with what there is"),
        "parent": ("this sub-agent was stopped", ""),
        "known": ("this sub-agent was started before, and has ended", ""),
        "over": ("this sub-agent can be asked no more", "spawn another one"),
        "messages": (f"this sub-agent was sent {limits.max_messages} messages already", "spawn another one"),
    }
    assert sent.obstacle is not None
    text, hint = told[sent.obstacle]
    return RequestRefused(text, hint=hint)
