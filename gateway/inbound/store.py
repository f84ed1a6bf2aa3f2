"""Fourth inbound step: messages get their rows in the ledger, each exactly once however often a platform delivers it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from channels.messages import Cursor
from gateway.inbound.route import NewMessage
from gateway.ledger.protocol import InboxLedger
from gateway.ledger.rows import Arrival, InboxRow
from gateway.ledger.values import clean
from gateway.routing.routed_message import ReceivedMessage, encode_message, reworded

log = logging.getLogger(__name__)


async def store(
    inbox: InboxLedger, account: str, messages: Sequence[NewMessage], cursor: Cursor | None, received_at: datetime
) -> list[tuple[InboxRow, ReceivedMessage]]:
    """Store what is new and the cursor, in one transaction; return the messages that are new, in the order of their rows.

    Raises:
        StorageFailed: nothing was stored.
    """
    arrivals = [to_arrival(one, received_at) for one in messages]
    accepted = await inbox.accept(account, arrivals, cursor)
    if accepted.renumbered:
        log.warning("%s has started to number its messages anew", account)
    by_alias: dict[str, ReceivedMessage] = {}
    for arrival, one in zip(arrivals, messages, strict=True):
        by_alias.setdefault(clean(arrival.alias), one.message)  # of two with one name the first is stored
    return [(row, by_alias[row.alias]) for row in accepted.rows]


def to_arrival(new: NewMessage, received_at: datetime) -> Arrival:
    """Encode a message for its row."""
    inbound, route, text = new.message.inbound, new.message.route, new.new_text
    return Arrival(
        key=new.key,
        alias=new.alias,
        conversation=inbound.conversation.address,
        session=route.session if route else None,
        sender=inbound.sender.id,
        payload=encode_message(inbound, new.message.actor, route, before=new.message.before, asides=new.message.context_events),
        received_at=received_at,
        message=inbound.message_id if inbound.event == "message" else None,
        takes=new.event_ids,
        aside=new.line,
        edits=None if text is None else inbound.target,
        reword=None if text is None else lambda payload: reworded(payload, text),
    )
