"""What fills a session's window: over its past calls, in the prompt of one of them, and what the next memory flush would keep."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from msgspec import to_builtins

from agent.context.context_report import context_report
from agent.context.flush_preview import flush_preview
from agent.context.past_calls import CallPoint, Mark, points
from agent.context.past_prompt import PastPrompt, past_prompt
from agent.context.session_context import SessionContext
from agent.models import token_estimate
from agent.models.token_estimate import Weight
from agent.transcript.entries import Entry
from agent.transcript.history_view import turn_of
from agent.transcript.stored_transcript import StoredTranscript
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import UsageError, unknown_agent
from gateway.routing.routed_message import isolated_kind
from gateway.sessions.sessions_file import SessionRecord
from gateway.sessions.transcript_reader import TranscriptReader
from memory.audience import Audience

MOST_CALLS: Final = 120
PARTS: Final = 60
"""Parts of a prompt that are told at once."""
PART_CHARS: Final = 20_000
"""Longest text of a part, unless it is asked for alone."""
_SPARE: Final = 8
"""Entries that are read for each call that is wanted: questions, results and marks lie between the answers."""


class ContextHandlers:
    """Explains the windows of sessions. ``default`` returns the id of the default agent. All answers are JSON values."""

    def __init__(
        self, agents: Mapping[str, RunningAgent], default: Callable[[], str], audience: Callable[[str], Audience]
    ) -> None:
        self._agents = agents
        self._default = default
        self._audience = audience
        self._reader = TranscriptReader()
        self._reading = asyncio.Lock()

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {
            "context": self.now,
            "context.history": self.history,
            "context.prompt": self.prompt,
            "context.flush": self.flush,
        }

    async def now(self, agent: str | None = None, session: str | None = None) -> dict[str, Any]:
        """Return the parts of the next model request in a session (default: the owner's main session with the default agent).

        Raises:
            UsageError: there is no such agent or session.
        """
        found, record = self._named(agent, session)
        conversation = await found.conversations.inspect(record, self._audience(record.key))
        return {**_head(found, record), **to_builtins(context_report(conversation))}

    async def history(self, agent: str | None = None, session: str | None = None, calls: int = 60) -> dict[str, Any]:
        """Return what filled the window at the last ``calls`` answered calls, and what changed it between them.

        The session that ``/undo`` would restore comes first, where there are calls to spare.

        Raises:
            UsageError: there is no such agent or session.
            StorageFailed: a transcript cannot be read.
        """
        found, record = self._named(agent, session)
        wanted = max(1, min(calls, MOST_CALLS))
        conversation = await found.conversations.inspect(record, self._audience(record.key))
        fixed = token_estimate.weight_of_tools(conversation.toolbox.specs) + sum(
            (token_estimate.weigh(segment.text) for segment in conversation.system()), Weight()
        )
        points: list[CallPoint | Mark] = []
        async with self._reading:
            for one in filter(None, (record.session, record.former)):
                left = wanted - sum(isinstance(point, CallPoint) for point in points)
                stored = found.store.transcript(one)
                if left <= 0 or not await asyncio.to_thread(stored.exists):
                    continue
                memory = conversation.transcript.entries if one == record.session else ()
                entries = await asyncio.to_thread(self._recent, stored, left, tuple(memory))
                points = [*await asyncio.to_thread(self._points, conversation, entries, one, fixed, left), *points]
        window = conversation.window
        return {
            **_head(found, record),
            "window": window.size,
            "flushAt": window.flush_at,
            "compactAbove": window.compact_above,
            "points": [_point(one) for one in points],
        }

    async def prompt(
        self, call: str, agent: str | None = None, session: str | None = None, offset: int = 0, part: int | None = None
    ) -> dict[str, Any]:
        """Return the prompt of a past call of the present or the former session, part by part. ``call``: an id of ``context.history``.

        Texts are cut at 20,000 characters; ``part`` asks for one of them whole.

        Raises:
            UsageError: there is no such agent, session or call.
            StorageFailed: the transcript cannot be read.
        """
        found, record = self._named(agent, session)
        light = isolated_kind(record.key) == "heartbeat"
        for one in filter(None, (record.session, record.former)):
            stored = found.store.transcript(one)
            if not await asyncio.to_thread(stored.exists):
                continue
            conversation = await self._context(found, record, one)
            memory = tuple(conversation.transcript.entries)
            async with self._reading:
                entries = await asyncio.to_thread(self._up_to, stored, call, memory)
            if entries and (rebuilt := await asyncio.to_thread(past_prompt, conversation, entries, call, light=light)):
                return {**_head(found, record), **_prompt(rebuilt, offset, part)}
        raise UsageError(f"no call of this session has the id {call!r}", hint="`homebody context --history` lists the calls.")

    async def flush(self, agent: str | None = None, session: str | None = None) -> dict[str, Any]:
        """Return what the next memory flush of a session would keep, as far as that is known without asking a model.

        Raises:
            UsageError: there is no such agent or session.
        """
        found, record = self._named(agent, session)
        preview = await flush_preview(await found.conversations.inspect(record, self._audience(record.key)))
        return {
            **_head(found, record),
            "flushAt": preview.at,
            "tokens": preview.tokens,
            "obstacle": preview.obstacle,
            "note": preview.note,
            "request": preview.request,
            "said": preview.said,
            "byRule": [{**asdict(one), "day": f"{one.day:%Y-%m-%d}"} for one in preview.by_rule],
            "last": preview.last.isoformat(timespec="seconds") if preview.last else None,
            "lastOutcome": preview.last_outcome,
        }

    async def _context(self, found: RunningAgent, record: SessionRecord, session: str) -> SessionContext:
        audience = self._audience(record.key)
        if session == record.session:
            return await found.conversations.inspect(record, audience)
        conversation = await found.conversations.of(record, session, audience)
        if conversation.transcript.opened is not None:
            await conversation.prepare()
        return conversation

    def _recent(self, stored: StoredTranscript, calls: int, memory: tuple[Entry, ...]) -> list[Entry]:
        """Return the entries that show the last calls, with those that are not on disk yet."""
        total = self._reader.count(stored)
        base = self._reader.base_of(stored, max(0, total - calls * _SPARE))
        return _joined([entry for entry in self._reader.page(stored, base, total - base) if entry is not None], memory)

    def _up_to(self, stored: StoredTranscript, call: str, memory: tuple[Entry, ...]) -> list[Entry]:
        """Return the entries that show one call, and the end of its turn; none where it is not there."""
        number = self._reader.number_of(stored, call)
        if number is None:
            return list(memory) if any(entry.id == call for entry in memory) else []
        base = self._reader.base_of(stored, number)
        entries = [entry for entry in self._reader.page(stored, base, number + 1 - base) if entry is not None]
        turn = turn_of(entries[-1]) if entries else ""
        ended = self._reader.turn_end(stored, number, turn)
        late = (one for one in memory if one.body.kind == "turn_ended" and turn_of(one) == turn)
        return [*entries, ended] if ended is not None else [*entries, *late]

    def _points(
        self, conversation: SessionContext, entries: list[Entry], session: str, fixed: Weight, wanted: int
    ) -> list[CallPoint | Mark]:
        light = isolated_kind(conversation.key) == "heartbeat"
        calibration = conversation.calibration
        return list(
            points(
                entries,
                session,
                conversation.zone,
                fixed=fixed,
                calibration=calibration,
                wanted=wanted,
                light=light,
            )
        )

    def _named(self, agent: str | None, session: str | None) -> tuple[RunningAgent, SessionRecord]:
        found = self._agents.get(agent or self._default())
        if found is None:
            raise unknown_agent(agent, self._agents)
        record = found.store.get(session or found.main_key)
        if record is None:
            known = ", ".join(one.key for one in found.store.all()[:5])
            hint = (
                f"The latest are: {known}. `homebody sessions list` lists all."
                if known
                else f"Begin one: homebody chat --agent {found.id}"
            )
            raise UsageError(f"there is no session {session or found.main_key!r}", hint=hint)
        return found, record


def _head(found: RunningAgent, record: SessionRecord) -> dict[str, Any]:
    return {"agent": found.id, "sessionKey": record.key, "sessionId": record.session}


def _joined(entries: list[Entry], memory: tuple[Entry, ...]) -> list[Entry]:
    known = {entry.id for entry in entries}
    return [*entries, *(entry for entry in memory if entry.id not in known)] if known else list(memory)


def _point(one: CallPoint | Mark) -> dict[str, Any]:
    at = one.at.isoformat(timespec="seconds")
    if isinstance(one, Mark):
        facts = asdict(one)
        return {**facts, "at": at}
    usage = one.usage
    return {
        "kind": "call",
        "call": one.call,
        "session": one.session,
        "at": at,
        "model": one.model,
        "tokens": usage.prompt,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "output": usage.output,
        "cost": usage.cost,
        "messages": one.messages,
        "parts": one.parts,
    }


def _prompt(found: PastPrompt, offset: int, part: int | None) -> dict[str, Any]:
    listed = list(enumerate(found.parts))
    shown = listed[part : part + 1] if part is not None else listed[max(0, offset) : max(0, offset) + PARTS]
    most = None if part is not None else PART_CHARS
    usage = found.usage
    return {
        "call": found.call,
        "at": found.at.isoformat(timespec="seconds"),
        "model": found.model,
        "exact": found.exact,
        "gone": list(found.gone),
        "tokens": usage.prompt if usage else None,
        "cacheRead": usage.cache_read if usage else None,
        "cacheWrite": usage.cache_write if usage else None,
        "cost": usage.cost if usage else None,
        "count": len(listed),
        "offset": shown[0][0] if shown else 0,
        "parts": [
            {
                "n": number,
                "name": one.name,
                "kind": one.kind,
                "text": one.text[:most],
                "chars": one.chars,
                "tokens": one.tokens,
                "exact": one.exact,
                "cached": one.cached,
                "at": one.at.isoformat(timespec="seconds") if one.at else None,
                "pictures": one.pictures,
            }
            for number, one in shown
        ],
    }
