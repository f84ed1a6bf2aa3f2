"""Tries an account out: logs in at both servers, and says what is wrong and what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.errors import MailRefused
from channels.common.mail.server_settings import DEFAULT_PORTS, MailServer
from channels.common.mail.smtp import NotTaken, connected
from gateway.mail.account_connections import AccountConnections
from gateway.mail.refusals import missing, names_of
from gateway.settings.mail_settings import MailAccount

if TYPE_CHECKING:
    from channels.common.mail.imap_connection import ImapConnection

_USES = ("sent", "drafts", "archive", "trash")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried. ``hint`` mends it where it is not ``ok``; ``needed``: the account is of no use without it."""

    what: str
    told: str
    hint: str = ""
    ok: bool = True
    needed: bool = True


async def check_account(name: str, account: MailAccount, connections: AccountConnections) -> list[Check]:
    """Try an account. Nothing in the mailbox is changed, and no mail is sent."""
    checks: list[Check] = []
    try:
        checks += await connections.run(name, lambda connection: _mailbox(name, account, connection))
    except MailRefused as error:
        checks.append(Check("imap login", f"{error} ({_address('imap', account.imap)})", error.hint, ok=False))
    checks.append(await _smtp(name, account))
    return checks


def _address(protocol: str, server: MailServer) -> str:
    """Return where a server is, and whether what is said to it is encrypted."""
    port = server.port or DEFAULT_PORTS[protocol, server.security]
    security = {"tls": "encrypted", "starttls": "encrypted after the greeting", "none": "NOT encrypted"}[server.security]
    return f"{server.host}:{port}, {security}"


def _mailbox(name: str, account: MailAccount, connection: ImapConnection) -> list[Check]:
    count, unread = connection.unread("INBOX")
    where = _address("imap", account.imap)
    checks = [Check("imap login", f"logged in as {account.user} at {where}; INBOX has {count:,} mails, {unread:,} unread")]
    for use in _USES:
        folder = connection.folder_for(use)
        there = folder is not None and folder in {one.name for one in connection.folders()}
        hint = f"homebody config set mail.accounts.{name}.folders.{use} FOLDER; there is {_some(connection)}"
        text = folder or "not found"
        if folder is not None and not there:
            text = f"{folder} does not exist"
        checks.append(Check(f"folder for {use}", text, "" if there else hint, ok=there, needed=use in {"sent", "drafts"}))
    waits = "IDLE" in connection.capabilities
    text = "the server tells at once (IDLE)" if waits else f"the server is asked every {account.watch_every_seconds} seconds"
    return [*checks, Check("new mail", text)]


def _some(connection: ImapConnection) -> str:
    return ", ".join(one.name for one in connection.folders()[:20] if one.can_hold)


async def _smtp(name: str, account: MailAccount) -> Check:
    if account.smtp is None:
        return Check("smtp login", "no SMTP server is set: drafts only", needed=False)
    try:
        client = await connected(names_of(name), account, account.smtp)
    except NotTaken as error:
        return Check("smtp login", f"{error.told} ({_address('smtp', account.smtp)})", error.told.hint, ok=False)
    except ImportError as error:
        refusal = missing(error)
        return Check("smtp login", str(refusal), refusal.hint, ok=False)
    client.close()
    return Check("smtp login", f"logged in at {_address('smtp', account.smtp)}; nothing was sent")
