"""Files that came with a message: fetched when its turn begins, kept in the workspace, and told to the agent."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from agent.errors import InvalidImage, WorkspaceFileError
from agent.tools.image_header import read_image_header
from agent.tools.image_resize import resized
from channels.errors import NotFetched
from gateway.media.file_names import safe_name
from gateway.media.file_types import TEXT, format_size, media_type

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path, PurePosixPath

    from agent.context.session_context import SessionContext
    from agent.messages import Image
    from agent.timing import Clock
    from agent.tools.workspace_sandbox import WorkspaceSandbox
    from channels.messages import Attachment, ChatAddress
    from channels.protocol import Channel, Fetches
    from gateway.routing.routed_message import RoutedMessage
    from gateway.settings.media import AttachmentSettings

log = logging.getLogger(__name__)

TRIES: Final = 3
TRY_AGAIN_AFTER: Final = 2.0
PATIENCE: Final = 120.0
"""Seconds that one file may take: the answer waits for it."""
PICTURE_BYTES: Final = 5_000_000
"""Of pictures shown with one message, in all: requests have a largest size too."""


@dataclass(slots=True)
class StoredFiles:
    """What became of a message's files: a line for each (with what is quoted of it), and the pictures to look at."""

    lines: list[str] = field(default_factory=list)
    pictures: list[Image] = field(default_factory=list)
    size: int = 0
    shown: int = 0


class IncomingFiles:
    """Takes files in. ``folder`` is a place of our own where they are put while they come; ``settings`` gives those in force.

    A file may take ``patience`` seconds.
    """

    def __init__(
        self,
        channel: Callable[[ChatAddress], Channel],
        folder: Path,
        clock: Clock,
        settings: Callable[[ChatAddress], AttachmentSettings],
        *,
        patience: float = PATIENCE,
    ) -> None:
        self._channel = channel
        self._folder = folder
        self._clock = clock
        self._settings = settings
        self._patience = patience

    async def take(self, conversation: SessionContext, arrived: RoutedMessage) -> StoredFiles:
        """Take a message's files in. Run again after a crash, it finds what is there already. Nothing that goes wrong is raised."""
        taken, settings = StoredFiles(), self._settings(arrived.inbound.conversation)
        attachments = arrived.inbound.attachments
        for number, attachment in enumerate(attachments[: settings.max_count], 1):
            try:
                path, data = await self._one(
                    conversation, arrived, number, min(settings.total_bytes - taken.size, settings.max_bytes)
                )
            except (NotFetched, WorkspaceFileError) as trouble:
                log.warning("a file of message %s was not taken: %s", arrived.row.uid, trouble)
                taken.lines.append(f"[file: {_called(attachment)} could not be taken: {trouble}]")
            else:
                taken.size += len(data)
                await asyncio.to_thread(_tell, taken, path, data, attachment, settings.inline_chars)
        if left := attachments[settings.max_count :]:
            names = ", ".join(_called(attachment) for attachment in left[:5])
            taken.lines.append(f"[{len(left)} more files were not taken (at most {settings.max_count} a message): {names}]")
        return taken

    async def _one(
        self, conversation: SessionContext, arrived: RoutedMessage, number: int, limit: int
    ) -> tuple[PurePosixPath, bytes]:
        """Return where a file lies and what is in it. Raises NotFetched, WorkspaceFileError."""
        attachment = arrived.inbound.attachments[number - 1]
        enclosure, folder = conversation.workspace.sandbox, conversation.audience.inbox
        head = f"{arrived.row.uid}-{number}-"
        largest = self._settings(arrived.inbound.conversation).max_bytes
        there = await asyncio.to_thread(_found, enclosure, folder, head, largest)
        if there is not None:
            return there
        if limit <= 0 or (attachment.size or 0) > limit:
            raise NotFetched(
                f"it is too large ({format_size(attachment.size or 0)}; {format_size(max(0, limit))} are left for it)"
            )
        data = await self._fetched(arrived.inbound.conversation, attachment, limit)
        path = folder / (head + safe_name(attachment.name, media_type(data), attachment.kind))
        await asyncio.to_thread(enclosure.create, path, data)
        return path, data

    async def _fetched(self, place: ChatAddress, attachment: Attachment, limit: int) -> bytes:
        channel: Any = self._channel(place)
        if not hasattr(channel, "fetch"):
            raise NotFetched("this channel cannot hand files over")
        for attempt in range(1, TRIES + 1):
            try:
                return await self._fetched_once(cast("Fetches", channel), attachment, limit)
            except NotFetched as trouble:
                if trouble.permanent or attempt == TRIES:
                    raise
            await self._clock.sleep(TRY_AGAIN_AFTER * attempt)
        raise NotFetched("it could not be had")

    async def _fetched_once(self, channel: Fetches, attachment: Attachment, limit: int) -> bytes:
        await asyncio.to_thread(self._folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        path = self._folder / secrets.token_hex(8)
        try:
            async with asyncio.timeout(self._patience):
                await channel.fetch(attachment, path, limit)
            return await asyncio.to_thread(_read, path, limit)
        except TimeoutError as error:
            raise NotFetched(f"it did not come within {self._patience:g} seconds") from error
        except OSError as error:
            raise NotFetched(f"it could not be kept ({error.strerror})", permanent=False) from error
        except NotFetched:
            raise
        except Exception as error:
            # whatever is wrong with a file or with the channel's way of having it, the message itself is to be answered
            log.exception("a defect while a file was fetched")
            raise NotFetched(f"something failed over it ({type(error).__name__})") from error
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)


def _read(path: Path, limit: int) -> bytes:
    """Read what a channel saved. Raises NotFetched when that is more than it was allowed, whatever it said."""
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise NotFetched(f"it is too large (more than {format_size(limit)})")
    return data


def _found(enclosure: WorkspaceSandbox, folder: PurePosixPath, head: str, limit: int) -> tuple[PurePosixPath, bytes] | None:
    """Return a file that an earlier attempt has taken in."""
    if enclosure.kind(folder) != "folder":
        return None
    name = next((entry.name for entry in enclosure.scan(folder) if entry.name.startswith(head) and entry.kind == "file"), None)
    if name is None:
        return None
    return folder / name, enclosure.read(folder / name, limit=limit).data


def _tell(taken: StoredFiles, path: PurePosixPath, data: bytes, attachment: Attachment, inline: int) -> None:
    """Say what a file is, show it if it is a picture, quote it if it is text."""
    kind = media_type(data)
    voice = ", a voice message" if attachment.kind == "voice" else ""
    taken.lines.append(f"[file: {path} {format_size(len(data))} {kind}{voice}]")
    if kind == TEXT:
        _quote(taken, path, data, inline)
        return
    if read_image_header(data) is None:
        return
    try:
        image = resized(data)
    except InvalidImage as refused:
        taken.lines.append(f"[it cannot be looked at: {refused}]")
        return
    if taken.shown + len(image.data) > PICTURE_BYTES:
        taken.lines.append("[it cannot be looked at: there are too many pictures in one message]")
        return
    taken.shown += len(image.data)
    taken.pictures.append(image)


def _quote(taken: StoredFiles, path: PurePosixPath, data: bytes, inline: int) -> None:
    if not inline:
        return
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    fence = hashlib.sha256(f"{path}\0".encode() + data).hexdigest()[:12]
    cut = "" if len(text) <= inline else f"\n[cut: {len(text):,} characters in all; read the file for the rest]"
    taken.lines.append(f"<file {fence}>\n{text[:inline].rstrip()}\n</file {fence}>{cut}")


def _called(attachment: Attachment) -> str:
    return safe_name(attachment.name, attachment.media_type, attachment.kind)
