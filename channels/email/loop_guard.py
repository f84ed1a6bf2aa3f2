"""Which mails are never answered: those of programs, lists and other machines, whose answers to answers would not end (RFC 3834)."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from datetime import datetime, timedelta
from email.message import Message
from typing import Final

_PRECEDENCE: Final = frozenset({"bulk", "junk", "list", "auto_reply", "auto-reply"})
_LIST_HEADERS: Final = ("List-Id", "List-Unsubscribe", "List-Post", "Feedback-ID")
_PROGRAMS: Final = frozenset(
    {
        "mailer-daemon",
        "postmaster",
        "noreply",
        "no-reply",
        "donotreply",
        "do-not-reply",
        "bounce",
        "bounces",
        "listserv",
        "majordomo",
    }
)
_MINUTE: Final = timedelta(minutes=1)
MOST_SENDERS: Final = 1000


def why_not(headers: Message, author: str, own: Collection[str]) -> str:
    """Return why a mail is not answered, "" if it may be. ``own``: the addresses of the mailbox in small letters."""
    local = author.partition("@")[0].casefold()
    for holds, why in (
        (not author or "@" not in author, "it has no sender"),
        (author.casefold() in own, "it comes from this mailbox itself"),
        (is_bounce(headers), "it is a delivery report"),
        (_one(headers, "Auto-Submitted").partition(";")[0].strip() not in {"", "no"}, "a program sent it (Auto-Submitted)"),
        (_one(headers, "Precedence") in _PRECEDENCE, "it was sent in bulk (Precedence)"),
        (any(headers.get(name) for name in _LIST_HEADERS), "it comes from a list"),
        (bool(_one(headers, "X-Autoreply") or _one(headers, "X-Autorespond")), "it is an automatic answer"),
        (local in _PROGRAMS or local.startswith("bounce+"), "its sender takes no mail"),
    ):
        if holds:
            return why
    return ""


def is_bounce(headers: Message) -> bool:
    """Return whether a mail is a report on another mail."""
    return _one(headers, "Return-Path") == "<>" or headers.get_content_type() == "multipart/report"


def _one(headers: Message, name: str) -> str:
    return str(headers.get(name, "")).strip().lower()


class Rate:
    """Counts the mails of each sender within a minute, by when they arrived."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._arrived: dict[str, deque[datetime]] = {}

    def is_too_high(self, sender: str, at: datetime) -> bool:
        """Note a mail, and return whether its sender has sent more than a person does."""
        times = self._arrived.pop(sender, deque())
        self._arrived[sender] = times  # the latest ones stay
        times.append(at)
        while times and at - times[0] > _MINUTE:
            times.popleft()
        while len(times) > self._most + 1:
            times.popleft()
        while len(self._arrived) > MOST_SENDERS:
            del self._arrived[next(iter(self._arrived))]
        return len(times) > self._most
