"""Reads new mail: one IMAP connection that waits, in a thread of its own. Each mail is stored before the next position is."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from channels.common.event_guard import EventGuard
from channels.common.mail.explanations import LoginRefused, explained, is_of_mail
from channels.common.mail.stored_mail import StoredMail, read_mails, summary_of
from channels.common.recent import Recent
from channels.email import loop_guard
from channels.email.inbound import Converter, Place
from channels.email.sender_check import is_verified
from channels.email.settings import UNVERIFIED, names_of
from channels.email.threads import Latest, answered
from channels.errors import ChannelBroken, MailProblem
from channels.messages import Cursor, Inbound

if TYPE_CHECKING:
    from email.message import Message

    from channels.common.backoff import Backoff
    from channels.common.log import Log
    from channels.common.mail.imap_connection import ImapConnection, Selected
    from channels.common.mail.login import MailboxNames
    from channels.email.settings import EmailAccount, Mailbox
    from channels.protocol import Clock, InboundSink

CURSOR: Final = "inbox"
RENEWED_AFTER: Final = 240.0
"""Seconds after which a wait for new mail begins anew: servers and routers end connections that are silent."""
CLOSING_SECONDS: Final = 5.0
FIRST_WAIT: Final = 0.5
"""Seconds, after new mail, until the next look: servers do not tell of what comes in the moment before they are asked to."""
AT_ONCE: Final = 20
MOST_FLOODING: Final = 5
"""Senders of too many mails of whom the owner is told."""
LOOKED_BACK: Final = 200
"""Mails that are looked at again when the server has numbered the folder anew."""
_BUSY: Final = ("unavailable", "inuse", "limit", "temporar", "try again", "too many", "later")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a folder was read. ``seen``: when the latest mail arrived that was read."""

    validity: int
    next_uid: int
    seen: datetime

    def written(self) -> str:
        """Return it as a cursor."""
        return f"{self.validity}:{self.next_uid}:{self.seen.isoformat()}"

    @classmethod
    def parse(cls, text: str | None) -> Position | None:
        """Read a cursor; None where there is none."""
        validity, _, rest = (text or "").partition(":")
        uid, _, seen = rest.partition(":")
        try:
            return cls(int(validity), int(uid), datetime.fromisoformat(seen))
        except ValueError:
            return None


class Receiver:
    """Receives the mails of one account."""

    def __init__(
        self,
        settings: EmailAccount,
        mailbox: Mailbox,
        names: MailboxNames,
        *,
        account: str,
        clock: Clock,
        log: Log,
        converter: Converter,
        latest: Latest,
    ) -> None:
        self._settings = settings
        self._mailbox = mailbox
        self._names = names
        self._account = account
        self._clock = clock
        self._log = log
        self._converter = converter
        self._latest = latest
        self._guard = EventGuard(log, account)
        self._rate = loop_guard.Rate(settings.most_per_minute)
        self._thread = ThreadPoolExecutor(1, f"mail of {account}")
        self._connection: ImapConnection | None = None
        self._closed = False
        self.reads = False
        """Whether there is a connection on which mail was looked for."""
        self._started = clock.now().replace(microsecond=0)
        self._contents = Recent[str, bytes]()
        self._flooding: set[str] = set()
        self._left: Counter[str] = Counter()
        self._bounced = self._doubted = self._twin = ""

    def remarks(self) -> list[str]:
        """Return what the owner should know."""
        concerns = [one for one in (self._bounced, self._doubted, self._twin) if one]
        if self._left:
            counts = "; ".join(f"{count} as {why}" for why, count in self._left.most_common())
            concerns.append(f"{self._left.total()} mails were not answered since the start: {counts}.")
        return concerns

    async def listen(self, sink: InboundSink, backoff: Backoff) -> None:
        """Read and wait until the connection ends.

        Raises:
            MailProblem: the server is not there, or fails.
            ChannelBroken: it does not let the user in.
        """
        try:
            connection = await self._working(self._connected)
            position, wait = Position.parse(await sink.cursor(CURSOR)), FIRST_WAIT
            while True:
                former, position = position, await self._look(connection, sink, position, backoff)
                backoff.over()
                self.reads = True
                sink.ready()
                sink.alive()
                wait = FIRST_WAIT if position != former else min(wait * 4, RENEWED_AFTER)
                await self._wait(connection, wait)
        finally:
            self._hang_up()

    async def close(self) -> None:
        """End the connection and the thread."""
        self._closed = True
        self._hang_up()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await asyncio.to_thread(self._thread.shutdown)

    def _hang_up(self) -> None:
        """Close the connection, and end what waits for it in the thread."""
        self.reads = False
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with contextlib.suppress(OSError):
            connection.client.abort_waiting()
        with contextlib.suppress(OSError):
            socket.socket.shutdown(connection.client.sock, socket.SHUT_RDWR)
        with contextlib.suppress(RuntimeError):
            self._thread.submit(connection.close)

    def _connected(self) -> ImapConnection:
        from channels.common.mail.imap_connection import ImapConnection

        connection = ImapConnection(self._mailbox)
        if self._closed:
            connection.close()
            raise MailProblem("the channel is being closed")
        self._connection = connection
        return connection

    async def _working(self, work: Callable[[], T]) -> T:
        """Do blocking work in the thread. Raises MailProblem, or ChannelBroken for a refused login."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except Exception as error:  # ``is_of_mail`` names the classes; a defect is raised again
            if not is_of_mail(error):
                raise
            raise problem_of(error, self._names, self._mailbox) from error

    async def _look(self, connection: ImapConnection, sink: InboundSink, former: Position | None, backoff: Backoff) -> Position:
        """Take what came since the last look, and return the position behind it."""
        selected = await self._working(lambda: self._select(connection))
        if former is None or former.validity != selected.validity:
            position, uids = await self._working(lambda: self._begun(connection, selected, former))
            await self._store(sink, [], position, backoff)
        elif selected.next_uid and selected.next_uid <= former.next_uid:
            return former
        else:
            position = former
            uids = await self._working(lambda: connection.newer(former.next_uid))
        for start in range(0, len(uids), AT_ONCE):
            mails = await self._working(lambda: read_mails(connection, uids[start : start + AT_ONCE], ()))  # noqa: B023 - awaited here
            position = _behind(position, uids[start : start + AT_ONCE][-1], mails)
            found = [await self._message(sink, mail, Place(selected.validity, mail.summary.uid)) for mail in mails]
            messages = [one for one in found if one is not None]
            await self._store(sink, messages, position, backoff)
            sink.alive()
            if self._settings.mark_read and messages:
                with contextlib.suppress(MailProblem):
                    await self._working(lambda: self._mark_read(connection, mails))  # noqa: B023 - awaited here
        return position

    def _select(self, connection: ImapConnection) -> Selected:
        connection.begin()
        return connection.select(connection.named(self._settings.folder), writing=self._settings.mark_read)

    def _begun(self, connection: ImapConnection, selected: Selected, former: Position | None) -> tuple[Position, list[int]]:
        """Return a first position, and what lies behind it.

        That is what came since the channel was started, however long it took to connect; or, where the numbers changed, since the
        latest mail that was read.
        """
        next_uid = selected.next_uid or max(connection.newer(1), default=0) + 1
        seen = self._started if former is None else former.seen
        if former is not None:
            self._log.warning("the mail server has numbered the folder anew", account=self._account)
        found = [summary_of(one) for one in connection.latest(selected, LOOKED_BACK, 0)]
        uids = sorted(one.uid for one in found if one.arrived is not None and one.arrived >= seen)
        return Position(selected.validity, min([*uids, next_uid]), seen), uids

    def _mark_read(self, connection: ImapConnection, mails: Sequence[StoredMail]) -> None:
        connection.begin()
        if unread := [mail.summary.uid for mail in mails if mail.summary.unread]:
            connection.flag_all(unread, "\\Seen", on=True)

    async def _message(self, sink: InboundSink, mail: StoredMail, place: Place) -> Inbound | None:
        """Return the message that a mail is; None for one that is not answered."""
        headers, now = mail.summary.headers, self._clock.now()
        author = headers.from_address.casefold()
        why = loop_guard.why_not(headers.parsed, author if headers.sender else "", self._settings.addresses)
        if not why and mail.summary.flags & {"\\deleted", "\\draft"}:
            why = "it is deleted or a draft"
        if not why and self._rate.is_too_high(author, mail.summary.arrived or now):
            why = f"its sender sent more than {self._settings.most_per_minute} mails in a minute"
            self._tell_once(sink, author, headers.parsed)
        if why:
            self._left[why] += 1
            if loop_guard.is_bounce(headers.parsed):
                self._bounced = f"A mail of the agent may have come back: {headers.subject[:80]!r}, {now:%Y-%m-%d}."
            self._log.info("a mail is not answered", why=why, uid=place.uid, account=self._account)
            return None
        with self._guard.reading({"uid": place.uid}):
            message = await self._converter.message(mail, place, now)
            self._note_doubt(message, headers.parsed)
            self._note_twin(message, mail)
            self._latest.note(message.conversation.id, message.conversation.thread, answered(headers))
            return message
        return None

    def _tell_once(self, sink: InboundSink, author: str, headers: Message) -> None:
        """Have the owner told that mails of somebody are left, once for each sender in a run; not of those who may be anybody."""
        verified = is_verified(headers, author, self._settings.auth_server)
        if verified and author not in self._flooding and len(self._flooding) < MOST_FLOODING:
            self._flooding.add(author)
            most = f"{names_of(self._account).settings}.mostPerMinute"
            sink.tell_owner(
                f"{author[:80]} sent more than {self._settings.most_per_minute} mails in a minute; the others are not answered, "
                f"and stay in the mailbox. If that is right: homebody config set {most} NUMBER"
            )

    def _note_twin(self, message: Inbound, mail: StoredMail) -> None:
        """Note that a mail has the Message-ID of another one with other words: the gateway takes only the first."""
        content = hashlib.blake2b(b"\0".join(part.data for part in mail.texts), digest_size=16).digest()
        former = self._contents.get(message.alias)
        self._contents.put(message.alias, content if former is None else former)
        if former not in {None, content}:
            who, which = message.sender.id.removeprefix(UNVERIFIED)[:80], mail.summary.headers.message_id[:80]
            self._log.warning("a mail is not answered: another one had its Message-ID", message_id=which, account=self._account)
            self._twin = f"A mail of {who} was not answered, as an earlier one of theirs has the same Message-ID, {which}."

    def _note_doubt(self, message: Inbound, headers: Message) -> None:
        """Note that nobody vouches for the sender of the latest mail, or that somebody does again."""
        if not message.sender.id.startswith(UNVERIFIED):
            self._doubted = ""
        elif self._settings.auth_server:
            topmost = str(headers.get("Authentication-Results", ""))
            signer = topmost.partition(";")[0].split(maxsplit=1)[0][:80] if topmost.split() else ""
            by = f"the topmost check is by {signer}" if signer else "the mail carries no check"
            who = message.sender.id.removeprefix(UNVERIFIED)[:80]
            self._doubted = f"{self._settings.auth_server} does not vouch for the sender of the latest mail, {who}: {by}."

    async def _store(self, sink: InboundSink, messages: Sequence[Inbound], position: Position, backoff: Backoff) -> None:
        """Have them stored, again and again until they are."""
        while True:
            try:
                await sink.accept(messages, Cursor(name=CURSOR, value=position.written()))
            except Exception as error:  # noqa: BLE001 - whatever keeps the gateway from storing them, they must not be lost
                await backoff.wait("mails could not be stored", str(error) or type(error).__name__)
            else:
                return

    async def _wait(self, connection: ImapConnection, seconds: float) -> None:
        """Return when there may be new mail, at the latest after so many seconds, if the server tells of it."""
        if "IDLE" not in connection.capabilities:
            await self._clock.sleep(self._settings.poll_seconds)
            return
        await self._working(lambda: _idle(connection, seconds))


def _behind(position: Position, last_uid: int, mails: Sequence[StoredMail]) -> Position:
    arrived = [mail.summary.arrived for mail in mails if mail.summary.arrived is not None]
    return replace(position, next_uid=max(position.next_uid, last_uid + 1), seen=max([position.seen, *arrived]).astimezone(UTC))


def _idle(connection: ImapConnection, seconds: float) -> None:
    connection.begin()
    woken = connection.start_idle()
    while not woken:
        line = connection.client.wait_for_line(seconds)
        woken = line is None or b"EXISTS" in line.upper() or line.upper().startswith(b"* BYE")
    connection.stop_idle()


def problem_of(error: BaseException, names: MailboxNames, mailbox: Mailbox) -> MailProblem | ChannelBroken:
    """Return the error for one of a server: one that may pass, or one that only the owner can mend."""
    problem = explained(error, names, mailbox.imap)
    if isinstance(error, LoginRefused) and not any(word in str(error).lower() for word in _BUSY):
        return ChannelBroken(str(problem), hint=problem.hint)
    return problem
