"""Turns a mail into a message: who wrote it, what they wrote themselves, what they pass on, and its files."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from channels.common.control_characters import visible
from channels.common.mail.mime_parts import MimePart
from channels.common.mail.stored_mail import StoredMail, TextPart
from channels.email import reply_text
from channels.email.sender_check import is_verified
from channels.email.settings import UNVERIFIED, EmailAccount
from channels.email.threads import answers_ours, thread_of
from channels.messages import Attachment, AttachmentKind, ChatAddress, Inbound, Sender
from channels.protocol import HtmlReader

LONGEST_TEXT: Final = 200_000
MOST_FILES: Final = 20
_LITTLE: Final = 8_000
"""Bytes: pictures within HTML that are smaller are logos and the like."""
_SIGNATURES: Final = frozenset({"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"})
_TNEF: Final = frozenset({"application/ms-tnef", "application/vnd.ms-tnef"})
_FORWARDS: Final = ("fwd:", "fw:", "wg:", "tr:", "rv:", "i:", "doorst:", "enc:", "vb:", "vs:")
_ANSWERS: Final = ("re:", "aw:", "sv:", "antw:", "r:", "rif:", "res:", "odp:")
_CODECS: Final = (
    "zlib",
    "bz2",
    "hex",
    "base64",
    "quopri",
    "uu",
    "rot13",
    "unicode_escape",
    "raw_unicode_escape",
    "idna",
    "punycode",
)
"""Python's codecs that are no character sets."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a mail lies: the folder's numbering and the mail's number in it."""

    validity: int
    uid: int


class Converter:
    """Turns the mails of one account into messages."""

    def __init__(self, settings: EmailAccount, account: str) -> None:
        self._settings = settings
        self._account = account
        self.html: HtmlReader | None = None
        self.plain: Callable[[bytes, str], str] | None = None

    async def message(self, mail: StoredMail, place: Place, now: datetime) -> Inbound:
        """Return the message that a mail is."""
        headers, address = mail.summary.headers, self._settings.address
        author = headers.from_address.casefold()
        person = author if is_verified(headers.parsed, author, self._settings.auth_server) else f"{UNVERIFIED}{author}"
        identity = headers.message_id or f"{headers.date}{headers.subject}{mail.summary.size}"
        subject = headers.subject.strip()
        forwards = subject.casefold().startswith(_FORWARDS)
        written = await asyncio.to_thread(reply_text.split, await self._text(mail), forwards=forwards)
        known = answers_ours(headers, address)
        text = _told(written, subject, known=known)
        conversation = ChatAddress(
            channel="email",
            account=self._account,
            kind="direct",
            id=person,
            thread=thread_of(headers, address, identity),
        )
        number = f"{place.validity}.{place.uid}"
        return Inbound(
            conversation=conversation,
            sender=Sender(id=person, name=headers.sender[0].name if headers.sender else ""),
            text=text[:LONGEST_TEXT] or _told_by_subject(subject, known=known),
            at=mail.summary.arrived or now,
            key=f"u:{number}",
            alias=f"m:{hashlib.blake2b(f'{person} {identity}'.encode('utf-8', 'replace'), digest_size=16).hexdigest()}",
            message_id=number,
            mentioned=True,
            context=_context(mail, subject, has_text=bool(text), mark=written.kind == "forwarded"),
            attachments=tuple(_files(mail, number)),
        )

    async def _text(self, mail: StoredMail) -> str:
        found = [await self._part(part) for part in mail.texts]
        return "\n\n".join(text for text in found if text)

    async def _part(self, part: TextPart) -> str:
        if part.media_type != "text/html":
            return await asyncio.to_thread(_decoded, part, self.plain)
        if self.html is None:
            return "[this mail is HTML, which cannot be read here]"
        try:
            return await self.html(part.data, part.charset)
        except ValueError as error:
            return f"[the HTML of this mail could not be read: {error}]"


def _told(written: reply_text.Written, subject: str, *, known: bool) -> str:
    """Return what is passed on of a mail: the person's own words, and below a mark those of others.

    A quotation of ours is ``known`` and left out, but not one that was answered part by part: which part was ours nobody can say.
    """
    own = written.own.strip()
    if not written.kind or not written.rest.strip() or (written.kind == "quoted" and known and not written.between):
        return own
    heading = f"Subject: {subject}\n" if written.kind == "forwarded" and subject else ""
    author = "".join(char for char in written.author if char not in "[]\n")
    mark = f"[forwarded from {author}]" if author else "[forwarded]"
    return f"{own}\n{mark}\n{heading}{written.rest.strip()}".strip()


def _told_by_subject(subject: str, *, known: bool) -> str:
    """Return what a mail without words says. The subject of a mail that was passed on or answered is not the person's own."""
    theirs = subject.casefold().startswith(_FORWARDS) or (not known and subject.casefold().startswith(_ANSWERS))
    return f"[forwarded]\nSubject: {subject}" if theirs else subject


def _context(mail: StoredMail, subject: str, *, has_text: bool, mark: bool) -> str:
    """Return what the mail program says beside the text. Words of others are not among it: a subject that was passed on is theirs."""
    said = []
    theirs = mark or subject.casefold().startswith((*_FORWARDS, *_ANSWERS))
    if subject and has_text and not theirs:
        said.append(f"Subject: {subject}")
    kinds = {part.media_type for part in mail.parts}
    if kinds & _TNEF:
        said.append("The mail holds winmail.dat, Outlook's own format, which cannot be read: ask for it as HTML or plain text.")
    if "text/calendar" in kinds:
        said.append("The mail is or holds a calendar invitation, which is attached. It was not answered.")
    if "application/pgp-encrypted" in kinds or "application/pkcs7-mime" in kinds:
        said.append("The mail is encrypted, which cannot be read here.")
    if mail.hidden:
        said.append("The mail holds a text that cannot be read, as its parts are not marked: ask for it as plain text.")
    if mail.cut:
        said.append("The mail is very long; its end was left out.")
    if sum(part.is_attachment for part in mail.parts) > MOST_FILES:
        said.append(f"Only the first {MOST_FILES} files of the mail are attached.")
    return "\n".join(said)


def _files(mail: StoredMail, number: str) -> list[Attachment]:
    found = []
    for part in mail.attachments:
        if part.media_type in _SIGNATURES or part.media_type == "application/pgp-encrypted" or _is_ornament(part):
            continue
        name = part.name or {"text/calendar": "invitation.ics", "message/rfc822": "mail.eml"}.get(part.media_type, "")
        handle = f"{number}.{part.encoding or '7bit'}.{part.section}"
        found.append(Attachment(kind=_kind(part), handle=handle, name=name, media_type=part.media_type))
    return found[:MOST_FILES]


def _is_ornament(part: MimePart) -> bool:
    within = any(kind == "related" for _, kind in part.above)
    return within and not part.attached and part.media_type.startswith("image/") and part.size < _LITTLE


def _kind(part: MimePart) -> AttachmentKind:
    match part.media_type.partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "document"


def _decoded(part: TextPart, plain: Callable[[bytes, str], str] | None) -> str:
    """Return a plain text; one that is in no character set that it names, nor in UTF-8, is read by ``plain``."""
    for name in (part.charset, "utf-8"):
        try:
            codec = codecs.lookup(name or "utf-8").name
            if codec in _CODECS:
                continue
            text = part.data.decode(codec)
            break
        except (LookupError, UnicodeError, ValueError):
            continue
    else:
        text = part.data.decode("cp1252", "replace") if plain is None else plain(part.data, part.charset)
    return visible(text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
