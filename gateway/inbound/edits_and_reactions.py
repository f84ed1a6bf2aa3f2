"""The texts of events other than messages: edits, reactions, pressed buttons."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from channels.messages import Inbound
from gateway.commands.table import parse
from gateway.turns.quoting import LONGEST_QUOTE, cut, name_of, one_line, quoted, unmarked

LONGEST_EDIT: Final = 2000
LONGEST_EMOJI: Final = 32


def pressed(inbound: Inbound) -> Inbound:
    """Return a pressed button as a message: a command as if it had been typed, anything else marked as a press."""
    if parse(inbound.text) is not None:
        return inbound
    return replace(inbound, text=f"[pressed: {one_line(inbound.text, LONGEST_QUOTE)}]")


def edited(inbound: Inbound) -> str:
    """Return the line for a message that was edited after it was answered."""
    who = f"{speaker(inbound)} " if inbound.conversation.kind == "group" else ""
    return f"[{who}edited: {unmarked(cut(inbound.text.strip(), LONGEST_EDIT))}]"


def reaction(inbound: Inbound, ours: str | None) -> str:
    """Return the line for a reaction. ``ours`` is the text of the agent's message that it is under, None for another message."""
    under = "an earlier message" if ours is None else f"your message {quoted(ours, 100)}"
    return f"[{speaker(inbound)} put {one_line(inbound.text, LONGEST_EMOJI)} under {under}]"


def speaker(inbound: Inbound) -> str:
    """Return the name of the sender, who chose it, as one short plain line."""
    return name_of(inbound.sender.name, inbound.sender.id)
