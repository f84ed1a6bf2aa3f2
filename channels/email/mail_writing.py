"""Writes the mails of the agent: plain text with a simple HTML alternative, in their thread, and marked as written by a program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime, formataddr, parseaddr
from typing import TYPE_CHECKING, Final

from channels.common.control_characters import visible
from channels.common.mail.header_text import POLICY, literal, serialised
from channels.common.mail.mail_headers import reply_subject
from channels.common.markdown import plain, styled
from channels.errors import NotSent

if TYPE_CHECKING:
    from channels.email.threads import Answered

_LONGEST_SUBJECT: Final = 70
_MOST_REFERENCES: Final = 20
_STYLE: Final = "font-family: sans-serif; font-size: 15px; line-height: 1.45"
_KIND: Final = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,80}")
_NOT_IN_NAMES: Final = re.compile(r"[\x00-\x1f\x7f/\\]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMail:
    """A mail to be written. ``answers``: the mail that it answers; ``file``: name, kind and content of a file that goes with it."""

    sender: str
    to: str
    message_id: str
    text: str
    at: datetime
    answers: Answered | None = None
    file: tuple[str, str, bytes] | None = None


def written(outgoing: OutgoingMail) -> bytes:
    """Return a mail as bytes.

    Raises:
        NotSent: it holds what no mail can hold.
    """
    mail = EmailMessage(policy=POLICY)
    try:
        mail["From"] = formataddr(parseaddr(outgoing.sender))
        mail["To"] = outgoing.to
        mail["Subject"] = literal(_subject(outgoing))
        mail["Date"] = format_datetime(outgoing.at)
        mail["Message-ID"] = outgoing.message_id
        if outgoing.answers is not None and outgoing.answers.message_id:
            former = outgoing.answers.references
            kept = (*former[:1], *former[1:][-_MOST_REFERENCES:], outgoing.answers.message_id)
            mail["In-Reply-To"] = outgoing.answers.message_id
            mail["References"] = " ".join(dict.fromkeys(kept))
        mail["Auto-Submitted"] = "auto-replied" if outgoing.answers is not None else "auto-generated"
        mail["X-Auto-Response-Suppress"] = "All"
        text = outgoing.text.strip("\n")
        mail.set_content(f"{text}\n", charset="utf-8")
        if text.strip():
            mail.add_alternative(_html(text), subtype="html", charset="utf-8")
        if outgoing.file is not None:
            _enclose(mail, *outgoing.file)
        return serialised(mail)
    except (ValueError, LookupError, UnicodeError) as error:
        raise NotSent(f"the mail cannot be written: {error}", permanent=True) from error


def _subject(outgoing: OutgoingMail) -> str:
    """Return the subject of what is answered, or else the beginning of the text."""
    if outgoing.answers is not None and outgoing.answers.subject.strip():
        return reply_subject(" ".join(outgoing.answers.subject.split()), "Re")
    said = " ".join(visible(plain(styled(outgoing.text[:2000]))).split()) or (outgoing.file[0] if outgoing.file else "")
    if len(said) <= _LONGEST_SUBJECT:
        return said
    head = said[:_LONGEST_SUBJECT]
    return f"{(head.rpartition(' ')[0] or head).rstrip(',;:')} …"


def _html(markdown: str) -> str:
    """Return a text as simple HTML. Tags in it are shown as they are written, and nothing is loaded from anywhere."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"]).disable("image")
    return f'<!DOCTYPE html>\n<html><body style="{_STYLE}">\n{parser.render(markdown)}</body></html>\n'


def _enclose(mail: EmailMessage, name: str, kind: str, content: bytes) -> None:
    usable = _KIND.fullmatch(kind) and not kind.startswith(("multipart/", "message/"))
    major, _, minor = (kind if usable else "application/octet-stream").partition("/")
    mail.add_attachment(
        content, maintype=major, subtype=minor, filename=literal(_NOT_IN_NAMES.sub("_", visible(name))) or "file"
    )
