"""Inbound pipeline: normalise, authorise, route, store, enqueue. A platform is told that a message arrived once it is stored.

Urgent commands run at once, and what no agent can get is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from agent.timing import Clock
from channels.errors import NotSent
from channels.live import Done
from channels.messages import ChatAddress, Cursor, Inbound, Sender
from channels.protocol import Channel
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import StorageFailed, UsageError, for_chat
from gateway.command_handlers.urgent_commands import UrgentCommands
from gateway.commands.table import says_stop
from gateway.inbound.authorise import Authoriser, GroupHistory, normalise
from gateway.inbound.group_arrivals import GroupArrivals
from gateway.inbound.message_routing import MessageRouting, NewMessage
from gateway.inbound.unstored_commands import UnstoredCommands
from gateway.ledger.protocol import InboxLedger, Ledger
from gateway.ledger.rows import Arrival, InboxEnd, InboxRow, NewOutbound
from gateway.ledger.values import account_of, clean
from gateway.outbound.progress import show_frame
from gateway.routing.access import Access, Actor, Allowed
from gateway.routing.routed_message import (
    Automation,
    ReceivedMessage,
    RoutedMessage,
    UnreadableMessage,
    arrival_of,
    decode_received,
    encode_message,
    reworded,
)
from gateway.routing.router import ChatMigrations, Route, Router, agent_of
from gateway.settings.root import SettingsStore
from gateway.telemetry.recorder import Telemetry
from gateway.turns.turn_context import turn_facts

if TYPE_CHECKING:
    from gateway.inbound.shared_messages import SharedMessages

log = logging.getLogger(__name__)

AT_ONCE = 20
"""Messages that are in memory together after a start; each may be megabytes long."""


class Inbox:
    """Takes in what channels deliver, and enqueues after a restart what was not answered.

    ``enqueue`` gets each message once, in order, and must return at once. ``ready`` and ``alive`` are called with the name and account of
    a channel that says so, ``bounced`` with a message that was taken and not delivered.
    """

    def __init__(
        self,
        ledger: Ledger,
        access: Access,
        router: Router,
        *,
        agents: Mapping[str, RunningAgent],
        settings: SettingsStore,
        clock: Clock,
        migrations: ChatMigrations,
        urgent: UrgentCommands,
        enqueue: Callable[[RoutedMessage], None],
        channel: Callable[[ChatAddress], Channel],
        ready: Callable[[str, str], None],
        alive: Callable[[str, str], None],
        bounced: Callable[[ChatAddress, str, NotSent], Awaitable[bool]],
        arrivals: GroupArrivals | None = None,
        tell_owner: Callable[[str], None] = lambda _: None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.arrivals = arrivals
        self.tell_owner = tell_owner
        self.telemetry = telemetry or Telemetry()
        self.history = history = GroupHistory()
        self.access = access
        self.ledger = ledger
        self.router = router
        self.settings = settings
        self.clock = clock
        self.migrations = migrations
        self.ready = ready
        self.alive = alive
        self.bounced = bounced
        self.routing = MessageRouting(ledger, router, agents, history, settings)
        self.authoriser = Authoriser(ledger, access, history, settings, partial(self._may_stop, urgent))
        self.unstored = UnstoredCommands(urgent.stop_unstored)
        self.dispatcher = Dispatcher(
            ledger.inbox, self.routing, history, urgent=urgent, unstored=self.unstored, enqueue=enqueue, channel=channel
        )
        self._tasks: set[asyncio.Task[None]] = set()

    async def _may_stop(self, urgent: UrgentCommands, inbound: Inbound, actor: Actor) -> bool:
        try:
            routes = self.router.routes(inbound, actor)
        except UsageError:
            return False
        return any([await urgent.may_stop(route.session, inbound.conversation, actor) for route in routes])

    def share(self, here: Callable[[str], bool]) -> None:
        """Handle messages of those agents alone that are ``here``, because other gateways handle the others."""
        from gateway.inbound.shared_messages import SharedMessages

        self.dispatcher.sharing = SharedMessages(here, lambda: self.settings.current.agent_ids)

    def left(self, agents: Collection[str]) -> None:
        """Take note that these agents were given up, and what waited for them was dropped here."""
        assert self.dispatcher.sharing is not None
        self.dispatcher.sharing.left(agents)

    async def take_in(self, agents: Collection[str] | None = None, after: int = 0) -> int:
        """Enqueue what other gateways stored and nobody has yet; of these ``agents``, which are being taken, or of those that are here.

        Begins after a row, and returns the last one.
        """
        while rows := await self.ledger.inbox.waiting(after=after, limit=AT_ONCE):
            for row in rows:
                if agents is None or row.session is None or agent_of(row.session) in agents:
                    await self.dispatcher.dispatch_row(row, taken=agents is not None)
            after = rows[-1].id
        return after

    def sink(self, channel: str, account: str = "default") -> AccountSink:
        """Return the sink for the messages of one account."""
        return AccountSink(self, channel, account)

    async def replay(self) -> int:
        """Enqueue the messages that wait in the ledger, in the order of arrival; return how many. Once, before any channel starts."""
        await self.migrations.load(self.ledger.chat_migrations)
        after = count = 0
        while rows := await self.ledger.inbox.waiting(after=after, limit=AT_ONCE):
            for row in rows:
                await self.hand_out(row)
            after, count = rows[-1].id, count + len(rows)
        return count

    async def hand_out(self, row: InboxRow) -> None:
        """Enqueue a message that waits in the ledger."""
        await self.dispatcher.dispatch_row(row)

    async def submit(self, message: Inbound, route: Route, automation: Automation, *, account: str) -> InboxRow | None:
        """Store a message that no person wrote, and enqueue it; None if one with its alias is known on that account.

        ``account`` is "schedule", "hook" or "agent". ``message.conversation`` is where the reply goes.

        Raises:
            StorageFailed: it was not stored.
        """
        accepted = await self.ledger.inbox.accept(account, [arrival_of(message, route, automation, self.clock.now())])
        if not accepted.rows:
            return None
        self.telemetry.received.add(account)
        await self.finish(self.hand_out(accepted.rows[0]))
        return accepted.rows[0]

    async def read(self, rows: Sequence[int]) -> list[RoutedMessage]:
        """Return messages by the ids of their rows, in the order of arrival, without those that cannot be read any more."""
        found = []
        for row in await self.ledger.inbox.rows(rows):
            try:
                found.append(self.routing.routed(row, decode_received(row)))
            except (UnreadableMessage, UsageError) as error:
                log.warning("message %s cannot be read: %s", row.id, error)
        return found

    async def finish(self, work: Coroutine[None, None, None]) -> None:
        """Finish ``work`` even when the caller is cancelled: what was stored must also be enqueued."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)


class AccountSink:
    """Implements ``channels.protocol.InboundSink`` for one account."""

    def __init__(self, inbox: Inbox, channel: str, account: str) -> None:
        self._inbox = inbox
        self._channel = channel
        self._account = account
        self._key = f"{channel}:{account}"
        self._in_order = asyncio.Lock()
        self.ready = partial(inbox.ready, channel, account)
        """See the protocol."""
        self.alive = partial(inbox.alive, channel, account)
        """See the protocol."""

    async def accept(self, messages: Sequence[Inbound], cursor: Cursor | None = None) -> None:
        """See the protocol."""
        new: list[NewMessage] = []
        with_context: set[str] = set()
        failed: StorageFailed | None = None
        for message in messages:
            if account_of(message.conversation) != self._key:
                raise ValueError(f"a message of {account_of(message.conversation)} was given to the sink of {self._key}")
            try:
                inbound = normalise(message, self._inbox.settings.current, self._inbox.router)
                authorised = await self._inbox.authoriser.authorise(inbound)
                if authorised is not None:
                    new += await self._inbox.routing.route(authorised, with_context)
            except StorageFailed as error:  # the others may contain a /stop
                failed = error
        if failed is not None:
            await self._inbox.unstored.run_stops(self._key, new)
            raise failed
        if new or cursor is not None:
            await self._inbox.finish(self._store_and_enqueue(new, cursor))

    async def _store_and_enqueue(self, new: Sequence[NewMessage], cursor: Cursor | None) -> None:
        """Store messages and the cursor in one transaction, and enqueue those that are new, in the order of their rows."""
        now = self._inbox.clock.now()
        arrivals = [to_arrival(one, now) for one in new]
        try:
            accepted = await self._inbox.ledger.inbox.accept(self._key, arrivals, cursor)
        except StorageFailed:
            await self._inbox.unstored.run_stops(self._key, new)
            raise
        if accepted.renumbered:
            log.warning("%s has started to number its messages anew", self._key)
        by_alias: dict[str, ReceivedMessage] = {}
        for arrival, one in zip(arrivals, new, strict=True):
            by_alias.setdefault(clean(arrival.alias), one.message)  # of two with one name the first is stored
        async with self._in_order:
            for row in accepted.rows:
                self._inbox.telemetry.received.add(self._channel)
                await self._inbox.dispatcher.dispatch(row, by_alias[row.alias])

    async def cursor(self, name: str) -> str | None:
        """See the protocol."""
        return await self._inbox.ledger.inbox.cursor(self._key, name)

    async def admits(self, person: str) -> bool:
        """See the protocol."""
        place = ChatAddress(channel=self._channel, account=self._account, kind="direct", id=person)
        return isinstance(await self._inbox.access.decide(place, Sender(id=person)), Allowed)

    async def added(self, group: ChatAddress, *, key: str, title: str = "", by: str = "") -> None:
        """See the protocol."""
        if account_of(group) != self._key or group.kind != "group":
            raise ValueError(f"{group.address} is no group of {self._key}")
        if self._inbox.arrivals is not None:
            await self._inbox.finish(self._inbox.arrivals.added(group, key=key, title=clean(title), by=clean(by)))

    async def moved(self, former: ChatAddress, present: ChatAddress) -> None:
        """See the protocol."""
        for place in (former, present):
            if account_of(place) != self._key or place.kind != "group":
                raise ValueError(f"{place.address} cannot move: it is no group of {self._key}")
        log.warning("%s is now %s", former.address, present.address)
        await self._inbox.finish(self._move(former.id, present.id))

    async def bounced(self, conversation: ChatAddress, platform_id: str, error: NotSent) -> bool:
        """See the protocol."""
        return await self._inbox.bounced(conversation, platform_id, error)

    def tell_owner(self, text: str) -> None:
        """See the protocol."""
        self._inbox.tell_owner(text)

    async def _move(self, former: str, present: str) -> None:
        await self._inbox.ledger.chat_migrations.record(self._key, former, present)
        await self._inbox.migrations.load(self._inbox.ledger.chat_migrations)


def to_arrival(new: NewMessage, received_at: datetime) -> Arrival:
    """Encode a message for its row."""
    inbound, route, text = new.message.inbound, new.message.route, new.new_text
    return Arrival(
        key=f"{inbound.key}{new.mark}",
        alias=f"{inbound.alias}{new.mark}",
        conversation=inbound.conversation.address,
        session=route.session if route else None,
        sender=inbound.sender.id,
        payload=encode_message(
            inbound,
            new.message.actor,
            route,
            before=new.message.before,
            asides=new.message.context_events,
            aside_sources=new.message.context_sources,
        ),
        received_at=received_at,
        message=inbound.message_id if inbound.event == "message" else None,
        takes=new.event_ids,
        aside=new.line,
        aside_sources=new.line_sources,
        edits=None if text is None else inbound.target,
        reword=None if text is None else lambda payload: reworded(payload, text),
    )


def may_be_urgent(routed: RoutedMessage) -> bool:
    """Return whether a message is an urgent command, or a stop word, which is one only where something can be stopped."""
    return (routed.command is not None and routed.command[0].urgent) or says_stop(routed.inbound.text)


class Dispatcher:
    """Gives each stored message to ``enqueue``, unless it ends here. ``enqueue`` must return at once."""

    def __init__(
        self,
        inbox: InboxLedger,
        routing: MessageRouting,
        history: GroupHistory,
        *,
        urgent: UrgentCommands,
        unstored: UnstoredCommands,
        enqueue: Callable[[RoutedMessage], None],
        channel: Callable[[ChatAddress], Channel],
    ) -> None:
        self._inbox = inbox
        self._routing = routing
        self._history = history
        self._urgent = urgent
        self._unstored = unstored
        self._enqueue = enqueue
        self._channel = channel
        self.sharing: SharedMessages | None = None
        self.sessions: dict[ChatAddress, str] = {}
        """Where a person's last message in each conversation went."""

    async def dispatch(self, row: InboxRow, message: ReceivedMessage, *, taken: bool = False) -> None:
        """Dispatch one message. ``taken``: its agent is being taken over from another gateway."""
        if self.sharing is not None and not self.sharing.begins(row, message, taken=taken):
            return
        if message.before:
            self._history.drop(row.conversation)
        try:
            routed = self._routing.routed(row, message)
        except UsageError as error:
            await self._refuse(row, message.inbound, error)
            return
        if message.automation is None:
            self.sessions[message.inbound.conversation] = routed.route.session
            known = self._unstored.done and self._unstored.was_run(row)
            if known or (may_be_urgent(routed) and await self._run_urgent(routed)):
                await self._end(row, "answered", reason="urgent")
                return
        self._enqueue(routed)

    async def dispatch_row(self, row: InboxRow, *, taken: bool = False) -> None:
        """Dispatch a message that only its row knows."""
        try:
            message = decode_received(row)
        except UnreadableMessage as error:
            await self._end(row, "failed", reason=str(error))
            return
        await self.dispatch(row, message, taken=taken)

    async def _run_urgent(self, routed: RoutedMessage) -> bool:
        try:
            return await self._urgent.run(routed)
        except Exception:
            # The message is stored and must not be lost to a defect in a command: it is enqueued like any other.
            log.exception("an urgent command failed")
            return False

    async def _refuse(self, row: InboxRow, inbound: Inbound, error: UsageError) -> None:
        """Tell the sender why no agent gets the message."""
        place, text = inbound.conversation, for_chat(error.as_text())
        await self._end(
            row, "failed", reason=str(error), reply=[NewOutbound(conversation=place, text=text, key=f"{row.uid}.r")]
        )
        facts = turn_facts("", "", "", text, exit_code=error.exit_code) | {"chunks": 1, "replyKeys": None}
        show_frame(self._channel(place), place, Done("", inbound.message_id, facts))

    async def _end(self, row: InboxRow, end: InboxEnd, *, reason: str, reply: Sequence[NewOutbound] = ()) -> None:
        if end == "failed":
            log.warning("message %s is given up: %s", row.id, reason)
        try:
            await self._inbox.settle([row.id], end, reason=reason, reply=reply)
        except StorageFailed as error:  # the message stays in the inbox: it is dispatched again after the next start
            log.warning("message %s could not be ended: %s", row.id, error)
