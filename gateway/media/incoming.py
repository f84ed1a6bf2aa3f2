"""Incoming files: downloaded when the turn starts, stored in the workspace, and described to the agent."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct, field

from agent.errors import InvalidImage, WorkspaceFileError
from agent.messages import Image
from agent.models.protocol import sees_pictures
from agent.taint import FILE, Marks, fenced, random_mark, source
from agent.timing import Clock
from agent.tools.image_header import read_image_header
from agent.tools.workspace_sandbox import WorkspaceSandbox
from channels.errors import NotFetched
from channels.messages import Attachment, ChatAddress
from channels.protocol import Channel, Fetches
from gateway.media.file_types import DOCUMENTS, HTML, TEXT, format_size, is_page, media_type, safe_name
from gateway.media.pictures import PictureDescriber
from gateway.media.recordings import Recording, Transcriber, Transcript, clock_time
from gateway.routing.routed_message import RoutedMessage
from gateway.settings.message_settings import AttachmentSettings

if TYPE_CHECKING:
    from agent.context.session_context import SessionContext

log = logging.getLogger(__name__)

TRIES: Final = 3
TRY_AGAIN_AFTER: Final = 2.0
PATIENCE: Final = 120.0
"""Time-out for one file in seconds, because the answer waits for it."""
VOICE: Final = ", a voice message"
NOT_TRANSCRIBED: Final = "[it was not transcribed]"
PICTURE_BYTES: Final = 5_000_000
"""Total bytes of pictures in one message, because model requests have a maximum size."""


class StoredFiles(Struct):
    """The result for a message's files: a text line for each (with quoted text), the pictures for the model, and the taint of both.

    ``spoken`` are the recordings that are the sender's own words, and their texts; ``echoes`` are texts to show in the chat.
    """

    lines: list[str] = field(default_factory=list)
    pictures: list[Image] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    spoken: list[tuple[str, str]] = field(default_factory=list)
    echoes: list[str] = field(default_factory=list)
    marks: Marks = random_mark
    size: int = 0
    shown: int = 0


class IncomingFiles:
    """Downloads files. ``folder``: for unfinished downloads. ``settings``: returns the current settings.

    ``patience``: the time-out for one file in seconds. ``transcriber`` turns recordings into text, ``describer`` pictures for
    models that are not shown any.
    """

    def __init__(
        self,
        channel: Callable[[ChatAddress], Channel],
        folder: Path,
        clock: Clock,
        settings: Callable[[ChatAddress], AttachmentSettings],
        *,
        patience: float = PATIENCE,
        transcriber: Transcriber | None = None,
        describer: PictureDescriber | None = None,
    ) -> None:
        self._describer = describer
        self._transcriber = transcriber
        self._channel = channel
        self._folder = folder
        self._clock = clock
        self._settings = settings
        self._patience = patience

    async def take(self, conversation: SessionContext, arrived: RoutedMessage, marks: Marks = random_mark) -> StoredFiles:
        """Download a message's files; text in them is fenced. Files from an attempt before a crash are reused.

        Errors are reported in the result, not raised.
        """
        taken, settings = StoredFiles(), self._settings(arrived.inbound.conversation)
        attachments = arrived.inbound.attachments
        taken.marks = marks
        for number, attachment in enumerate(attachments[: settings.max_count], 1):
            try:
                path, data = await self._one(
                    conversation, arrived, number, min(settings.total_bytes - taken.size, settings.max_bytes)
                )
            except (NotFetched, WorkspaceFileError) as trouble:
                log.warning("a file of message %s was not downloaded: %s", arrived.row.uid, trouble)
                taken.lines.append(f"{FILE}{_called(attachment)} could not be downloaded: {trouble}]")
            else:
                taken.size += len(data)
                heard = await self._heard(conversation, arrived, data, attachment)
                if heard is not None and heard.text and attachment.recorded:
                    _take_words(taken, heard, data)
                    continue
                before = len(taken.pictures)
                await asyncio.to_thread(_tell, taken, path, data, attachment, settings.inline_chars)
                for picture in taken.pictures[before:]:
                    await self._describe(taken, conversation, arrived, picture, _called(attachment))
                if heard is not None:
                    _tell_of_recording(taken, heard, _called(attachment))
            taken.sources.append(source("file", _called(attachment)))
        if left := attachments[settings.max_count :]:
            names = ", ".join(_called(attachment) for attachment in left[:5])
            taken.sources += [source("file", _called(attachment)) for attachment in left]
            taken.lines.append(
                f"[{len(left)} more files were not downloaded (at most {settings.max_count} per message): {names}]"
            )
        return taken

    async def named(self, sandbox: WorkspaceSandbox, arrived: RoutedMessage) -> list[str]:
        """Return what names the files of a message that is not worked on any more: where they lie, as far as they were downloaded."""
        attachments, folder = arrived.inbound.attachments, arrived.route.audience.inbox
        largest = self._settings(arrived.inbound.conversation).max_bytes
        lines, missing = list[str](), list[str]()
        for number, attachment in enumerate(attachments, 1):
            try:
                there = await asyncio.to_thread(_found, sandbox, folder, f"{arrived.row.uid}-{number}-", largest)
            except WorkspaceFileError as trouble:
                log.warning("a file of message %s could not be looked at: %s", arrived.row.uid, trouble)
                there = None
            if there is None:
                missing.append(f"{_called(attachment)}{VOICE if attachment.kind == 'voice' else ''}")
            else:
                path, data = there
                lines.append(_line_of(path, data, attachment))
                lines += [NOT_TRANSCRIBED] * (attachment.recorded or attachment.kind == "voice")
        return lines + [f"[with files that were not downloaded: {', '.join(missing)}]"] * bool(missing)

    async def _heard(
        self, conversation: SessionContext, arrived: RoutedMessage, data: bytes, attachment: Attachment
    ) -> Transcript | None:
        """Return what is said in a recording; None for other files, and where recordings are not transcribed."""
        from gateway.media.audio_length import seconds_of

        kind = media_type(data)
        is_recording = kind.startswith("audio/") or (attachment.kind == "voice" and kind.startswith("video/"))
        if self._transcriber is None:
            return None
        if not is_recording:
            return Transcript(trouble="it is no recording of a kind that is known") if attachment.kind == "voice" else None
        return await self._transcriber.transcribe(
            Recording(
                data=data,
                media_type=kind,
                seconds=await asyncio.to_thread(seconds_of, data),
                agent=arrived.route.agent,
                session=conversation.key,
            )
        )

    async def _describe(
        self, taken: StoredFiles, conversation: SessionContext, arrived: RoutedMessage, picture: Image, name: str
    ) -> None:
        """Add what is seen in a picture, for a model that is not shown it."""
        if self._describer is None or sees_pictures(conversation.model):
            return
        found = await self._describer.describe(picture, agent=arrived.route.agent, session=conversation.key)
        if found is not None and found.text:
            taken.lines.append(f"[what another model sees in it]\n{fenced(found.text, [source('file', name)], taken.marks)}")
        elif found is not None:
            taken.lines.append(f"[it could not be described: {found.trouble}]")

    async def _one(
        self, conversation: SessionContext, arrived: RoutedMessage, number: int, limit: int
    ) -> tuple[PurePosixPath, bytes]:
        """Return a file's path and content. Raises NotFetched, WorkspaceFileError."""
        attachment = arrived.inbound.attachments[number - 1]
        enclosure, folder = conversation.workspace.sandbox, conversation.audience.inbox
        head = f"{arrived.row.uid}-{number}-"
        largest = self._settings(arrived.inbound.conversation).max_bytes
        there = await asyncio.to_thread(_found, enclosure, folder, head, largest)
        if there is not None:
            return there
        if limit <= 0 or (attachment.size or 0) > limit:
            raise NotFetched(f"it is too large ({format_size(attachment.size or 0)}; {format_size(max(0, limit))} allowed)")
        data = await self._fetched(arrived.inbound.conversation, attachment, limit)
        path = folder / (head + safe_name(attachment.name, media_type(data), attachment.kind))
        await asyncio.to_thread(enclosure.create, path, data)
        return path, data

    async def _fetched(self, place: ChatAddress, attachment: Attachment, limit: int) -> bytes:
        channel: Any = self._channel(place)
        if not hasattr(channel, "fetch"):
            raise NotFetched("this channel cannot download files")
        for attempt in range(1, TRIES + 1):
            try:
                return await self._fetched_once(cast("Fetches", channel), attachment, limit)
            except NotFetched as trouble:
                if trouble.permanent or attempt == TRIES:
                    raise
            await self._clock.sleep(TRY_AGAIN_AFTER * attempt)
        raise NotFetched("the download failed")

    async def _fetched_once(self, channel: Fetches, attachment: Attachment, limit: int) -> bytes:
        await asyncio.to_thread(self._folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        path = self._folder / secrets.token_hex(8)
        try:
            async with asyncio.timeout(self._patience):
                await channel.fetch(attachment, path, limit)
            return await asyncio.to_thread(_read, path, limit)
        except TimeoutError as error:
            raise NotFetched(f"it did not arrive within {self._patience:g} seconds") from error
        except OSError as error:
            raise NotFetched(f"it could not be stored ({error.strerror})", permanent=False) from error
        except NotFetched:
            raise
        except Exception as error:
            # whatever is wrong with a file or with the channel's way of having it, the message itself is to be answered
            log.exception("unexpected error while a file was downloaded")
            raise NotFetched(f"an unexpected error occurred ({type(error).__name__})") from error
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)


def _read(path: Path, limit: int) -> bytes:
    """Read a file that a channel saved. Raises NotFetched if it is larger than allowed."""
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise NotFetched(f"it is too large (more than {format_size(limit)})")
    return data


def _found(enclosure: WorkspaceSandbox, folder: PurePosixPath, head: str, limit: int) -> tuple[PurePosixPath, bytes] | None:
    """Return a file that an earlier attempt downloaded."""
    if enclosure.kind(folder) != "folder":
        return None
    name = next((entry.name for entry in enclosure.scan(folder) if entry.name.startswith(head) and entry.kind == "file"), None)
    if name is None:
        return None
    return folder / name, enclosure.read(folder / name, limit=limit).data


def _tell(taken: StoredFiles, path: PurePosixPath, data: bytes, attachment: Attachment, inline: int) -> None:
    """Describe a file; add it as a picture, or quote its text."""
    from agent.tools.image_resize import resized

    taken.lines.append(_line_of(path, data, attachment))
    if media_type(data) == TEXT and not is_page(data, path.name):
        _quote(taken, data, inline, source("file", _called(attachment)))
        return
    if read_image_header(data) is None:
        return
    try:
        image = resized(data)
    except InvalidImage as refused:
        taken.lines.append(f"[it cannot be shown: {refused}]")
        return
    if taken.shown + len(image.data) > PICTURE_BYTES:
        taken.lines.append("[it cannot be shown: there are too many pictures in one message]")
        return
    taken.shown += len(image.data)
    taken.pictures.append(image)


def _line_of(path: PurePosixPath, data: bytes, attachment: Attachment) -> str:
    page = is_page(data, path.name)
    kind = HTML if page else media_type(data)
    how = "; read shows its text" if kind in DOCUMENTS or page else ""
    return f"{FILE}{path} {format_size(len(data))} {kind}{VOICE if attachment.kind == 'voice' else ''}{how}]"


def _take_words(taken: StoredFiles, heard: Transcript, data: bytes) -> None:
    """Take what the sender spoke as the sender's words."""
    from gateway.media.audio_length import seconds_of

    length = clock_time(seconds_of(data))
    taken.spoken.append((f"[voice message{f', {length}' if length else ''}]", heard.text))
    if heard.echo:
        taken.echoes.append(heard.text)


def _tell_of_recording(taken: StoredFiles, heard: Transcript, name: str) -> None:
    """Add what somebody says in a recording, or why that is not known."""
    if heard.text:
        taken.lines.append(f"[what is said in it]\n{fenced(heard.text, [source('file', name)], taken.marks)}")
    else:
        taken.lines.append(f"[it could not be transcribed: {heard.trouble}]")


def _quote(taken: StoredFiles, data: bytes, inline: int, name: str) -> None:
    from agent.tools.web.page_text import decoded_as, guess_told

    if not inline:
        return
    text, guess = decoded_as(data, "", html=False)
    text = text.removeprefix("\ufeff")
    told = f"\n[{guess_told(guess)}]" if guess else ""
    cut = "" if len(text) <= inline else f"\n[cut: {len(text):,} characters in all; read the file for the rest]"
    taken.lines.append(f"{fenced(text[:inline].rstrip(), [name], taken.marks)}{cut}{told}")


def _called(attachment: Attachment) -> str:
    return safe_name(attachment.name, attachment.media_type, attachment.kind)
