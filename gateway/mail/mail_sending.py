"""Sends a prepared mail at most once, whatever dies when, and files a copy in the folder of sent mail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from email.utils import parseaddr
from typing import TYPE_CHECKING, Final

from agent import fault_injection
from agent.errors import MailRefused
from agent.tools.arguments import failed
from agent.tools.protocol import Outcome
from channels.common.mail.smtp import InDoubt, NotTaken, Submission, hand_over
from gateway.mail.account_connections import AccountConnections
from gateway.mail.mail_words import sources_of
from gateway.mail.message_ids import MessageId, parse_id
from gateway.mail.refusals import missing, names_of
from gateway.mail.send_records import SendRecord, SendRecords

if TYPE_CHECKING:
    from channels.common.mail.imap_connection import ImapConnection

log = logging.getLogger(__name__)

LOOKS: Final = (0.0, 2.0, 4.0)
"""Seconds before each look whether the server filed a mail itself."""
_KNOWN: Final = {
    "prepared": "The mail was not sent.",
    "doubt": "The mail was being sent when it was interrupted: it may have arrived.",
    "accepted": "The mail was sent.",
    "filed": "The mail was sent.",
    "unknown": "Nobody knows whether the mail was sent; a copy is among the drafts.",
}
_FLAGS: Final = {"sent": "\\Seen", "drafts": "\\Draft"}


class MailSender:
    """Sends what ``records`` hold. A mail that is being sent goes on when the turn that asked for it ends."""

    def __init__(
        self,
        connections: AccountConnections,
        records: SendRecords,
        now: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connections = connections
        self._records = records
        self._now = now
        self._sleep = sleep
        self._running: dict[str, asyncio.Task[Outcome]] = {}

    async def send(self, key: str) -> Outcome:
        """Send a mail that was prepared, or go on with it, or say what became of it.

        Raises:
            MailRefused: it was not sent.
        """
        if key not in self._running:
            task = asyncio.ensure_future(self._send(key))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        return await asyncio.shield(self._running[key])

    def progress_of(self, key: str) -> str:
        """Say how far a mail came, in a sentence."""
        record = self._records.load(key)
        if record is None:
            return ""
        if key in self._running:
            return "The mail is being sent at this moment; that goes on."
        return _KNOWN[record.state]

    async def _send(self, key: str) -> Outcome:
        record = await asyncio.to_thread(self._records.load, key)
        if record is None:
            raise MailRefused("this mail was not prepared, so it is not sent", hint="call mail again")
        if record.draft:
            return await self._save_draft(record)
        if record.state == "doubt":
            record = await self._resolved(record)
        if record.state == "prepared":
            record = await self._handed_over(record)
        if record.state == "unknown":
            return await self._in_doubt(record)
        return await self._filed(record)

    async def _handed_over(self, record: SendRecord) -> SendRecord:
        """Hand a mail to the server. Raises MailRefused where it was certainly not sent."""
        account = self._connections.account(record.account)
        mail = await asyncio.to_thread(self._records.mail, record.key)

        async def last_byte() -> None:
            await asyncio.to_thread(self._records.advance, record, "doubt")

        sender = parseaddr(record.sender)[1]
        try:
            await hand_over(
                Submission(names_of(record.account), account, sender, record.recipients, mail),
                last_byte=last_byte,
                written=_after_last_byte,
                sleep=self._sleep,
            )
        except NotTaken as error:
            await asyncio.to_thread(self._records.advance, record, "prepared")
            raise MailRefused(f"the mail was not sent: {error.told}", hint=error.told.hint) from error
        except ImportError as error:
            await asyncio.to_thread(self._records.advance, record, "prepared")
            raise missing(error) from error
        except InDoubt as error:
            log.warning("nobody knows whether the mail %s was sent: %s", record.message_id, error)
            resolved = await self._resolved(record)
            if resolved.state != "prepared":
                return resolved
            raise MailRefused(
                "the mail was not sent: the connection broke, and the server has no copy of it", hint="try again"
            ) from error
        return await asyncio.to_thread(self._records.advance, record, "accepted")

    async def _resolved(self, record: SendRecord) -> SendRecord:
        """Return a record in doubt with what can be known: by the copy that the server keeps of each mail that it sends."""
        account = self._connections.account(record.account)
        if account.save_sent == "always":  # the server keeps no copies, so their absence tells nothing
            return await asyncio.to_thread(self._records.advance, record, "unknown")
        try:
            there = await self._is_filed(record)
        except MailRefused as error:
            raise MailRefused(
                f"it is not known yet whether this mail was sent, because the mailbox cannot be looked at ({error}); "
                "it is not sent again until that is known",
                hint="call mail again later with the same mail only if the owner wants that",
            ) from error
        if there:
            return await asyncio.to_thread(self._records.advance, record, "accepted")
        certain = account.save_sent == "never"
        return await asyncio.to_thread(self._records.advance, record, "prepared" if certain else "unknown")

    async def _is_filed(self, record: SendRecord) -> bool:
        for wait in LOOKS:
            await self._sleep(wait)
            if await self._connections.run(record.account, lambda connection: _holds(connection, record)):
                return True
        return False

    async def _filed(self, record: SendRecord) -> Outcome:
        """File a copy of a mail that was sent, and mark the one that it answers."""
        to = ", ".join(record.recipients)
        notes = []
        if record.state == "accepted":
            try:
                await self._file(record)
                record = await asyncio.to_thread(self._records.advance, record, "filed")
            except MailRefused as error:
                log.warning("no copy of the mail %s is filed yet: %s", record.message_id, error)
                notes.append(f"a copy could not be filed yet ({error}); that is tried again")
            await self._mark_answered(record)
        return Outcome(
            text=". ".join([f"sent to {to}", *notes]),
            details={"account": record.account, "messageId": record.message_id, "recipients": list(record.recipients)},
            sources=_sources(record),
        )

    async def _file(self, record: SendRecord) -> None:
        account = self._connections.account(record.account)
        if account.save_sent == "never":
            return
        if account.save_sent == "auto" and await self._is_filed(record):
            return
        mail = await asyncio.to_thread(self._records.mail, record.key)
        await self._connections.run(record.account, lambda connection: _store(connection, record, "sent", mail, self._now()))

    async def _mark_answered(self, record: SendRecord) -> None:
        if not record.original:
            return
        original = parse_id(record.original, [record.account])
        try:
            await self._connections.run(record.account, lambda connection: _answered(connection, original))
        except MailRefused as error:
            log.info("the mail that %s answers could not be marked: %s", record.message_id, error)

    async def _in_doubt(self, record: SendRecord) -> Outcome:
        """Tell that nobody knows, and keep the mail as a draft, so that it is not lost."""
        where = ""
        try:
            mail = await asyncio.to_thread(self._records.mail, record.key)
            folder = await self._connections.run(
                record.account, lambda connection: _store(connection, record, "drafts", mail, self._now())
            )
            await asyncio.to_thread(self._records.advance, record, "unknown", kept=True)
            where = f" A copy is in {folder}."
        except MailRefused as error:
            log.warning("no draft of the mail %s could be saved: %s", record.message_id, error)
        return failed(
            f"Nobody knows whether the mail to {', '.join(record.recipients)} was sent: the connection ended while the server took it. "
            f"It is not sent again, so that it arrives at most once.{where} Tell the owner, and send it again only if they say so.",
            sources=_sources(record),
        )

    async def _save_draft(self, record: SendRecord) -> Outcome:
        if record.state != "filed":
            mail = await asyncio.to_thread(self._records.mail, record.key)
            await self._connections.run(
                record.account, lambda connection: _store(connection, record, "drafts", mail, self._now())
            )
            await asyncio.to_thread(self._records.advance, record, "filed")
        return Outcome(
            text="saved as a draft; nothing was sent", details={"account": record.account, "messageId": record.message_id}
        )

    async def resume(self) -> None:
        """File what an earlier process sent and could not file. Nothing is sent."""
        for record in await self._open({"accepted"}):
            await self._file_late(record)
        await asyncio.to_thread(self._records.sweep, self._now())

    async def settle(self) -> list[str]:
        """Settle what is open since a mailbox was away, and return what the owner is to be told. Nothing is sent.

        That is the copy of a mail that was sent, what became of one in doubt, and the draft of one of which nobody knows.
        """
        notices: list[str] = []
        for record in await self._open({"accepted", "doubt", "unknown"}):
            if record.state == "accepted":
                await self._file_late(record)
                continue
            try:
                notices += await self._settled(record)
            except MailRefused as error:
                log.info("the mail %s is not settled yet: %s", record.message_id, error)
        return notices

    async def _open(self, states: Collection[str]) -> list[SendRecord]:
        """Return the records in these states of which nothing is under way and something is left to do."""
        records = await asyncio.to_thread(lambda: list(self._records.all()))
        accounts = self._connections.names()
        return [
            one
            for one in records
            if one.state in states and not (one.draft or one.kept) and one.key not in self._running and one.account in accounts
        ]

    async def _file_late(self, record: SendRecord) -> None:
        try:
            await self._file(record)
            await asyncio.to_thread(self._records.advance, record, "filed")
        except MailRefused as error:
            log.warning("no copy of the mail %s is filed yet: %s", record.message_id, error)

    async def _settled(self, record: SendRecord) -> list[str]:
        """Settle a mail in doubt. Raises MailRefused where the mailbox is still away."""
        named = f"The mail to {', '.join(record.recipients)} ({record.summary})"
        known = record.state == "unknown"
        fresh = record if known else await self._resolved(record)
        if fresh.state == "accepted":
            await self._filed(fresh)
            return [f"📧 {named}, of which nobody knew whether it was sent, was sent."]
        if fresh.state == "prepared":
            return [f"📧 {named} was not sent: the connection broke. Ask me if it is to be sent again."]
        outcome = await self._in_doubt(fresh)
        return [] if known else [f"📧 {outcome.text.partition(' Tell the owner')[0]}"]

    async def close(self, seconds: float = 5.0) -> None:
        """Wait a little for what is being sent, then leave it."""
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=seconds)
        for task in list(self._running.values()):
            task.cancel()


def _sources(record: SendRecord) -> tuple[str, ...]:
    """Return the sources of the addresses of a mail: those of an answer are in the mail that it answers."""
    return sources_of(record.recipients) if record.original else ()


def _holds(connection: ImapConnection, record: SendRecord) -> bool:
    folder = connection.folder_for("sent")
    if folder is None:
        return False
    connection.select(folder)
    return bool(connection.holding(record.message_id, datetime.fromisoformat(record.made)))


def _store(connection: ImapConnection, record: SendRecord, use: str, mail: bytes, at: datetime) -> str:
    """Store a mail in a folder unless it is there, and return the folder's name."""
    folder = connection.folder_for(use)
    if folder is None:
        raise MailRefused(
            f"the account {record.account} has no folder for {use}",
            hint=f"homebody config set mail.accounts.{record.account}.folders.{use} FOLDER",
        )
    connection.select(folder)
    if not connection.holding(record.message_id, datetime.fromisoformat(record.made)):
        connection.begin()
        connection.append(folder, mail, _FLAGS[use], at)
    return folder


def _answered(connection: ImapConnection, original: MessageId) -> None:
    connection.select_checked(original.folder, original.check, writing=True)
    connection.flag(original.uid, "\\Answered", on=True)


def _after_last_byte() -> None:
    fault_injection.point("after", "mail_last_byte")
