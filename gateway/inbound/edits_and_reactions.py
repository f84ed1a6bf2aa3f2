"""What platforms tell besides messages, in words: a changed message, an emoji, a pressed button."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from gateway.commands.table import parse
from gateway.turns.quoting import LONGEST_QUOTE, cut, name_of, one_line, quoted, unmarked

if TYPE_CHECKING:
    from channels.messages import Inbound
    from gateway.settings.messages import Reactions

LONGEST_EDIT: Final = 2000
LONGEST_EMOJI: Final = 32


class EventPolicy(Protocol):
    """What is made of them: the settings ``messages.reactions`` and ``messages.botsInARow``."""

    @property
    def reactions(self) -> Reactions:
        """What becomes of an emoji."""
        ...

    @property
    def bots_in_a_row(self) -> int:
        """How many messages of programs are heard before a person speaks."""
        ...


@dataclass(frozen=True, slots=True)
class DefaultEventPolicy:
    """The habits of a house whose settings say nothing."""

    reactions: Reactions = "context"
    bots_in_a_row: int = 4


def pressed(inbound: Inbound) -> Inbound:
    """Return a press as a message: a command as if it had been typed, anything else marked as what it is."""
    if parse(inbound.text) is not None:
        return inbound
    return replace(inbound, text=f"[pressed: {one_line(inbound.text, LONGEST_QUOTE)}]")


def edited(inbound: Inbound) -> str:
    """Tell of a message that was changed after it had been answered."""
    who = f"{speaker(inbound)} " if inbound.conversation.kind == "group" else ""
    return f"[{who}edited: {unmarked(cut(inbound.text.strip(), LONGEST_EDIT))}]"


def reaction(inbound: Inbound, ours: str | None) -> str:
    """Tell of an emoji. ``ours`` is the message of ours that it was put under, None for another."""
    under = "an earlier message" if ours is None else f"your message {quoted(ours, 100)}"
    return f"[{speaker(inbound)} put {one_line(inbound.text, LONGEST_EMOJI)} under {under}]"


def speaker(inbound: Inbound) -> str:
    """Return what to call the one who wrote: a line of their own choosing, so kept short and plain."""
    return name_of(inbound.sender.name, inbound.sender.id)
