"""Whose private chat it is: a button in it is pressed by that person or by nobody."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from channels.messages import Inbound

CONVERSATIONS: Final = 2000


class ChatPartners:
    """Remembers who writes in which private chat. Kept in memory only, and bounded."""

    def __init__(self) -> None:
        self._persons: OrderedDict[str, str] = OrderedDict()

    def fits(self, inbound: Inbound) -> bool:
        """Say whether something in a private chat can be its person's own. A message tells whose chat it is."""
        if inbound.conversation.kind != "direct":
            return True
        address = inbound.conversation.address
        if inbound.event != "message":
            return self._persons.get(address, inbound.sender.id) == inbound.sender.id
        self._persons[address] = inbound.sender.id
        self._persons.move_to_end(address)
        while len(self._persons) > CONVERSATIONS:
            self._persons.popitem(last=False)
        return True
