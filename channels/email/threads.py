"""Which mails belong together: threads by ``References`` and ``In-Reply-To``, and the Message-IDs of our own mails.

The id of a mail of ours says which thread it is in, so that an answer finds it even where the sender's program keeps nothing but the
latest reference.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from channels.common.mail.mail_headers import MailHeaders

MAIN: Final = "main"
"""The thread of mails that answer nothing, in our Message-IDs."""
MOST_REMEMBERED: Final = 500
_REFERENCE: Final = re.compile(r"<(?![^<>\s]*=\?)[^<>\s]{1,250}>")
"""An id of a mail; none with an encoded word in it, which Python's ``email`` would decode in the headers of an answer."""
_OURS: Final = re.compile(rf"<[0-9a-f]{{24}}\.(?P<thread>[0-9a-f]{{16}}|{MAIN})\.homebody@(?P<domain>[^<>\s@]+)>")


@dataclass(frozen=True, slots=True)
class Answered:
    """The mail that an answer goes to: what its answer needs of it."""

    subject: str
    message_id: str
    references: tuple[str, ...]


def message_id_of(key: str, account: str, thread: str | None, address: str) -> str:
    """Return the Message-ID of an outgoing mail: the same for the same outbox key."""
    digest = hashlib.blake2b(f"{account}\n{key}".encode("utf-8", "replace"), digest_size=12).hexdigest()
    return f"<{digest}.{thread or MAIN}.homebody@{address.rpartition('@')[2]}>"


def references_of(headers: MailHeaders) -> tuple[str, ...]:
    """Return what a mail refers to, the latest last."""
    replied = _REFERENCE.findall(str(headers.parsed.get("In-Reply-To", "")))[:1]
    return tuple(dict.fromkeys((*headers.references, *replied)))


def answers_ours(headers: MailHeaders, address: str) -> bool:
    """Return whether a mail answers one of ours."""
    return any(_ours(one, address) for one in references_of(headers))


def thread_of(headers: MailHeaders, address: str, otherwise: str) -> str | None:
    """Return the thread of a mail; None for an answer to a mail of ours that is in none. ``otherwise`` stands for a missing Message-ID."""
    referred = references_of(headers)
    for one in reversed(referred):
        if found := _ours(one, address):
            return None if found == MAIN else found
    root = referred[0] if referred else headers.message_id or otherwise
    return hashlib.blake2b(root.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _ours(message_id: str, address: str) -> str:
    match = _OURS.fullmatch(message_id)
    return match["thread"] if match and match["domain"].casefold() == address.rpartition("@")[2].casefold() else ""


class Latest:
    """The latest mail of each conversation that was read lately, by the person's id and the thread."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None], Answered] = {}

    def note(self, person: str, thread: str | None, mail: Answered) -> None:
        """Remember a mail as the latest of its conversation."""
        self._known.pop((person, thread), None)
        self._known[person, thread] = mail
        while len(self._known) > MOST_REMEMBERED:
            del self._known[next(iter(self._known))]

    def of(self, person: str, thread: str | None) -> Answered | None:
        """Return the latest mail of a conversation, if it is remembered."""
        return self._known.get((person, thread))


def latest_in(found: Iterable[MailHeaders], person_address: str, thread: str | None, address: str) -> Answered | None:
    """Return the latest mail of a conversation among mails, which come with the newest first."""
    for headers in found:
        if headers.from_address.casefold() == person_address and thread_of(headers, address, "") == thread:
            return answered(headers)
    return None


def answered(headers: MailHeaders) -> Answered:
    """Return what an answer to a mail needs."""
    return Answered(headers.subject, headers.message_id, references_of(headers))
