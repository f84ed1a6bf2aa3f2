"""What ``/missed`` brings: replies that did not arrive, and the names of messages that were perhaps not answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.command_handlers.session_commands import counted
from gateway.routing.routed_message import UnreadableMessage, decode_message, words_of

if TYPE_CHECKING:
    from gateway.ledger.protocol import Ledger
    from gateway.ledger.rows import InboxRow

MOST_NAMED: Final = 10
SHOWN: Final = 80
_UNSURE: Final = "My records were damaged, so I do not know whether I answered {count}. Say again what still needs an answer:"


async def bring_missed(ledger: Ledger, conversation: str) -> str:
    """Send what a conversation missed, and return what it is told. Raises StorageFailed.

    A message in doubt is named only: answering it once more could do once more what it asked for.
    """
    sent, unsure = await ledger.outbox.revive_expired(conversation), await ledger.inbox.in_doubt(conversation)
    told = [f"📬 {counted(sent, 'message')} that had not reached you, or may not have."] if sent else []
    if unsure:
        told.append("\n".join([_UNSURE.format(count=counted(len(unsure), "message")), *map(_named, unsure[-MOST_NAMED:])]))
    return "\n\n".join(told) or "Nothing was missed here."


def _named(row: InboxRow) -> str:
    try:
        text = " ".join(words_of(decode_message(row)[0]).split())
    except UnreadableMessage:
        text = "(it cannot be read any more)"
    return f"- {text if len(text) <= SHOWN else text[: SHOWN - 1].rstrip() + '…'}"
