"""What models and people are shown of mails and mailboxes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo

from agent.taint import source
from channels.common.mail.mail_addresses import Address
from channels.common.mail.mime_parts import MimePart
from channels.common.mail.stored_mail import StoredMail, Summary
from gateway.media.file_types import format_size, safe_name


def sources_of(addresses: Iterable[Address | str]) -> tuple[str, ...]:
    """Return the sources of untrusted text that mails of these senders are, each once."""
    plain = [one if isinstance(one, str) else one.address for one in addresses]
    return tuple(dict.fromkeys(source("mail", one) for one in plain))


def listed(summary: Summary, name: str, zone: tzinfo | None) -> str:
    """Return a mail as a line of a list: when, who, what about, and its id."""
    marks = [word for word, on in (("unread", summary.unread), ("flagged", "\\flagged" in summary.flags)) if on]
    marks += [f"{summary.attachments} attached"] if summary.attachments else []
    sender = summary.headers.sender[0].shown if summary.headers.sender else "(no sender)"
    suffix = f" [{', '.join(marks)}]" if marks else ""
    return f"{name} {when(summary.arrived or summary.headers.date, zone)} {sender}: {summary.headers.subject or '(no subject)'}{suffix}"


def mail_text(mail: StoredMail, name: str, text: str, zone: tzinfo | None) -> str:
    """Return a mail: the headers that matter, its attachments, its text."""
    headers, summary = mail.summary.headers, mail.summary
    lines = [f"{name}{' (unread)' if summary.unread else ''}", f"From: {_named(headers.sender) or '(no sender)'}"]
    lines += [f"⚠️ {one.warning}" for one in headers.sender if one.warning]
    different = {one.address.casefold() for one in headers.reply_to} - {one.address.casefold() for one in headers.sender}
    lines += [f"Reply-To: {_named(headers.reply_to)} (answers go there, not to the sender)"] if different else []
    lines += [f"{label}: {_named(found)}" for label, found in (("To", headers.to), ("Cc", headers.cc)) if found]
    lines += [f"Date: {when(headers.date, zone)}"] if headers.date else []
    lines += [f"Arrived: {when(summary.arrived, zone)}"] if summary.arrived else []
    lines.append(f"Subject: {headers.subject or '(no subject)'}")
    if headers.checks:
        lines.append(f"Checks of the sender by your mail server ({headers.checked_by}): {headers.checks}")
    else:
        lines.append("Checks of the sender by your mail server: none told")
    lines += [f"Attachment {number}: {_attachment(part)}" for number, part in enumerate(mail.attachments, 1)]
    return "\n".join([*lines, "", text or "(no text)", *(["[more texts of this mail were left out]"] if mail.cut else [])])


def when(at: datetime | None, zone: tzinfo | None) -> str:
    """Return a time in the owner's zone."""
    return f"{at.astimezone(zone):%a %Y-%m-%d %H:%M}" if at else "(no date)"


def attachment_name(part: MimePart) -> str:
    """Return a safe name for the file of a part."""
    return safe_name(part.name or ("mail.eml" if part.media_type == "message/rfc822" else ""), part.media_type, "attachment")


def _attachment(part: MimePart) -> str:
    size = part.size * 3 // 4 if part.encoding == "base64" else part.size
    return f"{attachment_name(part)} ({part.media_type}, about {format_size(size)})"


def _named(found: Sequence[Address]) -> str:
    more = f" and {len(found) - 20} more" if len(found) > 20 else ""  # noqa: PLR2004 -- as many as a reader takes in
    return ", ".join(one.shown for one in found[:20]) + more


def page(text: str, offset: int, most: int) -> str:
    """Return the part of a text from ``offset`` on that fits, and how to go on."""
    if offset >= len(text) and offset:
        return f"[nothing from {offset:,} on: the text has {len(text):,} characters]"
    end = offset + max(500, most - 200)
    shown = text[offset:end]
    if offset == 0 and len(text) <= most:
        return text
    left = f"; go on with offset={end}" if end < len(text) else ""
    return f"{shown}\n[characters {offset:,} to {min(end, len(text)):,} of {len(text):,}{left}]"
