"""What an IMAP server is asked to search for (RFC 3501, section 6.4.4): criteria, dates and strings as the protocol has them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final

MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
"""The names of months in IMAP, whatever language the machine speaks."""
LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Criteria:
    """What IMAP is asked. ``reads_mails``: the server may have to read every mail, not only its index."""

    text: bytes
    reads_mails: bool = False


def imap_date(day: date) -> str:
    """Return a date as IMAP has it."""
    return f"{day.day:02d}-{MONTHS[day.month - 1]}-{day.year:04d}"


def quoted(text: str) -> bytes:
    """Return a string of a command. Line ends, which would end the command, become spaces."""
    plain = "".join(char if ord(char) >= ord(" ") and char != "\x7f" else " " for char in text[:LONGEST])
    return b'"' + plain.encode("utf-8", "replace").replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
