"""Messages of a group that were not for the agent, kept as context for the next one that is."""

from __future__ import annotations

from collections import OrderedDict, deque

from channels.messages import Inbound
from gateway.turns.quoting import name_of, one_line

MESSAGES = 20
"""Messages kept for each group, unless the settings say otherwise."""
GROUPS = 200
LONGEST = 500


class GroupHistory:
    """Keeps the last messages of each group, in memory only and bounded. Only people who may speak in the group are kept."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, deque[tuple[str, str]]] = OrderedDict()

    def note(self, inbound: Inbound, *, most: int = MESSAGES) -> None:
        """Keep a message, and ``most`` of its group in all. A redelivery is kept once."""
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
        """Apply an edit to a message that is kept."""
        kept = self._groups.get(inbound.conversation.address, deque())
        for position, (message, _) in enumerate(kept):
            if message == inbound.target:
                kept[position] = (message, _line(inbound))

    def knows(self, inbound: Inbound) -> bool:
        """Return whether the message that an edit is about is kept."""
        kept = self._groups.get(inbound.conversation.address, ())
        return any(message == inbound.target for message, _ in kept)

    def before(self, inbound: Inbound) -> str:
        """Return the messages before this one, a line each; nothing for a command."""
        if inbound.conversation.kind != "group" or inbound.text.startswith("/"):
            return ""
        kept = self._groups.get(inbound.conversation.address, ())
        return "\n".join(line for message, line in kept if message != inbound.target)

    def told(self, address: str) -> None:
        """Forget the messages of a conversation, because they are stored with one that is for the agent."""
        self._groups.pop(address, None)


def _line(inbound: Inbound) -> str:
    files = f"[{len(inbound.attachments)} files]" if len(inbound.attachments) > 1 else "[a file]" if inbound.attachments else ""
    text = " ".join(filter(None, [files, one_line(inbound.text, LONGEST)]))
    return f"{name_of(inbound.sender.name, inbound.sender.id)}: {text}"
