"""What is said in a group while nobody speaks to the agent: told with the next message that is meant for it."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.messages import Inbound

MESSAGES = 20
"""Kept for each group."""
GROUPS = 200
LONGEST = 500


class Overheard:
    """Kept in memory only, and bounded: it is context for an answer, not something that anybody asked to be remembered.

    Only those who may speak in the group are heard.
    """

    def __init__(self) -> None:
        self._groups: OrderedDict[str, deque[tuple[str, str]]] = OrderedDict()

    def note(self, inbound: Inbound) -> None:
        """Keep a message that was not meant for the agent. One that is delivered again is kept once."""
        address = inbound.conversation.address
        kept = self._groups.setdefault(address, deque(maxlen=MESSAGES))
        self._groups.move_to_end(address)
        text = inbound.text if len(inbound.text) <= LONGEST else inbound.text[: LONGEST - 1] + "…"
        line = f"{_one_line(inbound.sender.name) or inbound.sender.id}: {_one_line(text)}"
        if (inbound.key, line) not in kept:
            kept.append((inbound.key, line))
        while len(self._groups) > GROUPS:
            self._groups.popitem(last=False)

    def before(self, inbound: Inbound) -> Inbound:
        """Return a message with what was said before it. Commands stay as they are."""
        if inbound.conversation.kind != "group" or inbound.text.startswith("/"):
            return inbound
        kept = self._groups.get(inbound.conversation.address)
        if not kept:
            return inbound
        lines = "\n".join(line for _, line in kept)
        who = _one_line(inbound.sender.name) or inbound.sender.id
        return replace(inbound, text=f"[Said in this group before, not to you]\n{lines}\n[{who} to you]\n{inbound.text}")

    def told(self, address: str) -> None:
        """Forget what was told with a message of this conversation, now that it is durable."""
        self._groups.pop(address, None)


def _one_line(text: str) -> str:
    return " ".join(text.split())
