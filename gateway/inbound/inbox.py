"""The way in: who may speak is heard once, durably, before the platform is told that we have it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gateway.base.errors import StorageFailed, UsageError
from gateway.commands.table import parse
from gateway.inbound.bot_limit import BotLimit
from gateway.inbound.chat_partner import ChatPartners
from gateway.inbound.edits_and_reactions import DefaultEventPolicy, EventPolicy, edited, pressed, reaction
from gateway.inbound.group_history import MESSAGES, GroupHistory
from gateway.inbound.unstored_commands import UnstoredCommands
from gateway.ledger.rows import Arrival, NewOutbound
from gateway.ledger.values import account_of, clean
from gateway.routing.access import Allowed, Pair
from gateway.routing.broadcast import fanned
from gateway.routing.chat_migrations import ChatMigrations
from gateway.routing.routed_message import RoutedMessage, UnreadableMessage, encode_message, read_whole, reworded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from channels.messages import ChatAddress, Cursor, Inbound
    from gateway.ledger.base import Clock
    from gateway.ledger.protocol import Ledger
    from gateway.ledger.rows import ContextEvent, InboxEnd, InboxRow
    from gateway.routing.access import Access, Actor
    from gateway.routing.router import Route, Router

log = logging.getLogger(__name__)

AT_ONCE = 20
"""Messages that are in memory together after a start; each may be megabytes long."""


async def _nothing_runs(_message: Inbound, _route: Route) -> None:
    """Stop nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxHooks:
    """What the way in leads to.

    ``arrived`` is given each new message once, in order; it must return at once (a lane takes it from there). ``urgent`` is asked
    first, for commands that go around the lane: True means that it is dealt with. It must be quick, and must take being
    asked twice for one message after a crash. ``ready`` and ``alive`` pass on what a channel says, with its name and account.
    ``refused`` hears of a message that cannot be routed; its sender is told through the outbox. ``heard`` sees each message before
    it is judged, and marks it as a mention where it calls the agent; ``history`` says how many overheard ones a group keeps.
    ``housed`` says whether an agent lives here: what waited for one that does not is routed anew.
    ``stop`` ends what runs, and says so without the ledger, for a ``/stop`` that could not be stored.
    """

    arrived: Callable[[RoutedMessage], None]
    urgent: Callable[[Inbound, Actor, Route], Awaitable[bool]]
    ready: Callable[[str, str], None]
    alive: Callable[[str, str], None]
    refused: Callable[[Inbound, UsageError], None] = lambda _message, _error: None
    stop: Callable[[Inbound, Route], Awaitable[None]] = _nothing_runs
    heard: Callable[[Inbound], Inbound] = lambda message: message
    history: Callable[[ChatAddress], int] = lambda _place: MESSAGES
    housed: Callable[[str], bool] = lambda _agent: True


class Inbox:
    """Makes the doors of the channels, and hands out after a restart what was not answered.

    ``router`` and ``habits`` give those in force, so that changed settings hold at once.
    """

    def __init__(
        self,
        ledger: Ledger,
        access: Access,
        router: Callable[[], Router],
        house: InboxHooks,
        clock: Clock,
        *,
        moves: ChatMigrations | None = None,
        habits: Callable[[], EventPolicy] = DefaultEventPolicy,
    ) -> None:
        self.ledger = ledger
        self.access = access
        self.house = house
        self._router = router
        self._clock = clock
        self.habits = habits
        self.moves = moves or ChatMigrations()
        self.overheard = GroupHistory()
        self.bots = BotLimit()
        self.partners = ChatPartners()
        self.unstored = UnstoredCommands(house.stop)
        self._tasks: set[asyncio.Task[None]] = set()

    def door(self, channel: str, account: str = "default") -> AccountSink:
        """Return the house as one account of a channel sees it."""
        return AccountSink(self, channel, account)

    async def replay(self) -> int:
        """Hand out what waits in the ledger, in the order of arrival; return how many. Once, before any channel starts."""
        await self.moves.load(self.ledger.chat_migrations)
        after = count = 0
        while rows := await self.ledger.inbox.waiting(after=after, limit=AT_ONCE):
            for row in rows:
                await self.hand_out(row)
            after, count = rows[-1].id, count + len(rows)
        return count

    async def read(self, rows: Sequence[int]) -> list[RoutedMessage]:
        """Return messages by the ids of their rows, in the order of arrival, without those that cannot be read any more."""
        found = []
        for row in await self.ledger.inbox.rows(rows):
            try:
                inbound, actor, route, before, asides = read_whole(row)
                route = self._whither(inbound, actor, route)
                found.append(RoutedMessage(row=row, inbound=inbound, actor=actor, route=route, before=before, asides=asides))
            except (UnreadableMessage, UsageError) as error:
                log.warning("message %s cannot be read: %s", row.id, error)
        return found

    def _whither(self, inbound: Inbound, actor: Actor, route: Route | None) -> Route:
        return route if route is not None and self.house.housed(route.agent) else self.route(inbound, actor)

    def route(self, inbound: Inbound, actor: Actor) -> Route:
        """Route a message by the settings in force. Raises UsageError."""
        return self._router().resolve(inbound, actor)

    def echoes(self, inbound: Inbound, actor: Actor) -> list[Route]:
        """Return where a message goes besides; a local client has chosen its agent."""
        return [] if actor.local else self._router().echoes(inbound.conversation, actor)

    def arrival(self, inbound: Inbound, actor: Actor, *, before: str = "", asides: Sequence[ContextEvent] = ()) -> Arrival:
        """Make the row of a message. One that cannot be routed is taken all the same: its sender is told when it is handed out."""
        try:
            route = self.route(inbound, actor)
        except UsageError:
            route = None
        return Arrival(
            key=inbound.key,
            alias=inbound.alias,
            conversation=inbound.conversation.address,
            session=route.session if route else None,
            sender=inbound.sender.id,
            payload=encode_message(inbound, actor, route, before=before, asides=[aside.line for aside in asides]),
            received_at=self._clock.now(),
            message=inbound.message_id if inbound.event == "message" else None,
            takes=tuple(aside.id for aside in asides),
        )

    async def hand_out(self, row: InboxRow) -> None:
        """Give a message to the house, or end it here when it is urgent, cannot be routed, or cannot be read."""
        try:
            inbound, actor, route, before, asides = read_whole(row)
        except UnreadableMessage as error:
            await self._end(row, "failed", reason=str(error))
            return
        if before:
            self.overheard.told(row.conversation)
        try:
            route = self._whither(inbound, actor, route)
        except UsageError as error:
            said = NewOutbound(conversation=inbound.conversation, text=error.as_text())
            await self._end(row, "failed", reason=str(error), reply=[said])
            self.house.refused(inbound, error)
            return
        if self.unstored.heeded(row) or await self._is_urgent(inbound, actor, route):
            await self._end(row, "answered", reason="urgent")
            return
        self.house.arrived(RoutedMessage(row=row, inbound=inbound, actor=actor, route=route, before=before, asides=asides))

    async def _end(self, row: InboxRow, end: InboxEnd, *, reason: str, reply: Sequence[NewOutbound] = ()) -> None:
        if end == "failed":
            log.warning("message %s is given up: %s", row.id, reason)
        try:
            await self.ledger.inbox.settle([row.id], end, reason=reason, reply=reply)
        except StorageFailed as error:  # the message is safe in the inbox: it is ended after the next start
            log.warning("message %s could not be ended: %s", row.id, error)

    async def _is_urgent(self, inbound: Inbound, actor: Actor, route: Route) -> bool:
        try:
            return await self.house.urgent(inbound, actor, route)
        except Exception:
            # The message is durable and must not be lost with a command's defect: it goes the ordinary way.
            log.exception("an urgent command failed")
            return False

    async def unbroken(self, work: Coroutine[None, None, None]) -> None:
        """Finish ``work`` even when the caller is cancelled: what was committed must also be handed out."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)


class AccountSink:
    """Implements ``channels.protocol.Door`` for one account."""

    def __init__(self, inbox: Inbox, channel: str, account: str) -> None:
        self._inbox = inbox
        self._channel = channel
        self._account = account
        self._key = f"{channel}:{account}"
        self._in_order = asyncio.Lock()

    async def accept(self, messages: Sequence[Inbound], cursor: Cursor | None = None) -> None:
        """See the protocol. Who may not speak causes one bounded pairing request at most, and nothing else is kept."""
        told: set[str] = set()
        arrivals: list[Arrival] = []
        failed: StorageFailed | None = None
        for message in messages:
            try:
                arrivals += await self._judged(self._inbox.house.heard(_tidy(message)), told)
            except (
                StorageFailed
            ) as error:  # a stranger's request could not be noted; what others want is looked at all the same
                failed = error
        if failed is not None:
            await self._inbox.unstored.heed(self._key, arrivals)
            raise failed
        if arrivals or cursor is not None:
            await self._inbox.unbroken(self._take(arrivals, cursor))

    async def cursor(self, name: str) -> str | None:
        """See the protocol."""
        return await self._inbox.ledger.inbox.cursor(self._key, name)

    async def moved(self, former: ChatAddress, present: ChatAddress) -> None:
        """See the protocol."""
        for place in (former, present):
            if account_of(place) != self._key or place.kind != "group":
                raise ValueError(f"{place.address} cannot move through the door of {self._key}")
        log.warning("%s is now %s", former.address, present.address)
        await self._inbox.unbroken(self._move(former.id, present.id))

    async def _move(self, former: str, present: str) -> None:
        await self._inbox.ledger.chat_migrations.record(self._key, former, present)
        await self._inbox.moves.load(self._inbox.ledger.chat_migrations)

    def ready(self) -> None:
        """See the protocol."""
        self._inbox.house.ready(self._channel, self._account)

    def alive(self) -> None:
        """See the protocol."""
        self._inbox.house.alive(self._channel, self._account)

    async def _judged(self, inbound: Inbound, told: set[str]) -> list[Arrival]:
        """Make the rows of what arrived, one for each agent that answers it.

        ``told`` are the conversations whose context goes with an earlier message.
        """
        if account_of(inbound.conversation) != self._key:
            raise ValueError(f"a message of {account_of(inbound.conversation)} came through the door of {self._key}")
        if not self._inbox.partners.fits(inbound):
            log.warning("a %s in somebody else's private chat on %s was passed over", inbound.event, self._key)
            return []
        decision = await self._inbox.access.decide(
            inbound.conversation, inbound.sender, mentioned=await self._is_to_us(inbound), from_bot=inbound.from_bot
        )
        if isinstance(decision, Allowed):
            if inbound.event != "message" or self._inbox.bots.passes(inbound, self._inbox.habits().bots_in_a_row):
                arrival = await self._allowed(inbound, decision.actor, told)
                return [] if arrival is None else fanned(arrival, self._inbox.echoes(inbound, decision.actor))
            log.info("a message on %s was passed over: too many of programs in a row", self._key)
        elif isinstance(decision, Pair):
            if inbound.event == "message" and not inbound.from_bot:
                asked = await self._inbox.ledger.pairing.request(
                    inbound.conversation, inbound.sender.id, inbound.sender.name, decision.code, decision.text
                )
                if asked is not None:
                    command = f"homebody pairing approve {asked.channel} {asked.code}"
                    log.info("somebody on %s asks to be let in (id %s): %s", self._key, asked.sender, command)
        elif decision.overheard:
            self._overheard(inbound)
        else:
            log.info("a message on %s was passed over: %s", self._key, decision.reason)
        return []

    async def _is_to_us(self, inbound: Inbound) -> bool:
        """Say whether something in a group is meant for the agent: what is done under its own messages is."""
        if inbound.event == "message" or inbound.mentioned or inbound.conversation.kind == "direct":
            return inbound.mentioned
        known = await self._inbox.ledger.inbox.knows(inbound.conversation.address, inbound.target or "")
        return known or inbound.event == "button"

    def _overheard(self, inbound: Inbound) -> None:
        if inbound.event == "message":
            self._inbox.bots.passes(inbound, self._inbox.habits().bots_in_a_row)
            self._inbox.overheard.note(inbound, most=self._inbox.house.history(inbound.conversation))
        elif inbound.event == "edited":
            self._inbox.overheard.amend(inbound)

    async def _allowed(self, inbound: Inbound, actor: Actor, told: set[str]) -> Arrival | None:
        """Make the row of what somebody did who may; None for what is nothing to us."""
        inbound = inbound if actor.local else replace(inbound, hints={})
        match inbound.event:
            case "edited":
                if not self._inbox.overheard.knows(inbound):
                    return None if inbound.from_bot else self._edit(inbound, actor)
                inbound = replace(inbound, event="message", message_id=inbound.target or inbound.message_id)
            case "reaction":
                return await self._reaction(inbound, actor, told)
            case "button":
                inbound = pressed(inbound)
        return await self._message(inbound, actor, told)

    async def _message(self, inbound: Inbound, actor: Actor, told: set[str]) -> Arrival:
        if inbound.text.startswith("/") or inbound.conversation.address in told:
            return self._inbox.arrival(inbound, actor)
        told.add(inbound.conversation.address)
        asides = await self._inbox.ledger.context_events.pending(inbound.conversation.address)
        return self._inbox.arrival(inbound, actor, before=self._inbox.overheard.before(inbound), asides=asides)

    def _edit(self, inbound: Inbound, actor: Actor) -> Arrival:
        arrival = self._inbox.arrival(inbound, actor)
        text = inbound.text if parse(inbound.text) is None else edited(inbound)  # nobody says a command by changing a message
        return replace(
            arrival,
            aside=edited(inbound),
            edits=inbound.target,
            reword=lambda payload: reworded(payload, text),
        )

    async def _reaction(self, inbound: Inbound, actor: Actor, told: set[str]) -> Arrival | None:
        habit = self._inbox.habits().reactions
        if habit == "off" or inbound.from_bot or not inbound.text.strip():
            return None
        ours = await self._inbox.ledger.outbox.find_sent(inbound.conversation.address, inbound.target or "")
        if ours is None and inbound.conversation.kind == "group":
            return None
        if ours is not None:  # platforms do not say in which thread it was
            inbound = replace(inbound, conversation=ours[1])
        line = reaction(inbound, None if ours is None else ours[0])
        if habit == "turn":
            return await self._message(replace(inbound, text=line), actor, told)
        return replace(self._inbox.arrival(inbound, actor), aside=line)

    async def _take(self, arrivals: Sequence[Arrival], cursor: Cursor | None) -> None:
        try:
            accepted = await self._inbox.ledger.inbox.accept(self._key, arrivals, cursor)
        except StorageFailed:
            await self._inbox.unstored.heed(self._key, arrivals)
            raise
        if accepted.renumbered:
            log.warning("%s began to number its messages anew", self._key)
        async with self._in_order:
            for row in accepted.rows:
                await self._inbox.hand_out(row)


def _tidy(inbound: Inbound) -> Inbound:
    """Replace what is no valid text."""
    name = clean(inbound.sender.name)
    return replace(inbound, text=clean(inbound.text), quoted=clean(inbound.quoted), sender=replace(inbound.sender, name=name))
