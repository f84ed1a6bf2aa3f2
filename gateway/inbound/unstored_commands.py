"""``/stop`` where the ledger cannot be written: it is run at once, and once, however often the platform delivers it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from channels.messages import Inbound
from gateway.commands.table import parse
from gateway.inbound.message_routing import NewMessage
from gateway.ledger.rows import InboxRow
from gateway.ledger.values import clean
from gateway.routing.router import Route

REMEMBERED: Final = 100
"""Stops that are remembered until their messages could be stored."""


class UnstoredCommands:
    """Looks for ``/stop`` among messages that the ledger refused, and runs it at once.

    The platform delivers such a message again until it is stored. By then it must not stop what was begun since, so it is remembered.
    ``stop`` ends what runs and says so without the ledger.
    """

    def __init__(self, stop: Callable[[Inbound, Route], Awaitable[None]]) -> None:
        self._stop = stop
        self.done: OrderedDict[tuple[str, str], None] = OrderedDict()
        """The messages that were run, by account and alias."""

    async def run_stops(self, account: str, messages: Sequence[NewMessage]) -> None:
        """Run the stops among these messages, each once however often it is delivered."""
        for new in messages:
            inbound, route = new.message.inbound, new.message.route
            name = (account, clean(f"{inbound.alias}{new.mark}"))
            if name not in self.done and route is not None and _is_stop(new):
                self.done[name] = None
                while len(self.done) > REMEMBERED:
                    self.done.popitem(last=False)
                await self._stop(inbound, route)

    def was_run(self, row: InboxRow) -> bool:
        """Return whether a message that could be stored at last was run before. It answers yes once."""
        return self.done.pop((row.account, row.alias), False) is None


def _is_stop(new: NewMessage) -> bool:
    inbound, actor = new.message.inbound, new.message.actor
    if new.line is not None or (inbound.conversation.kind == "group" and not actor.owner):
        return False  # in a group a member may stop only their own turn, and whose it is cannot be looked up now
    command = parse(inbound.text)
    return command is not None and command[0].name == "stop"
