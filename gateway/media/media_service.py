"""Stores incoming and outgoing files and deletes old ones."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Final

from agent.errors import WorkspaceFileError
from agent.timing import Clock
from agent.tools.workspace_sandbox import Stamp, WorkspaceSandbox
from channels.messages import ChatAddress
from channels.protocol import Channel
from gateway.base.errors import StorageFailed
from gateway.ledger.outbox_rows import OutboxLedger
from gateway.ledger.rows import NewOutbound
from gateway.media.incoming import IncomingFiles
from gateway.media.outgoing import OutgoingFiles, gathered
from gateway.media.pictures import PictureDescriber
from gateway.media.recordings import Transcriber
from gateway.settings.message_settings import AttachmentSettings
from memory.audience import INBOX

log = logging.getLogger(__name__)


TURNS: Final = 1000
"""Maximum number of turns whose reply destination is remembered; more than ever run at once."""


class MediaService:
    """The media service. ``state``: the state folder. ``settings``: returns the current settings.

    ``largest`` returns the maximum file size of a conversation in bytes. ``withheld`` says whether a file may not be sent.
    ``transcriber`` turns recordings into text, ``describer`` pictures for models that are not shown any.
    """

    def __init__(
        self,
        state: Path,
        *,
        outbox: OutboxLedger,
        clock: Clock,
        channel: Callable[[ChatAddress], Channel],
        settings: Callable[[], AttachmentSettings],
        largest: Callable[[ChatAddress], int | None] = lambda _place: None,
        withheld: Callable[[str, bytes], bool] = lambda _name, _data: False,
        transcriber: Transcriber | None = None,
        describer: PictureDescriber | None = None,
    ) -> None:
        self._outbox = outbox
        self._channel = channel
        self._clock = clock
        self._settings = settings
        self._largest = largest
        self._incoming = state / "incoming"
        self.intake = IncomingFiles(channel, self._incoming, clock, self._at, transcriber=transcriber, describer=describer)
        self.outgoing = OutgoingFiles(state / "media", settings, withheld, self._of_turn)
        self._places: dict[str, ChatAddress] = {}

    def begin(self, turn: str, place: ChatAddress) -> None:
        """Remember the destination of a turn's files."""
        while len(self._places) >= TURNS:
            del self._places[next(iter(self._places))]
        self._places[turn] = place

    def _of_turn(self, turn: str) -> AttachmentSettings:
        """Return the settings for the files of a turn."""
        place = self._places.get(turn)
        return self._settings() if place is None else self._at(place)

    def _at(self, place: ChatAddress) -> AttachmentSettings:
        """Return the settings for a conversation."""
        settings, largest = self._settings(), self._largest(place)
        if largest is None:
            return settings
        return settings.model_copy(update={"max_bytes": largest, "total_bytes": max(settings.total_bytes, largest)})

    async def enclosed(self, turn: str, place: ChatAddress) -> list[NewOutbound]:
        """Return the files that go out behind the reply of a turn: each a message of its own, or several as one where the channel can."""
        known = self.outgoing.turns
        if known is not None and turn not in known:
            return []
        waiting = await asyncio.to_thread(self.outgoing.of, turn)
        together = gathered(waiting, self._channel(place))
        return [NewOutbound(conversation=place, text=one.caption, enclosure=one.enclosure) for one in together]

    async def delivered(self, path: Path) -> None:
        """Throw away the copy of a file that has arrived."""
        await asyncio.to_thread(self.outgoing.let_go, path)

    async def sweep(self, workspaces: Iterable[WorkspaceSandbox]) -> None:
        """Throw away what is too old, or belongs to nothing any more."""
        now, settings = self._clock.now(), self._settings()
        try:
            kept = await self._outbox.files()
            await asyncio.to_thread(self.outgoing.sweep, kept, now)
            await asyncio.to_thread(sweep_incoming, self._incoming, now)
            for enclosure in workspaces:
                if gone := await asyncio.to_thread(sweep_inboxes, enclosure, settings, now):
                    log.info("%d old files were removed from the inbox folders of %s", gone, enclosure.root)
        except (OSError, WorkspaceFileError, StorageFailed) as error:
            log.warning("old files could not be swept: %s", error)


_OURS: Final = re.compile(r"[0-9a-f]{16}-[0-9]+-.+")
"""File names that ``gateway.media.incoming`` creates; no other file is deleted."""
_LEFT_AFTER: Final = timedelta(days=1)


def sweep_inboxes(enclosure: WorkspaceSandbox, settings: AttachmentSettings, now: datetime) -> int:
    """Delete expired files, then the oldest while the total size is too large; return how many. Does blocking I/O."""
    found = sorted((stamp.modified_ns, str(path), stamp.size) for path, stamp in _received(enclosure))
    held, gone = sum(size for _, _, size in found), 0
    oldest = (now - timedelta(days=settings.keep_days)).timestamp() * 1e9 if settings.keep_days else 0
    for modified, path, size in found:
        if modified >= oldest and (not settings.keep_bytes or held <= settings.keep_bytes):
            break
        if _removed(enclosure, PurePosixPath(path), size):
            held, gone = held - size, gone + 1
    return gone


def sweep_incoming(folder: Path, now: datetime) -> None:
    """Delete unfinished downloads of an earlier process. Does blocking I/O."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if now.timestamp() - path.stat().st_mtime > _LEFT_AFTER.total_seconds():
            path.unlink(missing_ok=True)


def _received(enclosure: WorkspaceSandbox) -> Iterator[tuple[PurePosixPath, Stamp]]:
    for folder in _inboxes(enclosure):
        for entry in enclosure.scan(folder):
            if entry.kind == "file" and _OURS.fullmatch(entry.name):
                stamp = enclosure.stamp(folder / entry.name)
                if stamp is not None:
                    yield folder / entry.name, stamp


def _inboxes(enclosure: WorkspaceSandbox) -> Iterator[PurePosixPath]:
    parents = [PurePosixPath()]
    for kind in ("groups", "peers"):
        above = PurePosixPath("memory", kind)
        if enclosure.kind(above) == "folder":
            parents += [above / entry.name for entry in enclosure.scan(above) if entry.kind == "folder"]
    yield from (parent / INBOX for parent in parents if enclosure.kind(parent / INBOX) == "folder")


def _removed(enclosure: WorkspaceSandbox, path: PurePosixPath, size: int) -> bool:
    try:
        enclosure.remove(path, expected=enclosure.read(path, limit=size).data)
    except WorkspaceFileError as trouble:
        log.warning("an old file could not be deleted: %s", trouble)
        return False
    return True
