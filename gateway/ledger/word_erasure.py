"""Removes somebody's words from rows of the ledger that have ended: keys and states stay, so that nothing is taken or sent twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from gateway.ledger.database import Database
from gateway.ledger.rows import message_uid
from gateway.ledger.thread import LedgerConnection
from gateway.ledger.values import WITHIN, clean, listed

NAMELESS: Final = "removed"
"""The name of a sub-agent or a job whose name was removed."""
_OF_SESSIONS: Final = (
    "(asked_in IN (SELECT value FROM json_each(:sessions)) "
    "OR 'agent:' || agent || ':job:' || id IN (SELECT value FROM json_each(:sessions)))"
)
"""Jobs that were asked for in the sessions, or ran in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """Whose words are removed: those of ``person`` in a conversation, and what ``holds`` them there and in ``sessions``.

    ``everything``: all that the person wrote and was answered. ``request`` is the id of their request, whose messages name the words.
    """

    request: str
    conversation: str
    sessions: frozenset[str]
    person: str
    everything: bool
    holds: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class NamedSubAgent:
    """A sub-agent of a conversation: its session's key, its label, and whether it works on a message of the person."""

    session: str
    label: str
    theirs: bool


class WordErasurePart:
    """Finds and removes words. All in one transaction, on the ledger's thread."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection

    async def subagents(self, conversation: str, person: str, ours: Callable[[dict[str, str]], bool]) -> list[NamedSubAgent]:
        """Return the sub-agents whose readers, as in their rows, are ``ours``."""

        def work(db: Database) -> list[NamedSubAgent]:
            own = _requests(db, conversation, person)
            rows: list[Any] = db.execute("SELECT session, label, request, payload FROM subagent").fetchall()
            return [
                NamedSubAgent(str(session), str(label), request in own)
                for session, label, request, payload in rows
                if ours((_read(payload) or {}).get("audience") or {})
            ]

        return await self._connection.run(work)

    async def erase(self, wanted: Erasure) -> int:
        """Remove the words from rows that have ended; return how many rows hold them still, because a turn needs them.

        A function of ``wanted`` may be called twice.
        """

        def work(db: Database) -> int:
            own_turns = _turns(db, wanted)
            left = _inbox(db, wanted) + _outbox(db, wanted, own_turns) + _unasked(db, wanted) + _subagents(db, wanted)
            _jobs(db, wanted)
            _others(db, wanted)
            return left

        return await self._connection.run(work)


def _inbox(db: Database, wanted: Erasure) -> int:
    query = (
        f"SELECT id, sender, {WITHIN}, payload, ended_at FROM inbox WHERE payload IS NOT NULL "
        f"AND ({WITHIN} OR session IN (SELECT value FROM json_each(:sessions)))"
    )
    left = 0
    for row, sender, here, payload, ended in _found(db, query, wanted):
        own = wanted.everything and here and sender == wanted.person
        if not own and not _holds(wanted, payload):
            continue
        left += ended is None
        db.execute("UPDATE inbox SET payload = NULL WHERE id = ? AND ended_at IS NOT NULL", (row,))
    return left


def _outbox(db: Database, wanted: Erasure, own_turns: frozenset[str]) -> int:
    """Remove messages to the conversation, and those that no turn wrote, such as notices to the owner, wherever they went."""
    query = (
        "SELECT id, turn, text, coalesce(recorded, ''), extras, missed, ended_at, key FROM outbox "
        "WHERE (text <> '' OR extras IS NOT NULL OR recorded IS NOT NULL OR missed IS NOT NULL) "
        f"AND ({WITHIN} OR turn IS NULL OR substr(key, 1, length(:asked)) = :asked "
        "OR turn IN (SELECT id FROM turn WHERE session IN (SELECT value FROM json_each(:sessions))))"
    )
    left = 0
    for row, turn, text, recorded, extras, missed, ended, key in _found(db, query, wanted):
        asked = str(key).startswith(f"f.{wanted.request}.")
        if not (asked or turn in own_turns or _holds(wanted, text, recorded, extras, missed)):
            continue
        left += ended is None
        change = (
            "UPDATE outbox SET text = '', recorded = NULL, extras = NULL, missed = NULL WHERE id = ? AND ended_at IS NOT NULL"
        )
        db.execute(change, (row,))
    return left


def _unasked(db: Database, wanted: Erasure) -> int:
    left = 0
    query = (
        f"SELECT id, name, chunks, state FROM unasked WHERE {WITHIN} OR source IN "
        f"(SELECT 'job:' || id FROM job WHERE {_OF_SESSIONS})"
    )
    for row, name, chunks, state in _found(db, query, wanted):
        if _holds(wanted, name):
            db.execute("UPDATE unasked SET name = ? WHERE id = ?", (NAMELESS, row))
        if _holds(wanted, chunks):
            left += state != "queued"
            db.execute("UPDATE unasked SET chunks = '[]' WHERE id = ? AND state = 'queued'", (row,))
    return left


def _subagents(db: Database, wanted: Erasure) -> int:
    own = _requests(db, wanted.conversation, wanted.person) if wanted.everything else frozenset[str]()
    query = (
        "SELECT id, label, request, payload, state FROM subagent "
        "WHERE session IN (SELECT value FROM json_each(:sessions)) AND label <> :none"
    )
    left = 0
    for row, label, request, payload, state in _found(db, query, wanted):
        if request not in own and not _holds(wanted, label, payload):
            continue
        if state == "open":
            left += 1
            continue
        written = _read(payload) or {}
        written["task"] = ""
        if isinstance(result := written.get("result"), dict):
            result |= {"name": NAMELESS} | ({"instruction": ""} if "instruction" in result else {})
        db.execute("UPDATE subagent SET label = ?, payload = ? WHERE id = ?", (NAMELESS, json.dumps(written), row))
    return left


def _jobs(db: Database, wanted: Erasure) -> None:
    """Remove the words from jobs that have ended; those that are still planned need them."""
    for row, name, details in _found(db, f"SELECT id, name, details FROM job WHERE state = 'done' AND {_OF_SESSIONS}", wanted):
        if not _holds(wanted, name, details):
            continue
        written = (_read(details) or {}) | {"text": "", "sources": []}
        db.execute("UPDATE job SET name = ?, details = ? WHERE id = ?", (NAMELESS, json.dumps(written), row))


def _others(db: Database, wanted: Erasure) -> None:
    """Remove lines that wait to be told with the next message, and questions of turns that have ended."""
    for row, line, sources in _found(db, f"SELECT id, line, sources FROM aside WHERE {WITHIN}", wanted):
        if _holds(wanted, line, sources):
            db.execute("DELETE FROM aside WHERE id = ?", (row,))
    query = (
        "SELECT approval.id, payload FROM approval LEFT JOIN turn ON turn.id = approval.turn WHERE approval.state <> 'pending' "
        "AND approval.session IN (SELECT value FROM json_each(:sessions)) AND (turn.id IS NULL OR turn.ended_at IS NOT NULL)"
    )
    for row, payload in _found(db, query, wanted):
        if _holds(wanted, payload):
            db.execute("DELETE FROM approval WHERE id = ?", (row,))


def _turns(db: Database, wanted: Erasure) -> frozenset[str]:
    """Return the turns that answered the person, where everything is removed."""
    query = f"SELECT turn FROM inbox WHERE {WITHIN} AND sender = :person AND turn IS NOT NULL"
    return frozenset(str(turn) for (turn,) in _found(db, query, wanted)) if wanted.everything else frozenset()


def _requests(db: Database, conversation: str, person: str) -> frozenset[str]:
    query = f"SELECT account, skey FROM inbox WHERE {WITHIN} AND sender = :person"
    rows: list[Any] = db.execute(query, {"at": clean(conversation), "person": clean(person)}).fetchall()
    return frozenset(message_uid(account, alias) for account, alias in rows)


def _found(db: Database, query: str, wanted: Erasure) -> list[Any]:
    values = {
        "at": clean(wanted.conversation),
        "sessions": listed(sorted(wanted.sessions)),
        "person": clean(wanted.person),
        "asked": f"f.{wanted.request}.",
        "none": NAMELESS,
    }
    used = {name: value for name, value in values.items() if f":{name}" in query}
    rows: list[Any] = db.execute(query, used).fetchall()
    return rows


def _holds(wanted: Erasure, *texts: str | None) -> bool:
    """Return whether texts, or strings in those that are JSON, hold the words."""
    return any(wanted.holds(one) for text in texts if text for one in _strings(text))


def _strings(text: str) -> Iterator[str]:
    value = _read(text)
    if isinstance(value, (dict, list)):
        yield from _leaves(value)
    else:
        yield text


def _leaves(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for one in value.values():
                yield from _leaves(one)
        case list():
            for one in value:
                yield from _leaves(one)


def _read(text: Any) -> Any:
    try:
        return json.loads(str(text))
    except ValueError:
        return None
