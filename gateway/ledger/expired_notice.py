"""The notice that lists what a conversation did not get in time, in place of many late replies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypedDict

from channels.messages import Button
from gateway.ledger.database import Database
from gateway.ledger.rows import CHAT_TTL, IN_DOUBT, NOTICE_TTL, RESTORED
from gateway.ledger.values import NUMBERS, listed, read_payload, stamp, write_payload

_AFTER_ALL = write_payload([Button(label="📬 Show me", value="/missed")], None)
_LEFT_ALONE = "reason IN ('dropped by the owner', 'queued before a restore', 'told in a later notice')"
REFUSED = (
    f"NOT ({_LEFT_ALONE} OR reason = 'expired' OR substr(reason, 1, 16) = 'may have arrived' OR reason IN (:doubt, :restored))"
)
"""Whether a platform refused a chunk for good, or failed on it while others went through. It needs ``doubt`` and ``restored``."""
_SHOWN = 10
_PREVIEW = 80


class _Missed(TypedDict):
    count: int
    items: list[str]


def queue_notice(db: Database, rows: Sequence[int], *, now: datetime, token: Callable[[], str]) -> None:
    """Queue a notice that lists the dead chunks ``rows`` of one conversation, in their place.

    It replaces a notice that is not sent yet. Notices themselves are not listed.
    """
    query = (
        "SELECT id, place, conversation, account, target, text, doubts, extras FROM outbox "
        f"WHERE id IN {NUMBERS} AND missed IS NULL ORDER BY place, id"
    )
    found: list[Any] = db.execute(query, (listed(rows),)).fetchall()
    if not found:
        return
    _, place, conversation, account, target, *_ = found[0]
    earlier = _take_up(db, str(conversation), now)
    missed = _Missed(
        count=len(found) + sum(notice["count"] for _, notice in earlier),
        items=[item for _, notice in earlier for item in notice["items"]]
        + [_item(row[5] or _name(row[7]), row[6]) for row in found],
    )
    missed["items"] = missed["items"][-_SHOWN:]
    values = (
        *(min([place, *(at for at, _ in earlier)]), token(), account, conversation, target),
        *(_text(missed), _AFTER_ALL, json.dumps(missed), stamp(now), stamp(now), stamp(now + NOTICE_TTL)),
    )
    db.execute(
        "INSERT INTO outbox (place, key, account, conversation, target, text, extras, missed, state, epoch, created_at, "
        "not_before, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'ready', (SELECT value FROM meta WHERE name = 'epoch'), ?, ?, ?)",
        values,
    )


def revive_expired(db: Database, conversation: str, now: datetime, *, named: bool) -> int:
    """Make what a conversation missed ready again, in its old order; return how many chunks.

    That is what a notice listed, what the platform refused, once where it is ``named`` otherwise, and what is in doubt since the ledger
    was damaged. Chunks that may have arrived are marked as repeated. Notices are left out.
    """
    db.execute(
        "UPDATE outbox SET state = 'ready', reason = NULL, ended_at = NULL, firm = 0, not_before = :now, expires = :expires, "
        "doubts = CASE WHEN reason IN (:doubt, :restored) THEN 1 ELSE min(doubts, 1) END, "
        "epoch = (SELECT value FROM meta WHERE name = 'epoch') WHERE conversation = :at AND state = 'dead' AND missed IS NULL "
        f"AND NOT ({_LEFT_ALONE}) AND NOT (:named = 1 AND attempt > 1 AND {REFUSED}) AND ended_at > :since "
        "AND NOT (text = '' AND extras IS NULL)",
        {
            "at": conversation,
            "now": stamp(now),
            "expires": stamp(now + CHAT_TTL),
            "since": stamp(now - NOTICE_TTL),
            "doubt": IN_DOUBT,
            "restored": RESTORED,
            "named": int(named),
        },
    )
    return db.changes()


def _take_up(db: Database, conversation: str, now: datetime) -> list[tuple[int, _Missed]]:
    query = (
        "UPDATE outbox SET state = 'dead', reason = 'told in a later notice', ended_at = ? "
        "WHERE conversation = ? AND missed IS NOT NULL AND state = 'ready' AND doubts = 0 RETURNING place, missed"
    )
    found: list[Any] = db.execute(query, (stamp(now), conversation)).fetchall()
    return [(place, json.loads(missed)) for place, missed in sorted(found)]


def _item(text: str, doubts: int) -> str:
    plain = re.sub(r"[*_`\[\]#>~|]", "", " ".join(text.split()))
    short = plain if len(plain) <= _PREVIEW else f"{plain[: _PREVIEW - 1].rstrip()}…"
    return f"{short} (may have arrived)" if doubts else short


def _name(extras: str | None) -> str:
    """Return the text for a file without a caption."""
    _, enclosure = read_payload(extras)
    return "" if enclosure is None else enclosure.shown


def _text(missed: _Missed) -> str:
    count = missed["count"]
    head = "One message could not be delivered in time:" if count == 1 else f"{count} messages could not be delivered in time:"
    more = count - len(missed["items"])
    lines = [head, *([f"- ({more} earlier ones)"] if more else []), *(f"- {item}" for item in missed["items"])]
    return "\n".join([*lines, "", "Say /missed to have them after all."])
