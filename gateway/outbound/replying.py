"""Turns an agent's reply into outbox chunks: reply tags are read and removed, buttons are added.

``render`` makes a row of the outbox into what its channel can send.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from agent import no_reply
from agent.messages import FailureKind
from channels.common.chunking import as_written, utf16_length
from channels.messages import Button, Outbound, OutboundFile
from channels.protocol import Channel
from gateway.ledger.rows import NewOutbound, OutboxRow
from gateway.logs.secret_filter import SecretFilter
from gateway.routing.access import Actor
from gateway.routing.routed_message import RoutedMessage

Knows = Callable[[str, str], Awaitable[bool]]
"""Returns whether a message id belongs to the conversation with an address."""

log = logging.getLogger(__name__)

QUICK_CHARS = 600
"""Texts up to this many characters are split in the event loop; longer ones in a thread, because parsing them takes time."""
PLAIN_CHARS = 1500
"""Length that all platforms accept, in characters; used if a channel cannot split a text."""


async def replies(
    channel: Channel,
    arrived: RoutedMessage,
    text: str,
    *,
    knows: Knows | None = None,
    buttons: Sequence[Button] = (),
    continued: bool = False,
    secret_filter: SecretFilter | None = None,
    before: str = "",
) -> list[NewOutbound]:
    """Split a reply into chunks. If the channel fails to split it, it is sent as plain text.

    The message it replies to is named by a tag in the text, or follows from the channel's ``reply_to_mode``. Buttons are added to
    the last chunk. ``continued``: a part of the reply was sent already; ``before`` is what was sent of it.
    """
    place = arrived.inbound.conversation
    said = untagged(
        text if secret_filter is None else secret_filter.text(text, place.address, before=before)
    )  # before it is cut, which could cut a secret in two
    pieces = _pieces(channel, said.text) if len(text) < QUICK_CHARS else await asyncio.to_thread(_pieces, channel, said.text)
    mode = getattr(channel, "reply_to_mode", "off") if place.kind == "group" else "off"
    usual = arrived.platform_id if mode != "off" else None
    rest = usual if mode == "all" else None
    named = await _target(arrived, said, knows) if said.current or said.target is not None else None
    first = named or (rest if continued else usual)
    rows = [NewOutbound(conversation=place, text=piece, reply_to=rest if n else first) for n, piece in enumerate(pieces)]
    return [*rows[:-1], replace(rows[-1], buttons=tuple(buttons))] if rows and buttons else rows


def prefix_of(response_prefix: str | None, name: str, *, several: bool) -> str:
    """Return what an answer of the agent called ``name`` begins with. ``several``: other agents answer in the conversation, too."""
    if response_prefix is None:
        return f"**{name}:** " if several else ""
    if response_prefix.strip() == "auto":
        return f"[{name}] "
    prefix = response_prefix.replace("{agent}", name)
    return prefix if not prefix or prefix[-1].isspace() else f"{prefix} "


def _pieces(channel: Channel, text: str) -> list[str]:
    try:
        return channel.chunks(text)
    except Exception:  # an answer is owed: whatever fails in laying it out, its words are said
        log.exception("%s could not split a reply of %d characters; sending it as plain text", channel.name, len(text))
        return as_written(text, PLAIN_CHARS, utf16_length)


async def _target(arrived: RoutedMessage, said: Tagged, knows: Knows | None) -> str | None:
    """Return the message that a tag names, if it belongs to this conversation."""
    if said.current:
        return arrived.platform_id
    if said.target is None or knows is None:
        return None
    return said.target if await knows(arrived.inbound.conversation.address, said.target) else None


_TAG: Final = re.compile(
    r"\[\[\s{0,20}(?:reply_to_current|reply_to\s{0,20}:\s{0,20}(?P<id>[^\[\]\r\n]{1,120}?))\s{0,20}\]\][ \t]?", re.IGNORECASE
)
LONGEST: Final = 160
"""Maximum length of a tag; longer unfinished text is not one."""
_WORD: Final = "reply_to"


class Tagged(Struct, frozen=True):
    """A reply without its tags. ``current`` and ``target`` come from the last tag."""

    text: str
    current: bool = False
    target: str | None = None


def untagged(text: str) -> Tagged:
    """Remove all tags from a finished reply."""
    found = list(_TAG.finditer(text))
    if not found:
        return Tagged(text)
    bare = text
    while (shorter := _TAG.sub("", bare)) != bare:  # what closes around a tag that is gone is none that anybody should see
        bare = shorter
    target = found[-1]["id"]
    bare = no_reply.without_no_reply(bare)  # a tag must not hide that nothing is to be said
    return Tagged(bare.strip("\n") if bare.strip() else "", current=target is None, target=target)


def shown(text: str) -> str:
    """Return the part of an unfinished reply that can be shown: without tags, and without the possible start of a tag or of NO_REPLY."""
    bare = untagged(text).text
    if bare != text:
        bare = no_reply.NoReplyFilter().feed(bare)
    while "[" in bare and (begun := _beginning(bare)) is not None:
        bare = bare[:begun]
    return bare


def may_end(text: str) -> Callable[[int], bool]:
    """Return a predicate: whether an unfinished reply may be split at an index, which is not inside a (possible) tag."""
    spans = [match.span() for match in _TAG.finditer(text)]
    begun = _beginning(text)
    end = len(text) if begun is None else begun
    return lambda place: place <= end and not any(start < place < stop for start, stop in spans)


def _beginning(text: str) -> int | None:
    """Return the index where an unfinished tag begins."""
    for at in range(max(0, len(text) - LONGEST), len(text)):
        if text[at] == "[" and _may_become_tag(text[at:]):
            return at
    return None


def _may_become_tag(tail: str) -> bool:
    if tail == "[":
        return True
    if not tail.startswith("[[") or "\n" in tail or "]]" in tail:
        return False
    word = tail[2:].lstrip().casefold()
    return word.startswith(_WORD) or _WORD.startswith(word)


_ABOUT_MODELS: Final = frozenset({"model", "models"})
MOST: Final = 8
LONGEST_VALUE: Final = 60
"""Maximum UTF-8 bytes of a button's value that all platforms support."""

_SWITCHES: Final = {
    "verbose": (("On", "on"), ("Off", "off")),
    "think": (("Off", "off"), ("Low", "low"), ("Medium", "medium"), ("High", "high")),
}
_UNDO: Final = Button(label="↩️ Undo", value="/undo")
_ONCE: Final = Button(label="💸 Allow once", value="/budget once")


def after_command(name: str, argument: str, models: Sequence[str] = ()) -> tuple[Button, ...]:
    """Return the buttons for a command's reply. ``models`` are those named in the settings."""
    if name in {"new", "reset"}:
        return (_UNDO,)
    if argument:
        return ()
    if name in _ABOUT_MODELS:
        offered = [Button(label=model.rpartition("/")[2], value=f"/model {model}") for model in models]
        return tuple(one for one in offered if len(one.value.encode()) <= LONGEST_VALUE)[:MOST]
    return tuple(Button(label=label, value=f"/{name} {value}") for label, value in _SWITCHES.get(name, ()))


async def offered(name: str, argument: str, models: Callable[[], Awaitable[Sequence[str]]]) -> tuple[Button, ...]:
    """Return the same; ``models`` is called only if needed."""
    return after_command(name, argument, await models() if name in _ABOUT_MODELS and not argument else ())


def after_turn(failure: FailureKind | None, reason: str, actor: Actor) -> tuple[Button, ...]:
    """Return the buttons for an answer: if a budget blocked it, the owner can allow one message."""
    return (_ONCE,) if failure == "billing" and "/budget once" in reason and actor.owner else ()


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
        shown = [] if all(value in text for value in values) else values  # all of them: a part of the choices would mislead
        text = "\n\n".join(filter(None, [text, " · ".join(f"`{value}`" for value in shown)]))
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
