"""The headers of a received mail that matter, whatever is in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.message import Message
from email.parser import HeaderParser
from email.utils import parsedate_to_datetime
from typing import Final

from channels.common.mail.mail_addresses import Address, addresses_of
from channels.common.mail.mime_parts import decoded_words

MOST_BYTES: Final = 65_536
"""Of the headers of a mail so much is read."""
LONGEST_SUBJECT: Final = 300
_REFERENCE: Final = re.compile(r"<(?![^<>\s]*=\?)[^<>\s]{1,250}>")
"""An id of a mail; none with an encoded word in it, which Python's ``email`` would decode in the headers of an answer."""
_MOST_REFERENCES: Final = 30
_CHECKS: Final = re.compile(r"\b(spf|dkim|dmarc|arc)\s*=\s*([a-z]+)", re.IGNORECASE)
_WORDS: Final = 2
"""The last words of a server's name that two servers of one provider share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailHeaders:
    """Headers of a mail, decoded. ``date`` is what the sender says. ``checks``: what the owner's server found of the sender, or "".

    ``parsed``: all headers as they came.
    """

    sender: tuple[Address, ...] = ()
    reply_to: tuple[Address, ...] = ()
    to: tuple[Address, ...] = ()
    cc: tuple[Address, ...] = ()
    subject: str = ""
    date: datetime | None = None
    message_id: str = ""
    references: tuple[str, ...] = ()
    checks: str = ""
    checked_by: str = ""
    automatic: bool = field(default=False)
    parsed: Message = field(default_factory=Message, repr=False, compare=False)

    @property
    def from_address(self) -> str:
        """The address of the sender alone, for naming the source."""
        return self.sender[0].address if self.sender else "unknown"

    @property
    def answer_to(self) -> tuple[Address, ...]:
        """Where an answer goes."""
        return self.reply_to or self.sender


def headers_of(raw: bytes, trusted: Sequence[str] = ()) -> MailHeaders:
    """Read headers. ``trusted``: the names with which the owner's server signs its checks, or their last words after a dot."""
    message = HeaderParser().parsestr(_decoded(raw[:MOST_BYTES]))
    by, checks = _checks(message, trusted)
    referred = _REFERENCE.findall(_one(message, "References")) or _REFERENCE.findall(_one(message, "In-Reply-To"))
    return MailHeaders(
        sender=tuple(addresses_of(_one(message, "From"))[:5]),
        reply_to=tuple(addresses_of(_one(message, "Reply-To"))[:10]),
        to=tuple(addresses_of(_joined(message, "To"))),
        cc=tuple(addresses_of(_joined(message, "Cc"))),
        subject=decoded_words(_one(message, "Subject"))[:LONGEST_SUBJECT],
        date=date_of(_one(message, "Date")),
        message_id=next(iter(_REFERENCE.findall(_one(message, "Message-ID"))), ""),
        references=(referred[0], *referred[1:][-_MOST_REFERENCES:]) if referred else (),
        checks=checks,
        checked_by=by,
        automatic=_one(message, "Auto-Submitted").strip().lower() not in {"", "no"},
        parsed=message,
    )


def date_of(text: str) -> datetime | None:
    """Return the date of a header or of IMAP, with a zone; None where it is none."""
    try:
        found = parsedate_to_datetime(text.strip())
        return found if found.tzinfo is not None else found.astimezone()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def reply_subject(subject: str, prefix: str) -> str:
    """Return a subject with ``Re:`` or ``Fwd:`` in front, once."""
    known = r"(?:re|aw|sv|antw)" if prefix == "Re" else r"(?:fwd?|wg)"
    return subject if re.match(rf"\s*{known}\s*:", subject, re.IGNORECASE) else f"{prefix}: {subject}"


def _checks(message: Message, trusted: Sequence[str]) -> tuple[str, str]:
    """Return who checked the sender and what was found, by the topmost such header of the owner's server; a sender can add others."""
    for value in message.get_all("Authentication-Results", [])[:20]:
        words = str(value).split(";", 1)
        signer = words[0].strip().split(" ")[0].lower()
        if not signer or not any(signer == one or signer.endswith(f".{one.lstrip('.')}") for one in trusted):
            continue
        found = {name.lower(): result.lower() for name, result in reversed(_CHECKS.findall(words[1] if len(words) > 1 else ""))}
        return signer[:100], ", ".join(
            f"{name}={found[name]}" for name in ("spf", "dkim", "dmarc", "arc") if name in found
        ) or "none"
    return "", ""


def provider_of(host: str) -> str:
    """Return the last words of a server's name, which the other servers of its provider mostly share."""
    words = host.lower().split(".")
    return ".".join(words[-_WORDS:]) if not words[-1].isdigit() else host


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def _one(message: Message, name: str) -> str:
    return str(message.get(name, ""))


def _joined(message: Message, name: str) -> str:
    return ", ".join(str(one) for one in message.get_all(name, [])[:20])
