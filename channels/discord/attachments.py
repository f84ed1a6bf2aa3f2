"""Attachments of a Discord message, and the handle by which they are downloaded while the message exists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from channels.discord.settings import OFFICIAL
from channels.errors import NotFetched
from channels.messages import Attachment, AttachmentKind

VOICE = 1 << 13
HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
_PARTS = 4


@dataclass(frozen=True, slots=True)
class Handle:
    """A file of a message and its URL. Discord's URLs expire after a day; fetching the message again gives a new one."""

    channel: str
    message: str
    file: str
    address: str

    def written(self) -> str:
        """Return it as the handle of an attachment."""
        return f"{self.channel} {self.message} {self.file} {self.address}"

    @classmethod
    def read(cls, handle: str) -> Handle:
        """Parse a handle. Raises ``NotFetched`` if it is none."""
        parts = handle.split(" ")
        if len(parts) != _PARTS or not all(part.isdecimal() for part in parts[:-1]):
            raise NotFetched(f"{handle[:80]!r} is not a Discord file")
        return cls(*parts)


def attachments_of(message: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return the files of a message, or of a message that it forwards."""
    voice = bool(message.get("flags", 0) & VOICE)
    found = []
    for one in files_of(message):
        handle = Handle(str(message["channel_id"]), str(message["id"]), str(one["id"]), str(one.get("url") or ""))
        found.append(
            Attachment(
                kind=_kind(str(one.get("content_type") or ""), voice=voice),
                handle=handle.written(),
                name=str(one.get("filename") or ""),
                media_type=str(one.get("content_type") or "").partition(";")[0].strip(),
                size=int(one["size"]) if "size" in one else None,
            )
        )
    return tuple(found)


def files_of(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the files as Discord describes them."""
    yield from message.get("attachments") or ()
    for snapshot in message.get("message_snapshots") or ():
        yield from (snapshot.get("message") or {}).get("attachments") or ()


def served_by_discord(address: str, api_root: str) -> bool:
    """Return whether an address is one from which Discord (or the server that the settings name) gives out files."""
    try:
        asked, root = urlsplit(address), urlsplit(api_root)
        plain = asked.port is None
    except ValueError:
        return False
    if asked.scheme == "https" and asked.hostname in HOSTS and plain:
        return True
    return api_root != OFFICIAL and (asked.scheme, asked.netloc) == (root.scheme, root.netloc)


def _kind(media_type: str, *, voice: bool) -> AttachmentKind:
    match media_type.partition("/")[0]:
        case "image":
            return "image"
        case "video":
            return "video"
        case "audio":
            return "voice" if voice else "audio"
    return "document"
