"""Writes mails: headers that cannot be broken out of, threading, attachments; and shows people what a mail will be."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime, formataddr, parseaddr
from typing import Final

from agent.errors import MailRefused
from channels.common.mail.header_text import POLICY, literal, serialised
from channels.common.mail.mail_addresses import Address, header_of
from gateway.mail.recipients import valid
from gateway.media.file_types import format_size, media_type, safe_name

MOST_FILES: Final = 20


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A file that goes with a mail. ``path``: where it was read from, for people."""

    path: str
    name: str
    data: bytes
    media_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A mail to be sent. ``answers``: what it answers or forwards, for people; ``in_reply_to`` and ``references`` are Message-IDs."""

    account: str
    sender: str
    to: tuple[Address, ...]
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    subject: str = ""
    text: str = ""
    message_id: str = ""
    in_reply_to: str = ""
    references: tuple[str, ...] = ()
    answers: str = ""
    files: tuple[Enclosure, ...] = ()

    @property
    def recipients(self) -> tuple[str, ...]:
        """All addresses that it goes to, each once."""
        return tuple({one.address.casefold(): one.address for one in (*self.to, *self.cc, *self.bcc)}.values())


def sender_of(given: str) -> Address:
    """Return the sender of an account. Raises MailRefused where the address cannot be used."""
    name, address = parseaddr(given)
    return Address(valid(address, "fromAddress"), name)


def message_id_for(key: str, sender: str) -> str:
    """Return the Message-ID of a mail: the same for the same call, so that a repeat is recognised."""
    domain = sender_of(sender).address.rpartition("@")[2]
    return f"<{hashlib.blake2b(key.encode('utf-8', 'replace'), digest_size=16).hexdigest()}.homebody@{domain}>"


def one_line(text: str, field: str) -> str:
    """Return a text for a header. Raises MailRefused where it holds a line end or another control character."""
    if any(unicodedata.category(char) in {"Cc", "Zl", "Zp"} for char in text):
        raise MailRefused(f"{field}: holds a line end or another control character")
    return text.strip()


def written(letter: Letter, at: datetime) -> bytes:
    """Return a mail as bytes. Recipients in ``bcc`` are in no header.

    Raises:
        MailRefused: it holds what no mail can hold.
    """
    mail = EmailMessage(policy=POLICY)
    sender = sender_of(letter.sender)
    try:
        mail["From"] = formataddr((sender.name, sender.address))
        for name, found in (("To", letter.to), ("Cc", letter.cc)):
            if found:
                mail[name] = header_of(found)
        mail["Subject"] = literal(one_line(letter.subject, "subject"))
        mail["Date"] = format_datetime(at)
        mail["Message-ID"] = letter.message_id
        if letter.in_reply_to:
            mail["In-Reply-To"] = letter.in_reply_to
            mail["References"] = " ".join(dict.fromkeys((*letter.references, letter.in_reply_to)))
        mail.set_content(letter.text if letter.text.endswith("\n") else f"{letter.text}\n", charset="utf-8")
        for file in letter.files:
            _enclose(mail, file)
        return serialised(mail)
    except (ValueError, LookupError, UnicodeError) as error:
        raise MailRefused(f"the mail cannot be written: {error}") from error


def _enclose(mail: EmailMessage, file: Enclosure) -> None:
    # a mail goes as bytes: one that is broken is passed on as it came
    kind = "application/octet-stream" if file.media_type == "message/rfc822" else media_type(file.data)
    major, _, minor = kind.partition("/")
    mail.add_attachment(file.data, maintype=major, subtype=minor, filename=literal(safe_name(file.name, kind)))


def shown(letter: Letter) -> str:
    """Return the whole mail for the owner who is asked about it: all that is sent, with each address first."""
    lines = [f"Account: {letter.account}", f"From: {sender_of(letter.sender).shown}"]
    for name, found in (("To", letter.to), ("Cc", letter.cc), ("Bcc", letter.bcc)):
        if found:
            lines.append(f"{name}: {', '.join(one.shown for one in found)}")
    lines += [f"⚠️ {one.warning}" for one in (*letter.to, *letter.cc, *letter.bcc) if one.warning]
    lines.append(f"Subject: {letter.subject}")
    lines += [letter.answers] if letter.answers else []
    lines += [f"Attached: {_file_line(file)}" for file in letter.files]
    return "\n".join([*lines, "", letter.text.rstrip()])


def _file_line(file: Enclosure) -> str:
    return f"{file.path} ({format_size(len(file.data))}, SHA-256 {hashlib.sha256(file.data).hexdigest()[:12]})"


def headline(letter: Letter) -> str:
    """Return what a mail is in a few words."""
    named: Sequence[str] = [one.address for one in (*letter.to, *letter.cc, *letter.bcc)]
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""  # noqa: PLR2004 -- three fit into a line
    return f"send a mail to {', '.join(named[:3])}{more}: {letter.subject[:80]}"
