"""``/missed``: resends undelivered replies, and lists messages that may not have been answered."""

from __future__ import annotations

from typing import Final

from gateway.command_handlers.session_commands import counted
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import InboxRow
from gateway.routing.routed_message import UnreadableMessage, decode_message, words_of

MOST_NAMED: Final = 10
SHOWN: Final = 80
_UNSURE: Final = (
    "My database was damaged, so I do not know whether I answered {count}. Please send again what still needs an answer:"
)


async def bring_missed(ledger: Ledger, conversation: str) -> str:
    """Resend what a conversation missed, and return the reply. Raises StorageFailed.

    A message with unknown state is only listed: answering it again could repeat its effects.
    """
    sent, unsure = await ledger.outbox.revive_expired(conversation), await ledger.inbox.in_doubt(conversation)
    told = [f"📬 {counted(sent, 'message')} that had not reached you, or may not have."] if sent else []
    if unsure:
        told.append("\n".join([_UNSURE.format(count=counted(len(unsure), "message")), *map(_named, unsure[-MOST_NAMED:])]))
    return "\n\n".join(told) or "There are no missed replies here."


def _named(row: InboxRow) -> str:
    try:
        text = " ".join(words_of(decode_message(row)[0]).split())
    except UnreadableMessage:
        text = "(no longer readable)"
    return f"- {text if len(text) <= SHOWN else text[: SHOWN - 1].rstrip() + '…'}"
