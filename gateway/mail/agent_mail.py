"""The mailboxes of one agent, as its tool ``mail`` uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, TypeVar

from agent.errors import MailRefused
from agent.tools.arguments import failed
from agent.tools.file_tool_context import FileToolContext
from agent.tools.mail_tool import SENDS, MailArguments
from agent.tools.protocol import Act, Outcome, ToolContext
from channels.common.mail.imap_values import check_of
from channels.common.mail.mail_headers import provider_of
from channels.common.mail.stored_mail import StoredMail, Summary, attachment, read_mail, summary_of
from gateway.mail import mail_words
from gateway.mail.account_connections import AccountConnections
from gateway.mail.letter_writing import LetterWriter
from gateway.mail.mail_sending import MailSender
from gateway.mail.message_ids import MessageId, parse_id
from gateway.mail.message_text import MessageTexts
from gateway.mail.refusals import FOLDERS
from gateway.mail.search_query import criteria_of
from gateway.settings.mail_settings import MailAccount

if TYPE_CHECKING:
    from channels.common.mail.imap_connection import ImapConnection

PAGE: Final = 20
"""Mails that one list shows."""
_MARKS: Final = {
    "read": ("\\Seen", True),
    "unread": ("\\Seen", False),
    "flagged": ("\\Flagged", True),
    "unflagged": ("\\Flagged", False),
}
T = TypeVar("T")


class AgentMail:
    """Implements ``Mailboxes``. ``accounts`` returns the names of the agent's accounts at present, the first counts without a name."""

    def __init__(
        self,
        accounts: Callable[[], Sequence[str]],
        connections: AccountConnections,
        *,
        writer: LetterWriter,
        sender: MailSender,
        files: FileToolContext,
        texts: MessageTexts | None = None,
    ) -> None:
        self._accounts = accounts
        self._connections = connections
        self._writer = writer
        self._sender = sender
        self._files = files
        self._texts = texts or MessageTexts()

    def preview(self, wish: MailArguments, context: ToolContext) -> Act | None:
        """See the protocol."""
        if wish.action in SENDS:
            record = self._writer.prepared(wish, context, self._account(wish), self._id)
            quotes = wish.id is not None  # its subject and its addresses are those of the mail that it answers
            if record.draft:
                return Act(kind="call", summary=f"save a draft of: {record.summary}", details=record.details, quotes=quotes)
            return Act(
                kind="send",
                summary=record.summary,
                details=record.details,
                others=True,
                recipients=tuple(record.recipients),
                quotes=quotes,
            )
        if wish.action == "move":
            mail = self._id(wish.id or "")
            return Act(kind="call", summary=f"move the mail {mail.written(alone=False)} to {wish.folder}")
        if wish.action == "mark":
            return Act(kind="call", summary=f"mark the mail {self._id(wish.id or '').written(alone=False)} as {wish.mark}")
        return None

    async def perform(self, wish: MailArguments, context: ToolContext) -> Outcome:
        """See the protocol."""
        if wish.action in SENDS:
            return await self._sender.send(await asyncio.to_thread(self._writer.approved, wish, context))
        handlers = {"folders": self._folders, "read": self._read, "save": self._save, "move": self._move, "mark": self._mark}
        return await handlers.get(wish.action, self._list)(wish, context)

    def known_outcome(self, wish: MailArguments, context: ToolContext) -> str:
        """See the protocol."""
        try:
            return self._sender.progress_of(self._writer.approved(wish, context))
        except MailRefused:
            return ""

    def _names(self) -> Sequence[str]:
        names = self._accounts()
        if not names:
            raise MailRefused("this agent has no mail account any more", hint="docs/mail.md")
        return names

    def _account(self, wish: MailArguments) -> str:
        names = self._names()
        if wish.account is None and wish.id:
            return self._id(wish.id).account
        if wish.account is not None and wish.account not in names:
            raise MailRefused(f"there is no mail account {wish.account[:40]!r}", hint=f"there is {', '.join(names)}")
        return wish.account or names[0]

    def _id(self, written: str) -> MessageId:
        return parse_id(written, self._names())

    def _written(self, account: str, folder: str, validity: int, uid: int) -> str:
        return MessageId(account, folder, check_of(validity), uid).written(alone=len(self._names()) == 1)

    def _settings(self, name: str) -> MailAccount:
        return self._connections.account(name)

    async def _folders(self, _wish: MailArguments, _context: ToolContext) -> Outcome:
        lines = []
        for name in self._names():
            account = self._settings(name)
            folders = await self._connections.run(name, lambda connection: connection.folders())
            count, unread = await self._connections.run(name, lambda connection: connection.unread("INBOX"))
            lines.append(
                f"{name}: {account.sender}{'' if account.smtp else ' (cannot send)'}; INBOX: {count:,} mails, {unread:,} unread"
            )
            lines += [f"  {one.name}{f' ({one.use})' if one.use else ''}" for one in folders if one.can_hold][:100]
        return Outcome(text="\n".join(lines), sources=FOLDERS)

    async def _list(self, wish: MailArguments, context: ToolContext) -> Outcome:
        account, query = self._account(wish), (wish.query or "").strip()
        trusted, most = trusted_of(self._settings(account)), PAGE
        criteria = criteria_of(query, context.now.date())

        def work(connection: ImapConnection) -> tuple[str, int, list[Summary], str]:
            folder = connection.named(wish.folder or "INBOX")
            selected = connection.select(folder)
            if not query:
                found = connection.latest(selected, most, wish.offset)
                rest = selected.count - wish.offset - len(found)
                return (
                    folder,
                    selected.validity,
                    [summary_of(one, trusted) for one in found],
                    _rest(rest, wish.offset + len(found)),
                )
            result = connection.search(selected, criteria, wish.offset + most + 1)
            uids = result.uids[wish.offset : wish.offset + most]
            text = _searched(result.looked, result.count, len(result.uids) > wish.offset + most, wish.offset + most)
            return folder, selected.validity, [summary_of(one, trusted) for one in connection.summaries(uids)], text

        folder, validity, found, told = await self._connections.run(account, work)
        lines = [mail_words.listed(one, self._written(account, folder, validity, one.uid), context.now.tzinfo) for one in found]
        text = "\n".join(
            [*(lines or [f"no mails found in {folder}" if query else f"no mails in {folder}"]), *([told] if told else [])]
        )
        senders = [one.headers.from_address for one in found]
        return Outcome(
            text=text,
            sources=mail_words.sources_of(senders),
            details={"account": account, "folder": folder, "count": len(found)},
        )

    async def _read(self, wish: MailArguments, context: ToolContext) -> Outcome:
        mail = self._id(wish.id or "")
        stored, name = await self._stored(mail, texts=True)
        text = mail_words.mail_text(stored, name, await self._texts.text_of(stored), context.now.tzinfo)
        return Outcome(
            text=mail_words.page(text, wish.offset, context.max_chars),
            sources=mail_words.sources_of([stored.summary.headers.from_address]),
            details={"messageId": stored.summary.headers.message_id},
        )

    async def _stored(self, mail: MessageId, *, texts: bool) -> tuple[StoredMail, str]:
        trusted = trusted_of(self._settings(mail.account))

        def work(connection: ImapConnection) -> StoredMail:
            connection.select_checked(connection.named(mail.folder), mail.check)
            return read_mail(connection, mail.uid, trusted, texts=texts)

        return await self._connections.run(mail.account, work), mail.written(alone=len(self._names()) == 1)

    async def _save(self, wish: MailArguments, context: ToolContext) -> Outcome:
        mail = self._id(wish.id or "")
        stored, _ = await self._stored(mail, texts=False)
        files = stored.attachments
        number = wish.attachment or 1
        if number > len(files):
            return failed(f"this mail has {len(files) or 'no'} attachments{'' if files else ' at all'}")
        part, most = files[number - 1], self._settings(mail.account).max_attachment_bytes

        def work(connection: ImapConnection) -> tuple[bytes, bool]:
            connection.select_checked(connection.named(mail.folder), mail.check)
            return attachment(connection, mail.uid, part, most)

        data, damaged = await self._connections.run(mail.account, work)
        told = (
            "; it came damaged (its base64 is broken), so that it may be wrong or incomplete: ask for it again"
            if damaged
            else ""
        )
        path = context.audience.inbox / f"mail-{check_of(mail.uid)}{mail.check}-{number}-{mail_words.attachment_name(part)}"
        await asyncio.to_thread(self._keep, path, data)
        return Outcome(
            text=f"saved as {path} ({len(data):,} bytes){told}",
            sources=mail_words.sources_of([stored.summary.headers.from_address]),
            details={"path": str(path), "bytes": len(data)},
        )

    def _keep(self, path: PurePosixPath, data: bytes) -> None:
        """Write a file, unless it is there as it is. Files in the inbox count as untrusted by where they lie. Blocking."""
        sandbox = self._files.sandbox
        if sandbox.kind(path) == "file":
            old = sandbox.read(path, limit=max(len(data), 1) * 2 + 1_000_000).data
            if old != data:
                sandbox.replace(path, data, expected=old)
            return
        sandbox.create(path, data)

    async def _move(self, wish: MailArguments, _context: ToolContext) -> Outcome:
        mail, target = self._id(wish.id or ""), wish.folder or ""

        def work(connection: ImapConnection) -> str:
            folder = connection.named(target)
            connection.select_checked(connection.named(mail.folder), mail.check, writing=True)
            if not connection.fetch([mail.uid], "(UID)"):
                raise MailRefused(f"there is no mail {mail.uid} in {mail.folder} any more; perhaps it was moved already")
            connection.move(mail.uid, folder)
            return folder

        return Outcome(text=f"moved to {await self._connections.run(mail.account, work)}")

    async def _mark(self, wish: MailArguments, _context: ToolContext) -> Outcome:
        mail = self._id(wish.id or "")
        flag, on = _MARKS[wish.mark or "read"]

        def work(connection: ImapConnection) -> None:
            connection.select_checked(connection.named(mail.folder), mail.check, writing=True)
            if not connection.fetch([mail.uid], "(UID)"):
                raise MailRefused(f"there is no mail {mail.uid} in {mail.folder} any more")
            connection.flag(mail.uid, flag, on=on)

        await self._connections.run(mail.account, work)
        return Outcome(text=f"marked as {wish.mark}")


def trusted_of(account: MailAccount) -> tuple[str, ...]:
    """Return the names of servers whose word on a sender is the owner's own server's."""
    return (account.auth_server.lower(),) if account.auth_server else (provider_of(account.imap.host),)


def _rest(left: int, offset: int) -> str:
    return f"[{left:,} older mails; go on with offset={offset}]" if left > 0 else ""


def _searched(looked: int, count: int, more: bool, offset: int) -> str:
    if more:
        return f"[there are more; go on with offset={offset}]"
    return (
        ""
        if looked >= count
        else f"[only the newest {looked:,} of {count:,} mails were looked at: the server is slow; narrow it by since:]"
    )
