"""What is read from a mailbox: lists, mails as text, attachments. Blocking."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from channels.common.mail.flowed_text import joined_lines
from channels.common.mail.imap_values import body_of, uid_of
from channels.common.mail.mail_headers import MOST_BYTES, MailHeaders, date_of, headers_of
from channels.common.mail.mime_parts import MimePart, parts_of
from channels.common.mail.transfer_encoding import Decoder, decoded
from channels.errors import MailProblem

if TYPE_CHECKING:
    from channels.common.mail.imap_connection import ImapConnection
    from channels.common.mail.imap_values import Value

MOST_TEXT: Final = 1_000_000
"""Bytes of the texts of a mail that are fetched."""
MOST_TEXT_PARTS: Final = 20
SMALL: Final = 100_000
"""Bytes of a mail that is fetched together with others: so little that all of them fit what one operation may receive."""
_BLANK: Final = 4
"""Bytes behind the headers of a mail without any text."""
_HEADERS: Final = f"(UID FLAGS INTERNALDATE RFC822.SIZE BODYSTRUCTURE BODY.PEEK[HEADER]<0.{MOST_BYTES}>)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A mail as a list shows it. ``arrived`` is when the server stored it."""

    uid: int
    headers: MailHeaders
    flags: frozenset[str]
    size: int
    arrived: datetime | None
    attachments: int = 0

    @property
    def unread(self) -> bool:
        """Whether nobody has read it."""
        return "\\seen" not in self.flags


@dataclass(frozen=True, slots=True)
class TextPart:
    """The content of a text part, not yet decoded to characters."""

    media_type: str
    charset: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMail:
    """A mail with the content of its texts. ``cut``: some of the texts were left out. ``parts``: all parts, for attachments.

    ``hidden``: it holds something that is in no part, as its parts have no boundary, say.
    """

    summary: Summary
    texts: tuple[TextPart, ...]
    parts: tuple[MimePart, ...]
    cut: bool = False
    hidden: bool = False

    @property
    def attachments(self) -> tuple[MimePart, ...]:
        """The parts that are files."""
        return tuple(part for part in self.parts if part.is_attachment)


def summary_of(found: dict[str, Value], trusted: Sequence[str] = ()) -> Summary:
    """Return what is known of a mail from the items of a FETCH response."""
    raw, flags, size, stored, uid = (found.get(name) for name in ("BODY[]", "FLAGS", "RFC822.SIZE", "INTERNALDATE", "UID"))
    named = flags if isinstance(flags, list) else []
    return Summary(
        uid=uid if isinstance(uid, int) else 0,
        headers=headers_of(raw if isinstance(raw, bytes) else b"", trusted),
        flags=frozenset(one.decode("ascii", "replace").lower() for one in named if isinstance(one, bytes)),
        size=size if isinstance(size, int) else 0,
        arrived=date_of(stored.decode("ascii", "replace")) if isinstance(stored, bytes) else None,
        attachments=sum(part.is_attachment for part in parts_of(found.get("BODYSTRUCTURE"))),
    )


def read_mail(connection: ImapConnection, uid: int, trusted: Sequence[str], *, texts: bool = True) -> StoredMail:
    """Fetch a mail of the open folder: headers, structure and, with ``texts``, the texts, but no attachment.

    Raises:
        MailProblem: it is not there.
    """
    found = connection.fetch([uid], _HEADERS) or connection.fetch([uid], _HEADERS.replace("BODYSTRUCTURE ", ""))
    if not found:
        raise MailProblem(
            f"there is no mail {uid} in this folder any more; it was moved or deleted", hint="list or search again"
        )
    return _stored(found[0], trusted, lambda section, most: b"".join(connection.part(uid, section, most)), texts=texts)


def read_mails(connection: ImapConnection, uids: Sequence[int], trusted: Sequence[str]) -> list[StoredMail]:
    """Fetch mails of the open folder with their texts, small ones by a few commands for all of them. Those that are gone are left out."""
    connection.begin()
    sizes = {uid_of(one): one.get("RFC822.SIZE") for one in connection.fetch(uids, "(UID RFC822.SIZE)")}
    small = [uid for uid, size in sizes.items() if isinstance(size, int) and 0 < size <= SMALL]
    connection.begin()
    heads = {uid_of(one): one for one in connection.fetch(small, _HEADERS)}
    sections: dict[str, list[int]] = {}
    for uid, found in heads.items():
        for part in _shown(_parts(found))[:MOST_TEXT_PARTS]:
            sections.setdefault(part.section, []).append(uid)
    bodies: dict[tuple[int, str], bytes] = {}
    for section, those in sections.items():
        connection.begin()
        for found in connection.fetch(those, f"(UID BODY.PEEK[{section}]<0.{SMALL}>)"):
            bodies[uid_of(found), section] = body_of(found)
    read: list[StoredMail] = []
    for uid in uids:
        with contextlib.suppress(MailProblem):  # it was deleted meanwhile
            if uid in heads:
                with contextlib.suppress(KeyError):  # a text that did not come with the others is asked for again
                    read.append(_stored(heads[uid], trusted, lambda section, most: bodies[uid, section][:most]))  # noqa: B023 - called here
                    continue
            connection.begin()
            read.append(read_mail(connection, uid, trusted))
    return read


def _parts(found: dict[str, Value]) -> list[MimePart]:
    size = found.get("RFC822.SIZE")
    whole = MimePart(section="TEXT", media_type="text/plain", size=size if isinstance(size, int) else 0)
    return parts_of(found.get("BODYSTRUCTURE")) or [whole]


def _stored(
    found: dict[str, Value], trusted: Sequence[str], body: Callable[[str, int], bytes], *, texts: bool = True
) -> StoredMail:
    """Return a mail from the items of its FETCH response. ``body`` returns the content of a part, at most so many bytes."""
    summary, parts = summary_of(found, trusted), _parts(found)
    chosen = [part for part in _shown(parts) if texts]
    contents: list[TextPart] = []
    left, cut = MOST_TEXT, len(chosen) > MOST_TEXT_PARTS
    for part in chosen[:MOST_TEXT_PARTS]:
        data = body(part.section, left)
        left -= len(data)
        text = decoded(data, part.encoding)
        text = joined_lines(text, without_space=part.joined_without_space) if part.flowed else text
        contents.append(TextPart(part.media_type, part.charset, text))
        if left <= 0:
            cut = True
            break
    raw = body_of(found)
    beyond = summary.size - len(raw) > _BLANK and len(raw) < MOST_BYTES and not any(part.size for part in parts)
    kept = tuple(_without_doubles(chosen, contents))
    return StoredMail(summary=summary, texts=kept, parts=tuple(parts), cut=cut, hidden=beyond)


def _shown(parts: Sequence[MimePart]) -> list[MimePart]:
    """Return the parts that are texts of the mail itself."""
    return [part for part in parts if not part.is_attachment]


def _without_doubles(parts: Sequence[MimePart], contents: Sequence[TextPart]) -> list[TextPart]:
    """Leave out HTML that says the same as a plain text beside it, unless that text is blank."""
    kept = []
    for part, content in zip(parts, contents, strict=False):
        around = {number for number, kind in part.above if kind == "alternative"}
        twins = [
            other_content
            for other, other_content in zip(parts, contents, strict=False)
            if other.media_type == "text/plain" and around & {number for number, kind in other.above if kind == "alternative"}
        ]
        if part.media_type == "text/html" and any(twin.data.strip() for twin in twins):
            continue
        if content.data.strip():
            kept.append(content)
    return kept


def attachment(connection: ImapConnection, uid: int, part: MimePart, most: int) -> tuple[bytes, bool]:
    """Fetch an attachment of a mail of the open folder; return its content, and whether it is damaged.

    Raises:
        MailProblem: it is larger than ``most`` bytes.
    """
    estimate = part.size * 3 // 4 if part.encoding == "base64" else part.size
    if estimate > most * 21 // 20:
        raise MailProblem(
            f"the attachment has about {estimate:,} bytes; at most {most:,} are saved",
            hint="the owner can raise maxAttachmentBytes",
        )
    decoder = Decoder(part.encoding)
    for data in connection.part(uid, part.section, most * 3 // 2 + 1024):
        decoder.add(data)
        if part.encoding == "base64" and decoder.size > most:
            break
    data = decoder.end()
    if len(data) > most:
        raise MailProblem(f"the attachment has more than {most:,} bytes", hint="the owner can raise maxAttachmentBytes")
    return data, decoder.damaged
