"""Messages that nobody asked for: held in quiet hours, kept beyond the number of a day, and moved to the outbox when they may go.

Each has a row, also when it was queued at once: by its key it is taken once, and rows of a day are counted. A message that the platform did
not take before quiet hours began is taken back from the outbox, unless a part of it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from gateway.base.errors import InvalidTransition
from gateway.ledger.context_lines import add_event
from gateway.ledger.database import Database
from gateway.ledger.outbox_rows import append, current_chat
from gateway.ledger.rows import KeptMessages, NewOutbound, Unasked, UnaskedRow
from gateway.ledger.thread import LedgerConnection, NameCache
from gateway.ledger.values import clean, instant, read_conversation, read_payload, stamp, write_conversation, write_payload
from gateway.settings.quiet_hours import UnaskedRule

APPROVAL: Final = "approval:"
"""A message with this source asks an owner the question of this id. It is not sent once the question is decided."""
_SHOWN: Final = 200
_LINE: Final = "line"
"""Of the first chunk of a message: the line that tells its conversation of it, with the sources of untrusted words in it."""
_UNSENT = "state = 'ready' AND doubts = 0"
COLUMNS: Final = "id, agent, source, name, conversation, state, chunks, made_at"


class UnaskedLedger(Protocol):
    """Messages that nobody asked for (``NewOutbound.unasked``) and that are not sent yet.

    Where they are queued, each is sent now, held until the quiet hours end, or kept, as its rule says. By the key of its first chunk a
    message is taken once.
    """

    async def release(self, rules: Mapping[str, UnaskedRule]) -> int:
        """Queue the held messages that may be sent now by the rules of their agents, in their order; return how many chunks.

        Messages that were queued, but could not be sent before quiet hours began, are held again first.
        """
        ...

    async def waiting(self, *, limit: int = 1000) -> list[UnaskedRow]:
        """Return the newest messages that are held or kept, oldest first."""
        ...

    async def send(self, row: int) -> None:
        """Queue a message now, whatever the rules say. Raises InvalidTransition when it is neither held nor kept."""
        ...

    async def untold(self, today: Mapping[str, str]) -> list[KeptMessages]:
        """Return what was kept and the owner was not told of. ``today`` is the owner's date by agent: that day is told of once."""
        ...

    async def tell(self, kept: KeptMessages, line: NewOutbound) -> None:
        """Record that the owner was told, and queue the line that tells, in one transaction."""
        ...


class UnaskedPart:
    """Implements ``UnaskedLedger``. ``events`` caches which conversations have context events."""

    def __init__(self, connection: LedgerConnection, events: NameCache) -> None:
        self._connection = connection
        self._events = events

    async def release(self, rules: Mapping[str, UnaskedRule]) -> int:
        now, token = self._connection.now(), self._connection.new_id

        def work(db: Database) -> tuple[int, bool]:
            _take_back(db, rules, now)
            count = sum(len(chunks) for _, chunks in _release(db, rules, now, token))
            lines: list[Any] = db.execute(
                "SELECT id, chunks, agent FROM unasked WHERE state = 'queued' AND length(chunks) > 2"
            ).fetchall()
            for row, written, agent in lines:
                _add_kept_line(db, written, agent, now)
                db.execute("UPDATE unasked SET chunks = '' WHERE id = ?", (row,))
            return count, bool(lines)

        queued, told = await self._connection.run(work)
        if told:
            self._events.changed()
        if queued:
            self._connection.notify_outbound()
        return queued

    async def waiting(self, *, limit: int = 1000) -> list[UnaskedRow]:
        query = f"SELECT {COLUMNS} FROM unasked WHERE state <> 'queued' ORDER BY id DESC LIMIT ?"
        found: list[Any] = await self._connection.run(lambda db: db.execute(query, (limit,)).fetchall())
        return [read_row(one) for one in reversed(found)]

    async def send(self, row: int) -> None:
        now, token = self._connection.now(), self._connection.new_id

        def work(db: Database) -> None:
            found: Any = db.execute(
                "SELECT chunks, turn, agent FROM unasked WHERE id = ? AND state <> 'queued'", (row,)
            ).fetchone()
            if found is None:
                raise InvalidTransition("the message is neither held nor kept", where=f"unasked {row}")
            _queued(db, row, "", now)
            append(db, _read(found[0]), now=now, token=token, turn=found[1])
            _add_kept_line(db, found[0], found[2], now)

        await self._connection.run(work, self._connection.notify_outbound)
        self._events.changed()

    async def untold(self, today: Mapping[str, str]) -> list[KeptMessages]:
        def work(db: Database) -> list[KeptMessages]:
            query = (
                "SELECT agent, day, count(*), sum(told) FROM unasked WHERE state = 'kept' AND (agent, day) IN "
                "(SELECT agent, day FROM unasked WHERE state = 'kept' AND told = 0) GROUP BY agent, day ORDER BY day, agent"
            )
            found: list[Any] = db.execute(query).fetchall()
            return [
                KeptMessages(agent=agent, day=day, count=count, over=day != today.get(agent, ""))
                for agent, day, count, told in found
                if not told or day != today.get(agent, "")
            ]

        return await self._connection.run(work)

    async def tell(self, kept: KeptMessages, line: NewOutbound) -> None:
        now, token = self._connection.now(), self._connection.new_id

        def work(db: Database) -> None:
            query = "UPDATE unasked SET told = 1 WHERE state = 'kept' AND told = 0 AND agent = ? AND day = ?"
            db.execute(query, (clean(kept.agent), kept.day))
            if db.changes():
                append(db, [line], now=now, token=token)

        await self._connection.run(work, self._connection.notify_outbound)


def take_unasked(
    db: Database, chunks: Sequence[NewOutbound], *, now: datetime, token: Callable[[], str], turn: str | None
) -> list[tuple[int, str]]:
    """Store messages that nobody asked for, and queue what may be sent now; return the ids and keys of those of their chunks.

    Messages of the same agent that are still held, although they may go, are queued before them.
    """
    queued: list[tuple[int, str]] = []
    for (unasked, _), several in groupby(chunks, key=_message):
        message = list(several)
        query = (
            "INSERT INTO unasked (key, turn, agent, source, name, conversation, chunks, state, counts, day, told, made_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 'held', ?, '', 0, ?) ON CONFLICT (key) DO NOTHING RETURNING id"
        )
        values = (
            *(message[0].key or token(), turn, clean(unasked.agent), clean(unasked.source), clean(unasked.name)),
            *(clean(message[0].conversation.address), _written(message), int(unasked.counts), stamp(now)),
        )
        new: Any = db.execute(query, values).fetchone()
        if new is not None and unasked.rule.quiet_until(now) is None:
            queued += dict(_release(db, {unasked.agent: unasked.rule}, now, token, agent=unasked.agent)).get(new[0], [])
    return queued


def add_line(
    db: Database, message: NewOutbound, line: str, now: datetime, sources: Sequence[str] = (), *, agent: str = ""
) -> None:
    """Store a line about a message that was just queued, for ``agent`` in its conversation. It waits with one that is held or kept."""
    query = "SELECT id, chunks FROM unasked WHERE key = ? AND state <> 'queued'"
    found: Any = None if message.unasked is None else db.execute(query, (clean(message.key or ""),)).fetchone()
    if found is None:
        add_event(db, clean(current_chat(db, message.conversation).address), line, now, sources, agent=agent)
        return
    chunks = json.loads(found[1])
    chunks[0][_LINE] = [clean(line), list(sources)]
    db.execute("UPDATE unasked SET chunks = ? WHERE id = ?", (json.dumps(chunks), found[0]))


def _add_kept_line(db: Database, written: str, agent: str, now: datetime) -> None:
    """Store the line that waited with a message, if there is one."""
    for chunk in json.loads(written)[:1]:
        if _LINE in chunk:
            line, sources = chunk[_LINE]
            place = current_chat(db, read_conversation(chunk["target"]))
            add_event(db, clean(place.address), line, now, sources, agent=agent)


def _line_alone(written: str) -> str:
    """Return what is kept of a message that was queued, until its line is stored: it need not be known in the same moment."""
    return json.dumps(
        [{name: chunk[name] for name in ("target", _LINE)} for chunk in json.loads(written)[:1] if _LINE in chunk]
    )


def files_of_unasked(db: Database) -> list[Path]:
    """Return the files that messages hold which were not sent."""
    found: list[Any] = db.execute("SELECT chunks FROM unasked WHERE state <> 'queued'").fetchall()
    files = [chunk.enclosure for (written,) in found for chunk in _read(written) if chunk.enclosure is not None]
    return [path for file in files for path in file.paths]


def sweep_unasked(db: Database, before: int, limit: int, *, held_before: int) -> int:
    """Delete messages that were queued, or were made and kept, before an instant; return how many.

    Those that are held since before ``held_before``, as quiet hours that never end would, are deleted too.
    """
    query = (
        "DELETE FROM unasked WHERE id IN (SELECT id FROM unasked WHERE (state = 'queued' AND ended_at < ?) "
        "OR (state = 'kept' AND made_at < ?) OR (state = 'held' AND made_at < ?) LIMIT ?)"
    )
    db.execute(query, (before, before, held_before, limit))
    return db.changes()


def is_readable(row: Mapping[str, Any]) -> bool:
    """Return whether a row's chunks can be read."""
    try:
        return row["state"] == "queued" or bool(_read(row["chunks"]))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return False


def _message(chunk: NewOutbound) -> tuple[Unasked, str]:
    assert chunk.unasked is not None
    return chunk.unasked, chunk.conversation.address


def _release(
    db: Database, rules: Mapping[str, UnaskedRule], now: datetime, token: Callable[[], str], *, agent: str | None = None
) -> list[tuple[int, list[tuple[int, str]]]]:
    """Queue held messages that may be sent now, of one ``agent`` or of all, in their order; return them with their chunks."""
    found: list[Any] = db.execute(
        "SELECT id, agent, source, chunks, turn, counts FROM unasked WHERE state <> 'queued' AND state = 'held' "
        "AND agent = coalesce(?, agent) ORDER BY id",
        (agent,),
    ).fetchall()
    queued: list[tuple[int, list[tuple[int, str]]]] = []
    for row, of, source, written, turn, counts in found:
        rule = rules.get(of) or UnaskedRule(zone=ZoneInfo("UTC"))  # of an agent that was removed: nothing holds its messages
        day = rule.day(now)
        decision = (rule if counts else replace(rule, per_day=None)).decide(now, _sent_on(db, of, day) if counts else 0)
        if decision == "send":
            _queued(db, row, day if counts else "", now, kept=_line_alone(written))
            chunks = _read(written) if _is_open(db, source) else []
            quiet_from = rule.next_quiet(now)
            queued.append((row, append(db, chunks, now=now, token=token, turn=turn, unasked=row, quiet_from=quiet_from)))
        elif decision == "keep":
            db.execute("UPDATE unasked SET state = 'kept', day = ? WHERE id = ?", (day, row))
    return queued


def _take_back(db: Database, rules: Mapping[str, UnaskedRule], now: datetime) -> None:
    """Hold messages again that were not sent before quiet hours began. One of which a part was sent is sent to its end.

    Where it is not quiet any more they stay where they are in the outbox, so that nothing that was queued later overtakes them.
    """
    query = (
        "SELECT outbox.unasked, agent, min(quiet_from) FROM outbox JOIN unasked ON unasked.id = outbox.unasked "
        f"WHERE outbox.unasked IS NOT NULL AND outbox.{_UNSENT} GROUP BY outbox.unasked, agent"
    )
    found: list[Any] = db.execute(query).fetchall()
    for row, agent, quiet_from in found:
        rule = rules.get(agent)
        if rule is not None and rule.quiet_until(now) is not None:
            _hold_again(db, row)
        elif quiet_from is not None and quiet_from <= stamp(now):  # those hours are over, or there are none any more
            following = None if rule is None else rule.next_quiet(now)
            query = "UPDATE outbox SET quiet_from = ? WHERE unasked = ?"
            db.execute(query, (None if following is None else stamp(following), row))


def _hold_again(db: Database, row: int) -> None:
    query = (
        f"SELECT key, target, text, reply_to, extras, CAST(expires - created_at AS DOUBLE PRECISION) / 1000000, {_UNSENT} "
        "FROM outbox WHERE unasked = ? "
        "ORDER BY place, id"
    )
    chunks: list[Any] = db.execute(query, (row,)).fetchall()
    if not all(unsent for *_, unsent in chunks):
        db.execute("UPDATE outbox SET unasked = NULL, quiet_from = NULL WHERE unasked = ?", (row,))
        return
    names = ("key", "target", "text", "replyTo", "extras", "ttl")
    written = json.dumps([dict(zip(names, chunk[:-1], strict=True)) for chunk in chunks])
    db.execute("DELETE FROM outbox WHERE unasked = ?", (row,))
    db.execute("UPDATE unasked SET state = 'held', chunks = ?, day = '', ended_at = NULL WHERE id = ?", (written, row))


def _sent_on(db: Database, agent: str, day: str) -> int:
    query = "SELECT count(*) FROM unasked WHERE agent = ? AND day = ? AND state = 'queued' AND counts <> 0"
    found: Any = db.execute(query, (agent, day)).fetchone()
    return int(found[0])


def _queued(db: Database, row: int, day: str, now: datetime, *, kept: str = "") -> None:
    query = "UPDATE unasked SET state = 'queued', chunks = ?, day = ?, ended_at = ? WHERE id = ?"
    db.execute(query, (kept if len(kept) > len("[]") else "", day, stamp(now), row))


def _is_open(db: Database, source: str) -> bool:
    if not source.startswith(APPROVAL):
        return True
    query = "SELECT 1 FROM approval WHERE id = ? AND state = 'pending'"
    return db.execute(query, (source.removeprefix(APPROVAL),)).fetchone() is not None


def _written(chunks: Sequence[NewOutbound]) -> str:
    return json.dumps(
        [
            {
                "key": chunk.key,
                "target": write_conversation(chunk.conversation),
                "text": clean(chunk.text),
                "replyTo": chunk.reply_to,
                "extras": write_payload(chunk.buttons, chunk.enclosure),
                "ttl": None if chunk.ttl is None else chunk.ttl.total_seconds(),
            }
            for chunk in chunks
        ]
    )


def _read(written: str) -> list[NewOutbound]:
    chunks = []
    for one in json.loads(written):
        buttons, enclosure = read_payload(one["extras"])
        chunks.append(
            NewOutbound(
                conversation=read_conversation(one["target"]),
                text=one["text"],
                reply_to=one["replyTo"],
                ttl=None if one["ttl"] is None else timedelta(seconds=one["ttl"]),
                key=one["key"],
                buttons=buttons,
                enclosure=enclosure,
            )
        )
    return chunks


def read_row(found: Any) -> UnaskedRow:
    """Read an unasked message, selected as ``COLUMNS``."""
    row, agent, source, name, conversation, state, written, made_at = found
    chunks = _read(written)
    first = chunks[0]
    text = first.text if first.enclosure is None else f"{first.enclosure.shown} {first.text}".rstrip()
    return UnaskedRow(
        id=row,
        agent=agent,
        source=source,
        name=name,
        conversation=conversation,
        state=state,
        text=text[:_SHOWN],
        chunks=len(chunks),
        since=instant(made_at),
    )
