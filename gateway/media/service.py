"""Stores incoming and outgoing files and deletes old ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from agent.errors import WorkspaceFileError
from agent.timing import Clock
from agent.tools.workspace_sandbox import WorkspaceSandbox
from channels.messages import ChatAddress
from channels.protocol import Channel
from gateway.base.errors import StorageFailed
from gateway.ledger.protocol import OutboxLedger
from gateway.ledger.rows import NewOutbound
from gateway.media.cleanup import sweep_inboxes, sweep_incoming
from gateway.media.incoming import IncomingFiles
from gateway.media.outgoing import OutgoingFiles
from gateway.settings.messages import AttachmentSettings

log = logging.getLogger(__name__)


class MediaService:
    """The media service. ``state``: the state folder. ``settings``: returns the current settings.

    ``largest`` returns the maximum file size of a conversation in bytes.
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
    ) -> None:
        self._outbox = outbox
        self._clock = clock
        self._settings = settings
        self._largest = largest
        self._incoming = state / "incoming"
        self.intake = IncomingFiles(channel, self._incoming, clock, self._at)
        self.outgoing = OutgoingFiles(state / "media", settings)

    def begin(self, turn: str, place: ChatAddress) -> None:
        """Remember the destination of a turn's files."""
        self.outgoing.expect(turn, self._at(place))

    def _at(self, place: ChatAddress) -> AttachmentSettings:
        """Return the settings for a conversation."""
        settings, largest = self._settings(), self._largest(place)
        if largest is None:
            return settings
        return settings.model_copy(update={"max_bytes": largest, "total_bytes": max(settings.total_bytes, largest)})

    async def enclosed(self, turn: str, place: ChatAddress) -> list[NewOutbound]:
        """Return the files that go out behind the reply of a turn, each a message of its own."""
        if not self.outgoing.may_have(turn):
            return []
        waiting = await asyncio.to_thread(self.outgoing.of, turn)
        return [NewOutbound(conversation=place, text=one.caption, enclosure=one.enclosure) for one in waiting]

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
