"""Programs that talk to each other: each may be let in, and still they must not keep each other busy for ever."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from channels.messages import Inbound

CONVERSATIONS: Final = 1000


class BotLimit:
    """Counts the messages that programs wrote in a conversation since a person last spoke there. Kept in memory only, and bounded."""

    def __init__(self) -> None:
        self._counted: OrderedDict[str, list[str]] = OrderedDict()

    def passes(self, inbound: Inbound, most: int) -> bool:
        """Say whether a message may be heard: any of a person, and ``most`` in a row of programs. One delivered again counts once."""
        address = inbound.conversation.address
        if not inbound.from_bot:
            self._counted.pop(address, None)
            return True
        counted = self._counted.setdefault(address, [])
        self._counted.move_to_end(address)
        if inbound.alias in counted:
            return True
        if len(counted) >= most:
            return False
        counted.append(inbound.alias)
        while len(self._counted) > CONVERSATIONS:
            self._counted.popitem(last=False)
        return True
