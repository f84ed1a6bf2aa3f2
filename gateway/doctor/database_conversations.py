"""Checks the conversations that are in PostgreSQL: whether they can be read, and sessions without a transcript."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from agent.transcript.entries import InvalidEntry, decode
from agent.transcript.stored_transcript import StoredTranscript
from gateway.base.clock import SystemClock
from gateway.base.errors import StorageFailed
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Finding, ok
from gateway.sessions.protocol import SessionStore
from gateway.storage.open_storage import conversations_in_files, sessions_to_read

_REST = "The rest of the conversation is not affected."


def examined(installation: Installation, most_bytes: int) -> Iterator[Finding]:
    """Look at the newest transcripts of each agent, up to ``most_bytes`` each. Blocking."""
    for folder in conversations_in_files(installation.paths):
        what = f"there are conversations in {folder}, and the settings name PostgreSQL"
        mend = "homebody storage migrate --to postgresql. Or move the folder away, to go on without them."
        yield Finding(level="error", what=what, where=str(folder), why="No gateway starts with both.", mend=mend)
    sessions = sessions_to_read(installation.paths, installation.settings.storage, SystemClock())
    count, found = 0, []
    for agent in installation.settings.agent_ids:
        store = sessions(agent)
        try:
            notices = asyncio.run(store.load())
            kept = sorted(store.transcripts.all(), key=lambda one: one[1].written_ns, reverse=True)
        except (StorageFailed, OSError) as error:
            found.append(Finding(level="error", what=f"the conversations of {agent} cannot be read: {error}", mend=_START))
            continue
        count += len(kept)
        found += [Finding(level="warning", what=notice, mend="Restart the gateway.") for notice in notices]
        found += _without_transcript(store, {stored.session for stored, _ in kept})
        left = most_bytes
        for stored, stat in kept:
            left -= stat.size
            if left >= 0 and (bad := _bad_lines(stored)):
                what = f"{bad} lines of the transcript {stored.session} cannot be read"
                mend = f"homebody sessions repair {_key(stored) or stored.session} (the present lines are kept beside it)"
                why = f"They are passed over. {_REST}"
                found.append(Finding(level="warning", what=what, where=stored.where, why=why, mend=mend))
    yield from found or [
        ok(
            f"{count} transcript{'s in PostgreSQL are' if count > 1 else ' in PostgreSQL is'} whole"
            if count
            else "there are no transcripts yet"
        )
    ]


_START = "Start PostgreSQL, or see docs/postgresql.md."


def _without_transcript(store: SessionStore, kept: set[str]) -> Iterator[Finding]:
    for record in [one for one in store.all() if one.turns and one.session not in kept][:5]:
        why = "The agent does not know what was said there."
        mend = "Restore it from a backup. The session goes on without it."
        yield Finding(
            level="warning", what=f"the transcript of {record.key} is gone", where=store.transcripts.where, why=why, mend=mend
        )


def _bad_lines(stored: StoredTranscript) -> int:
    bad = 0
    try:
        for line in stored.lines():
            try:
                decode(line)
            except InvalidEntry:
                bad += 1
    except OSError:
        return 0  # the database went away meanwhile, which is told
    return bad


def _key(stored: StoredTranscript) -> str:
    try:
        return str(getattr(decode(next(iter(stored.lines()), b"")).body, "key", ""))
    except (InvalidEntry, OSError):
        return ""
