"""A running agent and the life cycle of its sessions, from the first message to the archive."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from agent.errors import AgentError
from agent.transcript.entries import FlushReceipt, Pinned, Unpinned
from gateway.agents.ended_sessions import UNDO_FOR, EndedSessions
from gateway.agents.session_contexts import SessionContexts, fallback_of, main_key
from gateway.base.errors import HomebodyError, StorageFailed
from gateway.budget.raised_limits import keys_of
from gateway.ledger.rows import Unasked
from gateway.routing.routed_message import is_isolated
from gateway.sessions.sessions_file import SessionRecord, conversations_elsewhere
from gateway.sessions.store import Due, due, next_due
from gateway.settings.quiet_hours import UnaskedRule, rule_of
from gateway.settings.root import Settings
from gateway.settings.session_settings import InternalHooksSettings, ResetSettings, SessionSettings
from memory.audience import Audience

if TYPE_CHECKING:
    from agent.context import flush
    from agent.context.compaction import CompactionResult
    from agent.context.session_context import SessionContext
    from agent.loop.turn import TurnResult

log = logging.getLogger(__name__)

_INSTANT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

RULES_KEPT = 1000
"""Sessions whose rule of resets is remembered."""

Leaving = Due | Literal["command"]


class RunningAgent:
    """One agent. Each method is called from within the lane of its session."""

    def __init__(
        self,
        conversations: SessionContexts,
        *,
        session_settings: SessionSettings,
        new_id: Callable[[], str],
        hooks: InternalHooksSettings | None = None,
    ) -> None:
        self.conversations = conversations
        self.id = conversations.profile.id
        """The agent's id."""
        self.workspace = conversations.workspace
        self.memory = conversations.memory
        self.store = conversations.store
        self.zone = conversations.zone
        self.models = conversations.models
        self.budget_guard = conversations.budget_guard
        self.profile = conversations.profile
        """The agent's current settings."""
        self.triggers = session_settings.reset_triggers
        """Messages that start a fresh session."""
        self._session_settings = session_settings
        self._reset_rules: dict[tuple[str, str], ResetSettings] = {}
        """The rules that were found by the settings, by session and the address of its last message."""
        self._first_seen: dict[str, datetime] = {}
        """When sessions were first seen that began, or were spoken in, after the present time: the clock was ahead then, or is behind."""
        self._clock = conversations.clock
        self._new_id = new_id
        self._tasks: set[asyncio.Task[None]] = set()
        self.ended_sessions = EndedSessions(conversations, hooks or InternalHooksSettings(), self._in_background)

    @property
    def main_key(self) -> str:
        """The key of the owner's own session."""
        return main_key(self.id)

    @property
    def unasked_rule(self) -> UnaskedRule:
        """When messages are sent that nobody asked for."""
        return rule_of(self.profile.unasked, self.zone)

    def unasked(self, source: str, name: str, *, counts: bool = True) -> Unasked:
        """Return what marks a chunk (``NewOutbound.unasked``) as one that nobody asked for. See ``Unasked`` for the arguments."""
        return Unasked(agent=self.id, source=source, name=name, rule=self.unasked_rule, counts=counts)

    def adopt(self, settings: Settings, busy: Collection[str]) -> None:
        """Apply new settings from the next turn of each session on. ``busy`` are the keys of sessions in which a turn runs now."""
        self.profile = settings.agent(self.id)
        self.conversations.adopt(self.profile, busy)
        self._session_settings = settings.session
        self.triggers = settings.session.reset_triggers
        self._reset_rules.clear()
        self.ended_sessions.adopt(settings.hooks.internal)
        if self.budget_guard is not None:
            self.budget_guard.adopt(settings.budgets, keys_of(settings, self.id))

    async def current(
        self, key: str, audience: Audience, *, address: str = "", space: str = "", spoken: bool = True
    ) -> SessionRecord:
        """Return the session of ``key`` for a new message; a new session if a reset is due.

        ``spoken``: a person wrote it, which is noted as the last time that somebody spoke, and where.

        Raises:
            StorageFailed: the session could not be written.
        """
        now = self._clock.now()
        await self.store.refresh()
        record = self.store.get(key)
        if record is None:
            record = SessionRecord(session=self._begun_id(), key=key, started=now, spoken=now, address=address, space=space)
            await self.store.put(record)
            return record
        if reason := self.due(record, now):
            record = await self.renew(record, audience, reason)
        if record.turns == 0 and record.started < now:  # it begins with its first message, however long it stood empty
            record = self.store.note(key, started=now)
        if not spoken:
            return record
        moved = address and address != record.address
        where = {"address": address, "elsewhere": conversations_elsewhere(record, address)} if moved else {}
        return self.store.note(key, spoken=now, space=space or record.space, **where)

    def _begun_id(self) -> str:
        """Return the id of a session that begins now."""
        return self.conversations.begins(self._new_id())

    async def current_run(
        self, key: str, audience: Audience, *, name: str, fresh: bool, address: str = "", space: str = ""
    ) -> SessionRecord:
        """Return the session of ``key`` for a message that no person wrote and that has this ``name``.

        An isolated session is never reset; with ``fresh`` it begins anew for each message, without a flush. ``address`` is
        the conversation that it belongs to, if any.

        Raises:
            StorageFailed: the session could not be written.
        """
        if not is_isolated(key):
            return await self.current(key, audience, address=address, space=space, spoken=False)
        now = self._clock.now()
        await self.store.refresh()
        record = self.store.get(key)
        if record is not None and (not fresh or record.made_by == name):
            return self.store.note(key, spoken=now, address=address or record.address, space=space or record.space)
        if record is not None:
            self.conversations.forget(record.session)
        whose = "" if audience.kind == "owner" else f"{audience.kind}:{audience.key}"
        record = SessionRecord(
            session=self._begun_id(),
            key=key,
            started=now,
            spoken=now,
            address=address,
            space=space,
            greeted=True,
            made_by=name,
            audience=whose,
            model=record.model if record else None,
            thinking=record.thinking if record else None,
            verbose=record.verbose if record else False,
            voice=record.voice if record else "",
        )
        await self.store.put(record)
        return record

    def due(self, record: SessionRecord, now: datetime) -> Due | None:
        """Return whether and why a session is due for a reset. One without a turn since it started, or an isolated one, never is."""
        if record.turns == 0 or is_isolated(record.key):
            return None
        place = (record.key, record.address)
        if (rule := self._reset_rules.get(place)) is None:
            if len(self._reset_rules) >= RULES_KEPT:
                self._reset_rules.clear()
            rule = self._reset_rules[place] = self._session_settings.rule(*place)
        started, spoken = self._times(record, now)
        return due(rule, started=started, spoken=spoken, now=now, zone=self.zone)

    def next_due(self, record: SessionRecord, now: datetime) -> datetime | None:
        """Return the earliest time from ``now`` on at which a reset can be due if nobody writes, or None."""
        if record.turns == 0 or is_isolated(record.key):
            return None
        rule = self._session_settings.rule(record.key, record.address)
        started, spoken = self._times(record, now)
        return next_due(rule, started=started, spoken=spoken, now=now, zone=self.zone)

    def _times(self, record: SessionRecord, now: datetime) -> tuple[datetime, datetime]:
        """Return when a session began and was spoken in, both as of when it was first seen where the clock has yet to reach them."""
        if max(record.started, record.spoken) <= now:
            self._first_seen.pop(record.session, None)
            return record.started, record.spoken
        seen = self._first_seen[record.session] = min(self._first_seen.get(record.session, now), now)
        return min(record.started, seen), record.spoken if record.spoken <= now else seen

    async def renew(self, record: SessionRecord, audience: Audience, reason: Leaving, *, made_by: str = "") -> SessionRecord:
        """Flush a session, then start a new one under the same key. ``undo`` restores the former one.

        ``made_by`` is the id of the message that asks for it.

        Raises:
            StorageFailed: the new session could not be written; the former one stays.
        """
        former, noted = await self.flush_before_leaving(record, audience)
        now = self._clock.now()
        notice = self._session_settings.rule(record.key, record.address).notice
        fresh = SessionRecord(
            session=self._begun_id(),
            key=record.key,
            started=now,
            spoken=now if reason == "command" else record.spoken,
            address=record.address,
            elsewhere=record.elsewhere,
            space=record.space,
            verbose=record.verbose,
            voice=record.voice,
            queue=record.queue,
            greeted=reason == "command" or not notice,
            last_flush=(self.store.get(record.key) or record).last_flush,
            former=record.session,
            former_until=now + UNDO_FOR,
            unsaved=record.session if self.ended_sessions.saves and record.turns else None,
            pins=former.transcript.pins,
            made_by=made_by,
            noted=noted,
        )
        await self.store.put(fresh)
        self.conversations.forget(record.session)
        if fresh.unsaved:
            self._in_background(self.ended_sessions.save(fresh, former))
        return fresh

    def take_up_unsaved(self, audience: Callable[[str], Audience]) -> None:
        """Resume saving the ends of sessions that the previous process did not finish."""
        self.ended_sessions.take_up(audience)

    async def maintain(self) -> None:
        """Forget sessions that ended long ago, and archive their transcripts.

        Raises:
            StorageFailed: the sessions could not be written.
        """
        await self.ended_sessions.maintain(self._session_settings.maintenance)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def quiet(self) -> None:
        """Wait until nothing runs in the background."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def settle(self, seconds: float, *, flushing: bool) -> None:
        """Finish background work before the gateway stops, within the time limit.

        With ``flushing`` (set when the gateway served channels, not for a single command) open sessions are flushed too.
        """
        from agent.context import flush

        if flushing and self.profile.settings.compaction.memory_flush.on_shutdown:
            for conversation in self.conversations:
                if flush.is_worthwhile(conversation):
                    self._in_background(self._flush_now(conversation))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self.store.fold()
        except StorageFailed as error:
            log.warning("sessions.json could not be written: %s", error)

    def soon_forgotten(self, now: datetime) -> list[str]:
        """Return the keys of sessions whose prompt the provider is about to forget, and for which something is to be done first."""
        return [context.key for context in self.conversations if self._refresh_due(context, now)]

    def _refresh_due(self, context: SessionContext, now: datetime) -> Literal["refresh", "flush"] | None:
        from agent.context import cache_refresh

        record = self.store.get(context.key)
        if record is None or record.session != context.session or is_isolated(record.key):
            return None
        return cache_refresh.due(context, spoken=record.spoken, ends=lambda: self.next_due(record, now), now=now)

    async def keep_cached(self, key: str) -> None:
        """Have the provider keep the prompt of a session, or flush it before it is forgotten, if that is still due."""
        from agent.context import cache_refresh

        record = self.store.get(key)
        context = self.conversations.get(record.session) if record is not None else None
        due = self._refresh_due(context, self._clock.now()) if context is not None else None
        if context is None or due is None:
            return
        if due == "refresh":
            kept = await cache_refresh.refresh(context, "refresh")
            log.debug("the prompt of %s is %s", key, "kept in the cache" if kept else "not kept in the cache")
        elif self.profile.settings.compaction.memory_flush.on_reset:
            await self._flushed(context, "leave", "quiet")

    async def _flushed(self, context: SessionContext, turn: str, reason: flush.Reason) -> FlushReceipt:
        """Flush a session, and note in its record what came of it."""
        from agent.context import flush

        receipt = await flush.flush(context, turn, reason)
        await self.store.change(context.key, last_flush=flush_line(receipt, self._clock.now()))
        return receipt

    async def _flush_now(self, conversation: SessionContext) -> None:
        try:
            await conversation.prepare()
            await self._flushed(conversation, "leave", "shutdown")
        except (AgentError, HomebodyError) as error:
            log.warning("session %s was not flushed: %s", conversation.key, error)

    async def ended(self, record: SessionRecord, result: TurnResult) -> SessionRecord:
        """Record the result of a turn in its session.

        Raises:
            StorageFailed: it could not be written.
        """
        changes: dict[str, Any] = {}
        if result.receipts:
            changes["last_flush"] = flush_line(result.receipts[-1], self._clock.now())
        if result.outcome == "answered" and (stood_in := fallback_of(result)) != record.fallback_of:
            changes["fallback_of"] = stood_in
        if result.compactions:
            changes["compactions"] = record.compactions + result.compactions
        if (open_ := self.conversations.get(record.session)) is not None:
            await self.models.learnt.calibrated(open_.model.name, open_.calibration)
        if changes or record.turns == 0:
            return await self.store.change(record.key, turns=record.turns + 1, greeted=True, **changes)
        return self.store.change_soon(record.key, turns=record.turns + 1, greeted=True)

    async def undo(self, key: str, *, made_by: str = "") -> SessionRecord | None:
        """Restore the former session of ``key`` and keep the present one as its former; None if there is none."""
        record = self.store.get(key)
        now = self._clock.now()
        if record is None or record.former is None or (record.former_until and record.former_until < now):
            return None
        back = replace(
            record, session=record.former, started=now, spoken=now, former=record.session, turns=max(1, record.turns), noted=""
        )
        await self.store.put(replace(back, former_until=now + UNDO_FOR, made_by=made_by))
        return back

    async def flush_before_leaving(self, record: SessionRecord, audience: Audience) -> tuple[SessionContext, str]:
        """Flush a session if anything was said since the last flush; return it, and the result as text."""
        from agent.context import flush

        conversation = await self.conversations.open(record, audience)
        obstacle = conversation.flush_obstacle
        if not obstacle and not self.profile.settings.compaction.memory_flush.on_reset:
            obstacle = "resets are not flushed (agents.defaults.compaction.memoryFlush.onReset: false)"
        if obstacle or not flush.is_worthwhile(conversation):
            return conversation, flush.receipt_in_words(None, obstacle if record.turns else "")
        await conversation.prepare()
        return conversation, flush.receipt_in_words(await self._flushed(conversation, "leave", "reset"))

    async def compact(
        self, record: SessionRecord, audience: Audience, focus: str, *, into: int | None = None
    ) -> CompactionResult:
        """Compact on request: flush first, then summarise.

        ``into`` is the window, in tokens, that the conversation must fit afterwards.
        """
        conversation = await self.conversations.open(record, audience)
        await conversation.prepare()
        conversation.narrowed = into
        try:
            return await self._compacted(conversation, record, focus)
        finally:
            conversation.narrowed = None

    async def _compacted(self, conversation: SessionContext, record: SessionRecord, focus: str) -> CompactionResult:
        from agent.context import flush

        if self.profile.settings.compaction.memory_flush.on_compact_command and flush.is_worthwhile(conversation):
            await self._flushed(conversation, "command", "compact")
        from agent.context.compaction import compact

        shrunk = await compact(conversation, "command", "command", focus=focus)
        if shrunk.summarised:
            await self.store.change(record.key, compactions=record.compactions + 1)
        return shrunk

    async def pins(self, record: SessionRecord, audience: Audience, *, add: str = "", remove: str = "") -> tuple[str, ...]:
        """Pin or unpin something (repeating it changes nothing), and return what is pinned afterwards.

        Raises:
            AgentError: the session cannot be used.
        """
        conversation = await self.conversations.open(record, audience)
        await conversation.prepare()
        transcript = conversation.transcript
        if add and add not in transcript.pins:
            await transcript.append("command", Pinned(text=add))
        if remove and remove in transcript.pins:
            await transcript.append("command", Unpinned(text=remove))
        return transcript.pins

    async def repair(self, key: str) -> dict[str, Any]:
        """Repair the transcript of a session in which no turn runs. Raises KeyError if there is none, StorageFailed."""
        record = self.store.get(key)
        if record is None:
            raise KeyError(key)
        self.conversations.forget(record.session)
        from gateway.sessions.past_sessions import repair

        return await asyncio.to_thread(repair, self.store.transcript(record.session), self._clock.now())

    def facts(self) -> dict[str, Any]:
        """The agent's state, as JSON values."""
        sessions = self.store.all()
        spoken = next((one.spoken for one in sessions if not is_isolated(one.key)), None)
        return {
            "name": self.profile.name,
            "workspace": str(self.workspace.root),
            "sessions": len(sessions),
            "lastSpoken": spoken.isoformat(timespec="seconds") if spoken else None,
        }


def in_zone(line: str, zone: ZoneInfo) -> str:
    """Return the line of a flush receipt with its time as it is in a zone, in the words of the other times of ``/status``."""
    return _INSTANT.sub(lambda at: f"{datetime.fromisoformat(at[0]).astimezone(zone):%a %d %b %H:%M}", line, count=1)


def flush_line(receipt: FlushReceipt, at: datetime) -> str:
    """Return a flush receipt as one line."""
    notes = ", ".join(f"{note.path} +{note.bytes_after - note.bytes_before} bytes" for note in receipt.written)
    trouble = f" ({receipt.problem})" if receipt.problem else ""
    return f"{receipt.outcome} {at:%Y-%m-%dT%H:%M:%SZ}{': ' if notes else ''}{notes}{trouble}"
