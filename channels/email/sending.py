"""Sends mails, and finds out about one of which nobody knows whether it was sent, by the copy that many servers keep."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from channels.common.mail.explanations import is_of_mail
from channels.common.mail.mail_headers import headers_of
from channels.common.mail.smtp import InDoubt, NotTaken, Submission, connected, hand_over
from channels.common.mail.smtp_connections import SmtpConnections
from channels.common.mail.stored_mail import attachment
from channels.email.mail_writing import OutgoingMail, written
from channels.email.receiving import problem_of
from channels.email.sent_copies import SentCopies
from channels.email.settings import UNVERIFIED
from channels.email.threads import Answered, Latest, latest_in, message_id_of
from channels.errors import ChannelError, MailProblem, NotFetched, NotSent, Uncertain
from channels.messages import PERHAPS, Sent

if TYPE_CHECKING:
    from pathlib import Path

    from channels.common.log import Log
    from channels.common.mail.imap_connection import ImapConnection
    from channels.common.mail.login import MailboxNames
    from channels.common.mail.mime_parts import MimePart
    from channels.email.settings import EmailAccount, Mailbox
    from channels.messages import ChatAddress, Outbound
    from channels.protocol import Clock, InboundSink

RETRY_AFTER: Final = 60.0
_NEWEST: Final = 100
_QUICK: Final = 2000
"""Characters that take less time than a thread does."""
_HEADERS: Final = "(UID BODY.PEEK[HEADER.FIELDS (FROM SUBJECT MESSAGE-ID REFERENCES IN-REPLY-TO)]<0.16384>)"
_OURS_TO_MEND: Final = frozenset({530, 534, 535, 538})
"""SMTP's answers about the login, which say nothing of the mail."""
T = TypeVar("T")


class Sender:
    """Sends the mails of one account."""

    def __init__(
        self,
        settings: EmailAccount,
        mailbox: Mailbox,
        names: MailboxNames,
        *,
        account: str,
        clock: Clock,
        log: Log,
        latest: Latest,
    ) -> None:
        self._settings = settings
        self._mailbox = mailbox
        self._names = names
        self._account = account
        self._clock = clock
        self._log = log
        self._latest = latest
        self._copies = SentCopies(
            settings.save_sent, self.with_mailbox, section=names.settings, account=account, clock=clock, log=log
        )
        self._connections = SmtpConnections(lambda: connected(names, mailbox, mailbox.smtp))

    @property
    def looks_up(self) -> bool:
        """Whether the server keeps a copy of each mail that it sends, so that one in doubt can be looked for."""
        return self._copies.by_server

    async def begin(self, sink: InboundSink) -> None:
        """Read what was learnt of the server."""
        await self._copies.begin(sink)

    async def close(self) -> None:
        """End connections and what goes on beside."""
        self._connections.close()
        await self._copies.close()

    async def send(self, outbound: Outbound) -> Sent:
        """Send one mail. Raises NotSent or Uncertain."""
        place = outbound.conversation
        recipient = place.id.removeprefix(UNVERIFIED)
        if place.kind != "direct" or "@" not in recipient or any(char.isspace() or char in "<>,;" for char in recipient):
            raise NotSent(f"{place.id[:80]!r} is no address that a mail can go to", permanent=True)
        message_id = message_id_of(outbound.key, self._account, place.thread, self._settings.address)
        if outbound.uncertain and self.looks_up and await self._copies.hold(message_id):
            return Sent(platform_id=message_id)
        content = await asyncio.to_thread(_content, outbound) if outbound.enclosure is not None else None
        doubt = PERHAPS if outbound.uncertain and not self.looks_up else ""
        outgoing = OutgoingMail(
            sender=self._settings.sender,
            to=recipient,
            message_id=message_id,
            text=f"{doubt}{outbound.text}",
            at=self._clock.now(),
            answers=await self._answered(place, recipient) if outbound.turn != "" or place.thread is not None else None,
            file=content,
        )
        quick = content is None and len(outgoing.text) < _QUICK
        mail = written(outgoing) if quick else await asyncio.to_thread(written, outgoing)
        await self._hand_over(Submission(self._names, self._mailbox, self._settings.address, (recipient,), mail))
        self._copies.file_later(message_id, mail)
        return Sent(platform_id=message_id)

    async def _hand_over(self, submission: Submission) -> None:
        try:
            await hand_over(submission, waits=(), sleep=self._clock.sleep, connections=self._connections)
        except NotTaken as error:
            what, hint = str(error.told), error.told.hint
            permanent = error.code >= 500 and error.code not in _OURS_TO_MEND  # noqa: PLR2004 - SMTP's codes for good
            raise NotSent(
                what, permanent=permanent, retry_after=None if not error.code or permanent else RETRY_AFTER, hint=hint
            ) from error
        except InDoubt as error:
            raise Uncertain(
                f"the connection to {self._mailbox.smtp.host} ended before it said whether the mail was taken: {error}"
            ) from error

    async def answers(self) -> bool:
        """Return whether the server that sends would take a mail now."""
        try:
            client = await connected(self._names, self._mailbox, self._mailbox.smtp)
        except NotTaken:
            return False
        client.close()
        return True

    async def check(self) -> None:
        """Log in at the server that sends. Raises MailProblem."""
        try:
            client = await connected(self._names, self._mailbox, self._mailbox.smtp)
        except NotTaken as error:
            raise error.told from error
        client.close()

    async def with_mailbox(self, work: Callable[[ImapConnection], T]) -> T:
        """Do work with a connection of its own. Raises MailProblem or ChannelBroken."""

        def working() -> T:
            from channels.common.mail.imap_connection import ImapConnection

            connection = ImapConnection(self._mailbox)
            try:
                connection.begin()
                return work(connection)
            finally:
                connection.close()

        try:
            return await asyncio.to_thread(working)
        except (
            Exception
        ) as error:  # ``is_of_mail`` names the classes, of libraries that are loaded only here; a defect is raised
            if isinstance(error, ChannelError) and not isinstance(error, MailProblem):
                raise
            if not is_of_mail(error):
                raise
            raise problem_of(error, self._names, self._mailbox) from error

    async def fetch(self, handle: str, path: Path, limit: int) -> None:
        """Save a file of a mail. Raises NotFetched."""
        try:
            data = await self.with_mailbox(lambda connection: _part_of(connection, self._settings.folder, handle, limit))
        except ChannelError as error:
            if isinstance(error, NotFetched):
                raise
            raise NotFetched(str(error), permanent=False, hint=error.hint) from error
        await asyncio.to_thread(_save, path, data)

    async def _answered(self, place: ChatAddress, recipient: str) -> Answered | None:
        """Return the mail that an answer goes to: from memory, or from the mailbox."""
        found = self._latest.of(place.id, place.thread)
        if found is None:
            with contextlib.suppress(ChannelError):
                found = await self.with_mailbox(
                    lambda connection: self._latest_in(connection, recipient.casefold(), place.thread)
                )
            if found is not None:
                self._latest.note(place.id, place.thread, found)
        return found

    def _latest_in(self, connection: ImapConnection, recipient: str, thread: str | None) -> Answered | None:
        from channels.common.mail.imap_criteria import Criteria, quoted

        selected = connection.select(connection.named(self._settings.folder))
        uids = connection.search(selected, Criteria(b"FROM " + quoted(recipient)), _NEWEST).uids
        raw = [one.get("BODY[]") for one in connection.fetch(uids, _HEADERS)]
        return latest_in((headers_of(one) for one in raw if isinstance(one, bytes)), recipient, thread, self._settings.address)


def _content(outbound: Outbound) -> tuple[str, str, bytes] | None:
    file = outbound.enclosure
    if file is None:
        return None
    try:
        return file.name, file.media_type, file.path.read_bytes()
    except OSError as error:
        raise NotSent(f"the file {file.name!r} cannot be read: {error.strerror}", permanent=True) from error


def _part_of(connection: ImapConnection, folder: str, handle: str, limit: int) -> bytes:
    """Return the content of a part. Its handle holds the folder's numbering, the mail, the encoding and the section."""
    from channels.common.mail.mime_parts import MimePart

    validity, _, rest = handle.partition(".")
    uid, _, rest = rest.partition(".")
    encoding, _, section = rest.partition(".")
    if not (validity.isdecimal() and uid.isdecimal() and section and section.replace(".", "").isalnum()):
        raise NotFetched("the file is not there")
    selected = connection.select(connection.named(folder))
    if selected.validity != int(validity):
        raise NotFetched("the mail server has numbered the folder anew, so the file cannot be found")
    part: MimePart = MimePart(section=section, media_type="", encoding=encoding)
    try:
        data, damaged = attachment(connection, int(uid), part, limit)
    except MailProblem as error:
        raise NotFetched(f"the file is larger than the limit of {limit:,} bytes") from error
    if not data and not connection.fetch([int(uid)], "(UID FLAGS)"):
        raise NotFetched("the mail with the file is gone")
    if damaged:
        raise NotFetched("the file came damaged: its base64 is broken; ask for it again")
    return data


def _save(path: Path, data: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(data)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise NotFetched(f"the file could not be saved: {error}", permanent=False) from error
