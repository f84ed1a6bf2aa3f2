"""Writes the mail that a call asks for, and keeps it: what the owner is asked about is what is sent, also after a restart."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from agent.errors import MailRefused, WorkspaceFileError
from agent.tools.file_tool_context import FileToolContext
from agent.tools.mail_tool import MailArguments
from agent.tools.protocol import ToolContext
from channels.common.mail.mail_addresses import Address
from channels.common.mail.mail_headers import reply_subject
from channels.common.mail.stored_mail import StoredMail, read_mail
from gateway.mail import composing
from gateway.mail.account_connections import AccountConnections
from gateway.mail.composing import MOST_FILES, Enclosure, Letter
from gateway.mail.message_ids import MessageId
from gateway.mail.recipients import MOST_RECIPIENTS, recipients
from gateway.mail.send_records import SendRecord, SendRecords, record_key
from gateway.settings.mail_settings import MailAccount

if TYPE_CHECKING:
    from channels.common.mail.imap_connection import ImapConnection

_REMEMBERED: Final = 200
"""Calls whose refusal is remembered, so that what could not be shown is not sent."""


@dataclass(frozen=True, slots=True)
class _Original:
    """The mail that is answered or forwarded. ``whole`` is all of it, for forwarding."""

    stored: StoredMail
    whole: bytes = b""


class LetterWriter:
    """Writes mails. ``withheld`` says whether a file may not leave this machine because it holds a secret. Blocking."""

    def __init__(
        self,
        connections: AccountConnections,
        records: SendRecords,
        files: FileToolContext,
        *,
        withheld: Callable[[str, bytes], bool],
        now: Callable[[], datetime],
    ) -> None:
        self._connections = connections
        self._records = records
        self._files = files
        self._withheld = withheld
        self._now = now
        self._refusals: OrderedDict[str, str] = OrderedDict()

    def approved(self, wish: MailArguments, context: ToolContext) -> str:
        """Return the name of the record of a call whose mail was shown.

        Raises:
            MailRefused: it was never written, so nobody was asked about it.
        """
        key = record_key(context.session, context.turn, context.call)
        record = self._records.load(key)
        if record is None or record.wish != _request_key(wish):
            raise MailRefused(self._refusals.get(key) or "this mail was not prepared, so it is not sent; call mail again")
        return key

    def prepared(
        self, wish: MailArguments, context: ToolContext, account: str, read_id: Callable[[str], MessageId]
    ) -> SendRecord:
        """Return the record of the mail that a call asks for; it is written once and the same from then on.

        Raises:
            MailRefused: it cannot be written, or not be sent.
        """
        key, asked = record_key(context.session, context.turn, context.call), _request_key(wish)
        record = self._records.load(key)
        if record is not None and record.wish == asked:
            return record
        if record is not None and record.state != "prepared":
            raise MailRefused("another mail was sent by this call")
        try:
            return self._write(wish, context, account, read_id(wish.id) if wish.id else None)
        except (MailRefused, WorkspaceFileError) as error:
            self._refusals[key] = f"{error} ({error.hint})" if error.hint else str(error)
            while len(self._refusals) > _REMEMBERED:
                self._refusals.popitem(last=False)
            raise error if isinstance(error, MailRefused) else MailRefused(str(error), hint=error.hint) from error

    def _write(self, wish: MailArguments, context: ToolContext, account: str, original: MessageId | None) -> SendRecord:
        key = record_key(context.session, context.turn, context.call)
        settings = self._connections.account(account)
        if settings.smtp is None and not wish.draft:
            raise MailRefused(
                f"the account {account} cannot send: it has no SMTP server", hint=f"mail.accounts.{account}.smtp.host"
            )
        letter = self._letter(wish, context, account, original)
        letter = replace(letter, message_id=composing.message_id_for(key, settings.sender))
        if not wish.draft and not letter.recipients:
            raise MailRefused("there is nobody to send it to")
        if len(letter.recipients) > MOST_RECIPIENTS:
            raise MailRefused(f"{len(letter.recipients)} recipients; at most {MOST_RECIPIENTS} are possible in one mail")
        at = self._now()
        mail = composing.written(letter, at.astimezone(context.now.tzinfo))
        if len(mail) > settings.max_attachment_bytes * 3 // 2:
            raise MailRefused(
                f"the mail has {len(mail):,} bytes, which is too large", hint="the owner can raise maxAttachmentBytes"
            )
        answered = original if wish.action in {"reply", "reply_all"} and not wish.draft else None
        record = SendRecord(
            key=key,
            account=account,
            state="prepared",
            message_id=letter.message_id,
            sender=settings.sender,
            recipients=letter.recipients,
            summary=composing.headline(letter),
            details=composing.shown(letter),
            made=at.isoformat(),
            wish=_request_key(wish),
            original=answered.written(alone=False) if answered else "",
            draft=wish.draft,
        )
        self._records.prepare(record, mail)
        return record

    def _letter(self, wish: MailArguments, context: ToolContext, account: str, original: MessageId | None) -> Letter:
        settings = self._connections.account(account)
        subject, text = composing.one_line(wish.subject or "", "subject"), wish.text or ""
        to, cc, bcc = recipients(wish.to or "", "to"), recipients(wish.cc or "", "cc"), recipients(wish.bcc or "", "bcc")
        letter = Letter(account=account, sender=settings.sender, to=to, cc=cc, bcc=bcc, subject=subject, text=text)
        files = self._attached(wish, context, settings.max_attachment_bytes)
        if original is None:
            return replace(letter, files=files)
        found = self._original(original, whole=wish.action == "forward", most=settings.max_attachment_bytes)
        headers = found.stored.summary.headers
        sender = headers.sender[0].shown if headers.sender else "(no sender)"
        about = f"the mail of {sender}: {headers.subject or '(no subject)'}"
        if wish.action == "forward":
            whole = Enclosure(f"forwarded: {about}", f"{headers.subject or 'mail'}.eml", found.whole, "message/rfc822")
            return replace(
                letter,
                subject=subject or reply_subject(headers.subject, "Fwd"),
                files=(whole, *files),
                answers=f"Forwards {about}",
            )
        others = answered_to(found.stored, settings, everybody=wish.action == "reply_all")
        return replace(
            letter,
            to=tuple({one.address.casefold(): one for one in (*others[0], *to)}.values()),
            cc=tuple({one.address.casefold(): one for one in (*others[1], *cc)}.values()),
            subject=subject or reply_subject(headers.subject, "Re"),
            in_reply_to=headers.message_id,
            references=headers.references,
            answers=f"Answers {about}",
            files=files,
        )

    def _original(self, mail: MessageId, *, whole: bool, most: int) -> _Original:
        def work(connection: ImapConnection) -> _Original:
            connection.select_checked(connection.named(mail.folder), mail.check)
            stored = read_mail(connection, mail.uid, (), texts=False)
            if not whole:
                return _Original(stored)
            if stored.summary.size > most:
                raise MailRefused(f"the mail has {stored.summary.size:,} bytes; at most {most:,} can be forwarded")
            return _Original(stored, b"".join(connection.part(mail.uid, "", most + 1)))

        return self._connections.use(mail.account, work)

    def _attached(self, wish: MailArguments, context: ToolContext, most: int) -> tuple[Enclosure, ...]:
        """Read the files that go with a mail, as they are now: those that this conversation may read, and no secrets."""
        if len(wish.attach or ()) > MOST_FILES:
            raise MailRefused(f"{len(wish.attach or ())} files; at most {MOST_FILES} can go with one mail")
        found, left = [], most
        for raw in wish.attach or ():
            path = self._files.readable(raw, context.audience)
            data = self._files.sandbox.read(path, limit=max(left, 1)).data
            left -= len(data)
            if not data:
                raise MailRefused(f"{path} is empty")
            if self._withheld(PurePosixPath(path).name, data):
                raise MailRefused(f"{path} holds a secret of this machine, which may not leave it; the owner was told")
            found.append(Enclosure(str(path), path.name, data))
        return tuple(found)


def _request_key(wish: MailArguments) -> str:
    return json.dumps(wish.model_dump(mode="json"), sort_keys=True)


def answered_to(
    stored: StoredMail, account: MailAccount, *, everybody: bool
) -> tuple[tuple[Address, ...], tuple[Address, ...]]:
    """Return to whom an answer goes, and who gets a copy. The owner's own addresses are left out, unless nobody else is there.

    Raises:
        MailRefused: the mail has no address that can be answered.
    """
    headers, own = stored.summary.headers, account.addresses
    to = headers.answer_to
    if headers.sender and headers.sender[0].address.casefold() in own and not headers.reply_to:
        to = headers.to or to  # an answer to one's own mail goes where that went
    usable = [one for one in to if "@" in one.address]
    if not usable:
        raise MailRefused("this mail has no sender that can be answered", hint="use send with an address")
    if not everybody:
        return tuple(usable), ()
    there = {one.address.casefold() for one in usable} | own
    return tuple(usable), tuple(
        one for one in (*headers.to, *headers.cc) if "@" in one.address and one.address.casefold() not in there
    )
