"""Stopping when nothing can be written: ``/stop`` counts from the moment it is heard, whether or not it could be taken in."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from gateway.commands.table import parse
from gateway.ledger.rows import InboxRow
from gateway.ledger.values import clean
from gateway.routing.routed_message import UnreadableMessage, decode_message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from channels.messages import Inbound
    from gateway.ledger.rows import Arrival
    from gateway.routing.router import Route

REMEMBERED: Final = 100
"""Stops that are remembered until their messages could be stored."""


class UnstoredCommands:
    """Looks for ``/stop`` among messages that the ledger refused, and does it at once.

    The platform offers such a message again until it is stored. By then it must not stop what was begun since, so it is remembered.
    ``stop`` ends what runs and says so without the ledger.
    """

    def __init__(self, stop: Callable[[Inbound, Route], Awaitable[None]]) -> None:
        self._stop = stop
        self._done: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def heed(self, account: str, arrivals: Sequence[Arrival]) -> None:
        """Do what of these messages cannot wait until they are stored, each once however often it is offered."""
        for arrival in arrivals:
            name = (account, clean(arrival.alias))
            if arrival.aside is None and name not in self._done and (asked := _stop_in(account, arrival)) is not None:
                self._done[name] = None
                while len(self._done) > REMEMBERED:
                    self._done.popitem(last=False)
                await self._stop(*asked)

    def heeded(self, row: InboxRow) -> bool:
        """Say whether a message that could be stored at last was dealt with before. It is asked once."""
        return self._done.pop((row.account, row.alias), False) is None


def _stop_in(account: str, arrival: Arrival) -> tuple[Inbound, Route] | None:
    """Return the message and where it goes when it is ``/stop``."""
    row = InboxRow(
        id=0,
        account=account,
        alias=arrival.alias,
        conversation=arrival.conversation,
        session=arrival.session,
        sender=arrival.sender,
        payload=arrival.payload,
        received_at=arrival.received_at,
    )
    try:
        inbound, actor, route = decode_message(row)
    except UnreadableMessage:
        return None
    if inbound.conversation.kind == "group" and not actor.owner:  # whose turn it is cannot be told now
        return None
    command = parse(inbound.text)
    return (inbound, route) if command is not None and command[0].name == "stop" and route is not None else None
