"""What becomes of a session that ended: its end is saved as a note, and in time it is forgotten and its transcript archived."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import AgentError
from gateway.agents.session_contexts import SessionContexts, main_key
from gateway.base.errors import HomebodyError, StorageFailed
from gateway.routing.routed_message import is_isolated
from gateway.sessions.sessions_file import SessionRecord
from gateway.settings.session_settings import InternalHooksSettings, MaintenanceSettings, SessionMemorySettings
from memory.audience import Audience

if TYPE_CHECKING:
    from agent.context.session_context import SessionContext

log = logging.getLogger(__name__)

UNDO_FOR = timedelta(days=7)
"""How long the former session of a key can be restored."""


class EndedSessions:
    """The sessions of one agent that ended. ``in_background`` runs what nobody waits for."""

    def __init__(
        self,
        conversations: SessionContexts,
        hooks: InternalHooksSettings,
        in_background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._conversations = conversations
        self._store = conversations.store
        self._in_background = in_background
        self.adopt(hooks)

    def adopt(self, hooks: InternalHooksSettings) -> None:
        """Use other settings from the next session on that ends."""
        self._settings = hooks.entries.session_memory if hooks.enabled else SessionMemorySettings(enabled=False)

    @property
    def saves(self) -> bool:
        """Whether the end of a session is saved as a note when a new one starts."""
        return self._settings.enabled

    async def save(self, record: SessionRecord, former: SessionContext) -> None:
        """Save the end of a session as a note; a failure is retried at the next start."""
        from agent.context import session_memory

        try:
            path = await session_memory.keep(former, self._settings.messages)
            if path is not None:
                log.info("the note of the ended session %s is %s", former.session, path)
            present = self._store.get(record.key)
            if present is not None and present.unsaved == former.session:
                await self._store.change(record.key, unsaved=None)
        except (AgentError, HomebodyError) as error:
            log.warning("the note of the ended session %s was not written: %s", former.session, error)

    def take_up(self, audience: Callable[[str], Audience]) -> None:
        """Resume saving what the previous process did not finish."""
        for record in self._store.all():
            if record.unsaved:
                self._in_background(self._take_up(record, audience(record.key)))

    async def _take_up(self, record: SessionRecord, audience: Audience) -> None:
        try:
            former = await self._conversations.of(record, record.unsaved or "", audience)
        except AgentError as error:
            log.warning("the note of the ended session %s was not written: %s", record.unsaved, error)
            return
        await self.save(record, former)

    async def maintain(self, limits: MaintenanceSettings) -> None:
        """Forget sessions that ended long ago, and archive transcripts that ``undo`` can no longer restore.

        Raises:
            StorageFailed: the sessions could not be written.
        """
        now, main = self._conversations.clock.now(), main_key(self._conversations.profile.id)
        left = [record for record in self._store.all() if (record.turns == 0 or is_isolated(record.key)) and record.key != main]
        silent = [r for r in left if now - r.spoken > timedelta(seconds=limits.prune_after)]
        surplus = max(0, len(self._store) - len(silent) - limits.max_entries)
        others = [r for r in left if r not in silent]
        for record in [*silent, *(others[-surplus:] if surplus else [])]:
            if not record.unsaved:
                await self._store.remove(record.key)
        needed = {one for r in self._store.all() for one in (r.session, r.unsaved, r.former) if one}
        transcripts = self._store.transcripts
        try:
            count = await asyncio.to_thread(
                transcripts.put_away, needed | {one.session for one in self._conversations}, now - UNDO_FOR
            )
            gone = await asyncio.to_thread(transcripts.trim, limits.max_disk_bytes)
        except OSError as error:
            raise StorageFailed.from_os(error, "archive old sessions", Path(transcripts.where)) from error
        if count or gone:
            log.info("%d transcripts were archived, and %d deleted to limit disk usage", count, len(gone))
