"""Fifth inbound step: stored messages go to their queue. Urgent commands run at once, and what no agent can get is refused."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from channels.live import Done
from channels.messages import ChatAddress, Inbound
from channels.protocol import Channel
from gateway.base.errors import StorageFailed, UsageError
from gateway.command_handlers.urgent_commands import UrgentCommands
from gateway.commands.table import parse
from gateway.inbound.authorise import GroupHistory
from gateway.inbound.message_routing import MessageRouting, NewMessage
from gateway.ledger.protocol import InboxLedger
from gateway.ledger.rows import InboxEnd, InboxRow, NewOutbound
from gateway.ledger.values import clean
from gateway.outbound.progress import show_frame
from gateway.routing.routed_message import ReceivedMessage, RoutedMessage, UnreadableMessage, decode_received
from gateway.routing.router import Route
from gateway.turns.result_summary import turn_facts

log = logging.getLogger(__name__)


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

    async def dispatch(self, row: InboxRow, message: ReceivedMessage) -> None:
        """Dispatch one message."""
        if message.before:
            self._history.told(row.conversation)
        try:
            routed = self._routing.routed(row, message)
        except UsageError as error:
            await self._refuse(row, message.inbound, error)
            return
        if message.automation is None and (self._unstored.was_run(row) or await self._run_urgent(routed)):
            await self._end(row, "answered", reason="urgent")
            return
        self._enqueue(routed)

    async def dispatch_row(self, row: InboxRow) -> None:
        """Dispatch a message that only its row knows."""
        try:
            message = decode_received(row)
        except UnreadableMessage as error:
            await self._end(row, "failed", reason=str(error))
            return
        await self.dispatch(row, message)

    async def _run_urgent(self, routed: RoutedMessage) -> bool:
        try:
            return await self._urgent.run(routed)
        except Exception:
            # The message is stored and must not be lost to a defect in a command: it is enqueued like any other.
            log.exception("an urgent command failed")
            return False

    async def _refuse(self, row: InboxRow, inbound: Inbound, error: UsageError) -> None:
        """Tell the sender why no agent gets the message."""
        place, text = inbound.conversation, error.as_text()
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


REMEMBERED: Final = 100
"""Stops that are remembered until their messages could be stored."""


class UnstoredCommands:
    """Looks for ``/stop`` among messages that the ledger refused, and runs it at once.

    The platform delivers such a message again until it is stored. By then it must not stop what was begun since, so it is remembered.
    ``stop`` ends what runs and says so without the ledger.
    """

    def __init__(self, stop: Callable[[Inbound, Route], Awaitable[None]]) -> None:
        self._stop = stop
        self._done: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def run_stops(self, account: str, messages: Sequence[NewMessage]) -> None:
        """Run the stops among these messages, each once however often it is delivered."""
        for new in messages:
            inbound, route = new.message.inbound, new.message.route
            name = (account, clean(new.alias))
            if name not in self._done and route is not None and _is_stop(new):
                self._done[name] = None
                while len(self._done) > REMEMBERED:
                    self._done.popitem(last=False)
                await self._stop(inbound, route)

    def was_run(self, row: InboxRow) -> bool:
        """Return whether a message that could be stored at last was run before. It answers yes once."""
        return self._done.pop((row.account, row.alias), False) is None


def _is_stop(new: NewMessage) -> bool:
    inbound, actor = new.message.inbound, new.message.actor
    if new.line is not None or (inbound.conversation.kind == "group" and not actor.owner):
        return False  # in a group a member may stop only their own turn, and whose it is cannot be looked up now
    command = parse(inbound.text)
    return command is not None and command[0].name == "stop"
