"""What is said in a group while nobody speaks to the agent: told with the next message that is meant for it."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from gateway.turns.quoting import name_of, one_line

if TYPE_CHECKING:
    from channels.messages import Inbound

MESSAGES = 20
"""Kept for each group."""
GROUPS = 200
LONGEST = 500


class GroupHistory:
    """Kept in memory only, and bounded: it is context for an answer, not something that anybody asked to be remembered.

    Only those who may speak in the group are heard.
    """

    def __init__(self) -> None:
        self._groups: OrderedDict[str, deque[tuple[str, str]]] = OrderedDict()

    def note(self, inbound: Inbound, *, most: int = MESSAGES) -> None:
        """Keep a message that was not meant for the agent, and ``most`` in all. One that is delivered again is kept once."""
        address = inbound.conversation.address
        kept = self._groups.setdefault(address, deque(maxlen=most))
        if kept.maxlen != most:
            kept = self._groups[address] = deque(kept, maxlen=most)
        self._groups.move_to_end(address)
        entry = (inbound.message_id, _line(inbound))
        if entry not in kept:
            kept.append(entry)
        while len(self._groups) > GROUPS:
            self._groups.popitem(last=False)

    def amend(self, inbound: Inbound) -> None:
        """Take note that a message that was overheard reads otherwise now."""
        kept = self._groups.get(inbound.conversation.address, deque())
        for position, (message, _) in enumerate(kept):
            if message == inbound.target:
                kept[position] = (message, _line(inbound))

    def knows(self, inbound: Inbound) -> bool:
        """Say whether the message that this one is about was overheard."""
        kept = self._groups.get(inbound.conversation.address, ())
        return any(message == inbound.target for message, _ in kept)

    def before(self, inbound: Inbound) -> str:
        """Return what was said before a message, a line each, or nothing. Commands are told nothing."""
        if inbound.conversation.kind != "group" or inbound.text.startswith("/"):
            return ""
        kept = self._groups.get(inbound.conversation.address, ())
        return "\n".join(line for message, line in kept if message != inbound.target)

    def told(self, address: str) -> None:
        """Forget what was told with a message of this conversation, now that it is durable."""
        self._groups.pop(address, None)


def _line(inbound: Inbound) -> str:
    files = f"[{len(inbound.attachments)} files]" if len(inbound.attachments) > 1 else "[a file]" if inbound.attachments else ""
    text = " ".join(filter(None, [files, one_line(inbound.text, LONGEST)]))
    return f"{name_of(inbound.sender.name, inbound.sender.id)}: {text}"
