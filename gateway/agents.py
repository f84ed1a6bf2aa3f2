"""The agents that live in the house: each with its workspace, its memory, its tools and its sessions."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from agent import flush
from agent.compaction import Shrunk, compact
from agent.conversation import Conversation
from agent.transcript import Transcript
from gateway.sessions.freshness import Due, due
from gateway.sessions.store import SessionRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from agent.clock import Clock
    from agent.models.protocol import Model
    from agent.tools.toolbox import Toolbox
    from agent.workspace import Workspace
    from gateway.config.settings import AgentProfile
    from gateway.sessions.settings import SessionSettings
    from gateway.sessions.store import SessionStore
    from memory.audience import Audience
    from memory.workspace import WorkspaceMemory

KEPT_OPEN = 32
"""Conversations kept in memory; others are read from their transcripts again."""
UNDO_FOR = timedelta(days=7)

Leaving = Due | Literal["command"]


class HousedAgent:
    """One agent. Everything here is called from within the lane of the session that it concerns."""

    def __init__(
        self,
        *,
        profile: AgentProfile,
        session_settings: SessionSettings,
        workspace: Workspace,
        memory: WorkspaceMemory | None,
        toolbox: Toolbox,
        store: SessionStore,
        zone: ZoneInfo,
        clock: Clock,
        model: Callable[[str | None], Awaitable[Model]],
        new_id: Callable[[], str],
    ) -> None:
        self.profile = profile
        self.workspace = workspace
        self.memory = memory
        self.toolbox = toolbox
        self.store = store
        self.zone = zone
        self._session_settings = session_settings
        self._clock = clock
        self._model = model
        self._new_id = new_id
        self._open: OrderedDict[str, Conversation] = OrderedDict()

    @property
    def id(self) -> str:
        """The agent's id."""
        return self.profile.id

    @property
    def main_key(self) -> str:
        """The key of the owner's own session."""
        return f"agent:{self.id}:main"

    async def current(self, key: str, audience: Audience, *, address: str = "") -> SessionRecord:
        """Return the session of ``key`` for a message that a person sends now, begun afresh where the rule says so.

        Raises:
            StorageFailed: the session could not be written down.
        """
        now = self._clock.now()
        record = self.store.get(key)
        if record is None:
            record = SessionRecord(session=self._new_id(), key=key, started=now, spoken=now, address=address)
            await self.store.put(record)
            return record
        if reason := self.due(record, now):
            record = await self.renew(record, audience, reason)
        return self.store.note(key, spoken=now, address=address or record.address)

    def due(self, record: SessionRecord, now: datetime) -> Due | None:
        """Judge a session by the one rule. One in which nothing was said since it began is never due."""
        if record.turns == 0:
            return None
        return due(self._session_settings.reset, started=record.started, spoken=record.spoken, now=now, zone=self.zone)

    async def renew(self, record: SessionRecord, audience: Audience, reason: Leaving) -> SessionRecord:
        """Leave a session behind: flush what it knows, then begin a new one under the same key. The former can be brought back.

        Raises:
            StorageFailed: the new session could not be written down; the former stands.
        """
        await self.flush_before_leaving(record, audience)
        now = self._clock.now()
        fresh = SessionRecord(
            session=self._new_id(),
            key=record.key,
            started=now,
            spoken=now if reason == "command" else record.spoken,
            address=record.address,
            verbose=record.verbose,
            greeted=reason == "command" or not self._session_settings.reset.notice,
            former=record.session,
            former_until=now + UNDO_FOR,
        )
        await self.store.put(fresh)
        self._open.pop(record.session, None)
        return fresh

    async def undo(self, key: str) -> SessionRecord | None:
        """Bring the former session of ``key`` back and keep the present one as its former; None when there is none any more."""
        record = self.store.get(key)
        now = self._clock.now()
        if record is None or record.former is None or (record.former_until and record.former_until < now):
            return None
        back = replace(
            record, session=record.former, started=now, spoken=now, former=record.session, turns=max(1, record.turns)
        )
        await self.store.put(replace(back, former_until=now + UNDO_FOR))
        return back

    async def flush_before_leaving(self, record: SessionRecord, audience: Audience) -> None:
        """Write down what a session knows, if anything was said since the last time."""
        if not self.profile.settings.compaction.memory_flush.on_reset:
            return
        conversation = await self.conversation(record, audience)
        if flush.is_worthwhile(conversation):
            await conversation.prepare()
            receipt = await flush.flush(conversation, "leave", "reset")
            await self.store.change(record.key, last_flush=_told(receipt.outcome, self._clock.now()))

    async def compact(self, record: SessionRecord, audience: Audience, focus: str) -> Shrunk | None:
        """Compact by hand: flush first, then summarise. Returns None when there was nothing to gain."""
        conversation = await self.conversation(record, audience)
        await conversation.prepare()
        if self.profile.settings.compaction.memory_flush.on_compact_command and flush.is_worthwhile(conversation):
            await flush.flush(conversation, "command", "compact")
        shrunk = await compact(conversation, "command", "command", focus=focus)
        if shrunk is not None:
            await self.store.change(record.key, compactions=record.compactions + 1)
        return shrunk

    def facts(self) -> dict[str, Any]:
        """How the agent is, as JSON values."""
        sessions = self.store.all()
        return {
            "name": self.profile.name,
            "workspace": str(self.workspace.root),
            "sessions": len(sessions),
            "lastSpoken": sessions[0].spoken.isoformat(timespec="seconds") if sessions else None,
        }

    async def conversation(self, record: SessionRecord, audience: Audience, *, model: str | None = None) -> Conversation:
        """Return the session ready to work on, with the model that it is to use now.

        Raises:
            NotKept: its transcript cannot be used.
            AgentError: its model cannot be used.
        """
        chosen = await self._model(model or record.model)
        conversation = self._open.get(record.session)
        if conversation is None:
            conversation = Conversation(
                agent=self.id,
                session=record.session,
                key=record.key,
                audience=audience,
                private=record.key == self.main_key and audience.kind == "owner",
                settings=self.profile.settings,
                model=chosen,
                toolbox=self.toolbox,
                workspace=self.workspace,
                transcript=await Transcript.load(self.store.transcript(record.session), self._clock),
                zone=self.zone,
                clock=self._clock,
            )
            if self.memory is not None and self.profile.memory.sync.on_session_start:
                self.memory.sync_soon()
        conversation.model = chosen
        self._open[record.session] = conversation
        self._open.move_to_end(record.session)
        while len(self._open) > KEPT_OPEN:
            self._open.popitem(last=False)
        return conversation


def _told(outcome: str, at: datetime) -> str:
    return f"{outcome} {at:%Y-%m-%dT%H:%M:%SZ}"
