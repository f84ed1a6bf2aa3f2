"""What is searched for: words like ``from:anna since:2026-01-01 invoice``, turned into IMAP's criteria (RFC 3501, section 6.4.4)."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Final

from agent.errors import MailRefused
from channels.common.mail.imap_criteria import Criteria, imap_date, quoted

MOST_TERMS: Final = 20
_TERM: Final = re.compile(r'(?P<minus>-?)(?:(?P<key>[A-Za-z_]+):)?(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+))')
_TEXTS: Final = {"from": "FROM", "to": "TO", "cc": "CC", "subject": "SUBJECT", "text": "TEXT", "body": "BODY"}
_DATES: Final = {"since": "SINCE", "after": "SINCE", "before": "BEFORE", "on": "ON"}
_STATES: Final = {
    "unread": "UNSEEN",
    "unseen": "UNSEEN",
    "read": "SEEN",
    "seen": "SEEN",
    "flagged": "FLAGGED",
    "starred": "FLAGGED",
    "answered": "ANSWERED",
}
_UNKNOWN: Final = frozenset({"has", "label", "filename", "larger", "smaller", "in", "category", "older_than", "size"})
"""What other mail programs have, and would find the wrong mails if it were taken for a word."""
KNOWN: Final = "from: to: cc: subject: text: since: before: on: newer_than:7d is:unread is:flagged, and words"


def criteria_of(query: str, today: date, *, unread: bool = False) -> Criteria:
    """Return the criteria of a query. A word stands for itself in any part of a mail; all must hold.

    Raises:
        MailRefused: it has a key that is not known, or a date that is none.
    """
    if any(ord(char) < ord(" ") or char == "\x7f" for char in query):
        query = " ".join(query.split())
    terms = list(_TERM.finditer(query))
    if len(terms) > MOST_TERMS:
        raise MailRefused(f"query: {len(terms)} terms; at most {MOST_TERMS} are possible")
    found: list[bytes] = [b"UNSEEN"] if unread else []
    reads = False
    for term in terms:
        key, value = (term["key"] or "").lower(), term["quoted"] if term["quoted"] is not None else term["plain"]
        if key and key not in {*_TEXTS, *_DATES, *_UNKNOWN, "is", "newer_than"}:
            key, value = "", f"{term['key']}:{value}"
        if key in _UNKNOWN:
            raise MailRefused(f"query: {key}: cannot be searched for; there is {KNOWN}")
        if not value:
            continue
        one = _term(key, value, today)
        reads = reads or one.startswith((b"TEXT", b"BODY"))
        found.append(b"NOT " + one if term["minus"] else one)
    return Criteria(b" ".join(found) or b"ALL", reads)


def _term(key: str, value: str, today: date) -> bytes:
    if key in _DATES:
        return f"{_DATES[key]} {imap_date(_date(value, key))}".encode()
    if key == "newer_than":
        match = re.fullmatch(r"(\d{1,5})([dwmy])", value.lower())
        if match is None:
            raise MailRefused(f"query: newer_than:{value[:20]} is none; write it like newer_than:7d")
        days = int(match[1]) * {"d": 1, "w": 7, "m": 31, "y": 366}[match[2]]
        return f"SINCE {imap_date(max(date(1990, 1, 1), today - timedelta(days=min(days, 20_000))))}".encode()
    if key == "is":
        if value.lower() not in _STATES:
            raise MailRefused(f"query: is:{value[:20]} is not known; there is is:{', is:'.join(_STATES)}")
        return _STATES[value.lower()].encode()
    return _TEXTS.get(key, "TEXT").encode() + b" " + quoted(value)


def _date(value: str, key: str) -> date:
    try:
        return date.fromisoformat(value.replace("/", "-"))
    except ValueError as error:
        raise MailRefused(f"query: {key}:{value[:20]} is no date; write it like {key}:2026-01-31") from error
