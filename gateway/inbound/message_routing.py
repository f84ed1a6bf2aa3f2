"""Third inbound step: what a message or event becomes, and which agents get it in which session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agent.taint import fenced, merged
from channels.messages import Inbound
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import UsageError
from gateway.commands.table import parse
from gateway.inbound.authorise import Authorised, GroupHistory
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import ContextEvent, InboxRow
from gateway.routing.access import Actor
from gateway.routing.routed_message import ReceivedMessage, RoutedMessage, UnreadableMessage, decode_received
from gateway.routing.router import Route, Router
from gateway.settings.root import SettingsStore
from gateway.turns.user_message import (
    LONGEST_QUOTE,
    cut,
    forwarded_from,
    name_of,
    one_line,
    origin_of,
    quoted,
    unmarked,
    without_origin,
)


class NewMessage(Struct, frozen=True, kw_only=True):
    """A message to store, with the ids of the context events that are told with it.

    Each further agent that answers the conversation gets a copy, whose ``mark`` names it: it stands behind key and alias, so that a
    redelivery finds all rows of a message. With ``line`` it is no message but a context event: that line is told with the conversation's
    next message (nothing where it is empty); untrusted text in it comes from ``line_sources``. With ``new_text`` it is an edit: while
    the edited message waits, its text is replaced instead.
    """

    message: ReceivedMessage
    event_ids: tuple[int, ...] = ()
    mark: str = ""
    line: str | None = None
    line_sources: tuple[str, ...] = ()
    new_text: str | None = None


class MessageRouting:
    """Routes by the settings in force."""

    def __init__(
        self,
        ledger: Ledger,
        router: Router,
        agents: Mapping[str, RunningAgent],
        history: GroupHistory,
        settings: SettingsStore,
    ) -> None:
        self._ledger = ledger
        self._router = router
        self._agents = agents
        self._history = history
        self._settings = settings

    async def route(self, authorised: Authorised, with_context: set[str]) -> list[NewMessage]:
        """Return what is to be stored, one for each agent that gets it; nothing for an event that changes nothing.

        ``with_context``: conversations whose context goes with an earlier message of the same delivery; this one is added.
        """
        inbound, actor = authorised.inbound, authorised.actor
        if not actor.local and inbound.hints:
            inbound = replace(inbound, hints={})
        match inbound.event:
            case "edited":
                if not self._history.knows(inbound):
                    return [] if inbound.from_bot else [await self._edit(inbound, actor)]
                inbound = replace(inbound, event="message", message_id=inbound.target or inbound.message_id)
            case "reaction":
                return await self._reaction(inbound, actor, with_context)
            case "button":
                inbound = pressed(inbound)
        return await self._message(inbound, actor, with_context)

    def routed(self, row: InboxRow, message: ReceivedMessage) -> RoutedMessage:
        """Return a stored message with its route and its command. A person's message to an agent that is gone is routed again.

        Raises:
            UsageError: no agent can get it.
        """
        route = message.route
        if message.automation is not None and route is not None and route.agent not in self._agents:
            why = f"“{message.automation.name}” is for the agent {route.agent!r}, which is gone"
            raise UsageError(why, hint=f"Agents there are: {', '.join(sorted(self._agents))}.")
        if route is None or route.agent not in self._agents:
            route = self._router.resolve(message.inbound, message.actor)
        agent = self._agents.get(route.agent)
        triggers = agent.triggers if agent else ()
        return RoutedMessage(
            row=row,
            inbound=message.inbound,
            actor=message.actor,
            route=route,
            before=message.before,
            context_events=message.context_events,
            context_sources=message.context_sources,
            automation=message.automation,
            triggers=triggers,
            command=None if message.automation is not None else parse(message.inbound.text, triggers),
        )

    async def _message(self, inbound: Inbound, actor: Actor, with_context: set[str]) -> list[NewMessage]:
        address = inbound.conversation.address
        before = ""
        pending: Sequence[ContextEvent] = ()
        if not inbound.text.startswith("/") and address not in with_context:
            with_context.add(address)
            pending = await self._ledger.context_events.pending(address)
            before = self._history.before(inbound) if inbound.conversation.kind == "group" else ""
        first, *further = self._routes(inbound, actor)
        events = [event for event in pending if first is None or event.agent in {"", first.agent}]
        message = ReceivedMessage(
            inbound=inbound,
            actor=actor,
            route=first,
            before=before,
            context_events=tuple(event.line for event in events),
            context_sources=merged(*(event.sources for event in events)) if events else (),
        )
        copies = [_copy(message, route, pending) for route in further if route is not None]
        return [NewMessage(message=message, event_ids=tuple(event.id for event in events)), *copies]

    def _routes(self, inbound: Inbound, actor: Actor) -> list[Route | None]:
        """Return a route for each agent that answers; a lone None when there is none: the sender is told so after it is stored."""
        try:
            return [*self._router.routes(inbound, actor)]
        except UsageError:
            return [None]

    async def _edit(self, inbound: Inbound, actor: Actor) -> NewMessage:
        sources = forwarded_from(inbound.text)
        if not sources:
            original = await self._original(inbound)
            if original is None:
                sources = (EDIT,)
            elif sources := forwarded_from(original):
                inbound = replace(inbound, text=f"{origin_of(original)}\n{inbound.text}")
        text = inbound.text if parse(inbound.text) is None else edited(inbound)  # an edit never makes a message a command
        line = edited(inbound, sources)
        return NewMessage(message=self._context_event(inbound, actor), line=line, line_sources=sources, new_text=text)

    async def _original(self, inbound: Inbound) -> str | None:
        """Return what its sender wrote before an edit; None where that is not known any more."""
        row = await self._ledger.inbox.written_as(inbound.conversation.address, inbound.target or "", inbound.sender.id)
        try:
            return None if row is None else decode_received(row).inbound.text
        except UnreadableMessage:
            return None

    async def _reaction(self, inbound: Inbound, actor: Actor, with_context: set[str]) -> list[NewMessage]:
        policy = self._settings.current.messages.reactions
        text = inbound.text.strip()
        if policy == "off" or inbound.from_bot or not (text or (inbound.former and policy != "turn")):
            return []
        ours = await self._ledger.outbox.find_sent(inbound.conversation.address, inbound.target or "")
        if ours is None and inbound.conversation.kind == "group":
            return []
        if ours is not None:  # platforms do not say in which thread it was
            inbound = replace(inbound, conversation=ours[1])
        line = reaction(inbound, None if ours is None else ours[0])
        if policy == "turn":
            return await self._message(replace(inbound, text=line), actor, with_context)
        untold = await self._untold_reaction(inbound, None if ours is None else ours[0])
        if not text and not untold:
            return []
        return [NewMessage(message=self._context_event(inbound, actor), line=line if text else "", event_ids=untold)]

    async def _untold_reaction(self, inbound: Inbound, ours: str | None) -> tuple[int, ...]:
        """Return the context event of a reaction that was taken away before the agent was told of it."""
        if not inbound.former:
            return ()
        gone = reaction(replace(inbound, text=inbound.former), ours)
        pending = await self._ledger.context_events.pending(inbound.conversation.address)
        return tuple(event.id for event in pending if event.line == gone)[-1:]

    def _context_event(self, inbound: Inbound, actor: Actor) -> ReceivedMessage:
        return ReceivedMessage(inbound=inbound, actor=actor, route=self._routes(inbound, actor)[0])


LONGEST_EDIT: Final = 2000
EDIT: Final = "edit"
"""The source of an edited text of which it is not known whose words it has."""
LONGEST_EMOJI: Final = 32


def pressed(inbound: Inbound) -> Inbound:
    """Return a pressed button as a message: a command as if it had been typed, anything else marked as a press."""
    if parse(inbound.text) is not None:
        return inbound
    return replace(inbound, text=f"[pressed: {one_line(inbound.text, LONGEST_QUOTE)}]")


def edited(inbound: Inbound, sources: tuple[str, ...] = ()) -> str:
    """Return the line for a message that was edited after it was answered. With ``sources`` it has words of others: they are fenced."""
    who = f"{speaker(inbound)} " if inbound.conversation.kind == "group" else ""
    text = cut(inbound.text.strip(), LONGEST_EDIT)
    if sources:
        return f"[{who}edited: words of somebody]\n{fenced(unmarked(without_origin(text)), sources)}"
    return f"[{who}edited: {unmarked(text)}]"


def reaction(inbound: Inbound, ours: str | None) -> str:
    """Return the line for a reaction. ``ours`` is the text of the agent's message that it is under, None for another message."""
    under = "an earlier message" if ours is None else f"your message {quoted(ours, 100)}"
    return f"[{speaker(inbound)} put {one_line(inbound.text, LONGEST_EMOJI)} under {under}]"


def speaker(inbound: Inbound) -> str:
    """Return the name of the sender, who chose it, as one short plain line."""
    return name_of(inbound.sender.name, inbound.sender.id)


def _copy(message: ReceivedMessage, route: Route, pending: Sequence[ContextEvent]) -> NewMessage:
    """Return a message for a further agent that answers it, with the events that are for that one alone."""
    own = [event for event in pending if event.agent == route.agent]
    told = replace(
        message,
        route=route,
        context_events=tuple(event.line for event in own),
        context_sources=merged(*(event.sources for event in own)) if own else (),
    )
    return NewMessage(message=told, mark=f"@{route.agent}", event_ids=tuple(event.id for event in own))
