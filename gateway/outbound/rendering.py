"""Makes a row of the outbox into what its channel can send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from channels.messages import Outbound, OutboundFile
from channels.protocol import Channel
from gateway.ledger.rows import OutboxRow


def without_secrets(outbound: Outbound, redacted: Callable[[str], str]) -> Outbound:
    """Return a message whose text and captions were redacted."""
    file = outbound.enclosure
    if file is not None and file.album:
        file = replace(file, album=tuple(replace(one, caption=redacted(one.caption)) for one in file.album))
    return replace(outbound, text=redacted(outbound.text), enclosure=file)


def _files_shown(text: str, file: OutboundFile, *, files: bool, albums: bool) -> tuple[str, OutboundFile | None]:
    """Return the text and what is sent of its files: those that are not sent are named in the text, with their captions."""
    lost = "I cannot send files here; it is in my workspace" if not files else "the file no longer exists"
    there = [one for one in (replace(file, album=()), *file.album) if files and one.path.is_file()]
    if not albums:
        there = there[:1]
    gone = [one for one in (file, *file.album) if one.path not in {found.path for found in there}]
    lines = [part for one in gone for part in (one.caption, f"📎 {one.name} ({lost})")]
    if not there:
        return "\n\n".join(filter(None, [text, *lines])), None
    first, *others = there
    own = [text, first.caption, *lines] if first.path != file.path else [text, *lines]
    return "\n\n".join(filter(None, own)), replace(first, caption="", album=tuple(others))


def render(channel: Channel, row: OutboxRow, *, restarted: bool = False) -> Outbound:
    """Return a row in the form that its channel supports. Does blocking I/O: it checks that the file exists.

    ``restarted``: the process was restarted since an attempt that may have arrived.
    """
    shows: Any = getattr(channel, "shows", ())
    text, buttons, enclosure = row.text, row.buttons, row.enclosure
    if enclosure is not None:
        text, enclosure = _files_shown(text, enclosure, files="files" in shows, albums=hasattr(channel, "album_kind"))
    if buttons and "buttons" not in shows:
        values = [button.value for button in buttons]
        told = [] if all(value in text for value in values) else values  # all of them: a part of the choices would mislead
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
