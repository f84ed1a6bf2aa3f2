"""Renders an outgoing message for a channel: buttons and file, or text in their place."""

from __future__ import annotations

from typing import Any

from channels.messages import Outbound
from channels.protocol import Channel
from gateway.ledger.rows import OutboxRow


def render(channel: Channel, row: OutboxRow, *, restarted: bool = False) -> Outbound:
    """Return a row in the form that its channel supports. Does blocking I/O: it checks that the file exists.

    ``restarted``: the process was restarted since an attempt that may have arrived.
    """
    shows: Any = getattr(channel, "shows", ())
    text, buttons, enclosure = row.text, row.buttons, row.enclosure
    if enclosure is not None and ("files" not in shows or not enclosure.path.is_file()):
        lost = "I cannot send files here; it is in my workspace" if "files" not in shows else "the file no longer exists"
        text = "\n\n".join(filter(None, [text, f"📎 {enclosure.name} ({lost})"]))
        enclosure = None
    if buttons and "buttons" not in shows:
        told = [button.value for button in buttons if button.value not in text]
        text = "\n\n".join(filter(None, [text, " · ".join(f"`{value}`" for value in told)]))
        buttons = ()
    return Outbound(
        key=row.key,
        conversation=row.conversation,
        text=text,
        reply_to=row.reply_to,
        buttons=buttons,
        enclosure=enclosure,
        attempt=row.attempt,
        recorded=row.recorded,
        uncertain=row.doubts > 0,
        restarted=restarted,
        turn=row.turn or "",
    )
