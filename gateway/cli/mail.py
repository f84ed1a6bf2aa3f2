"""``homebody mail``: shows mail accounts, tries them out, and lists mail."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from gateway.base.errors import HomebodyError, UsageError
from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from channels.common.mail.imap_connection import ImapConnection
    from channels.common.mail.stored_mail import Summary
    from gateway.mail.account_connections import AccountConnections
    from gateway.settings.mail_settings import MailAccount

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_NO_ACCOUNTS = "No mail accounts. docs/mail.md shows how to add one."


@click.group()
def mail() -> None:
    """Show mail accounts, try them out, and list mail (docs/mail.md)."""


@mail.command()
@_JSON
@pass_invocation
def accounts(invocation: Invocation, as_json: bool) -> None:
    """List the accounts of the settings, and mails whose sending is not settled."""
    from gateway.mail.send_records import OUTGOING, SendRecords

    unsettled = [
        one for one in SendRecords(invocation.paths.state / OUTGOING).all() if one.state in {"doubt", "accepted", "unknown"}
    ]
    facts = [
        {
            "name": name,
            "address": account.sender,
            "imap": account.imap.host,
            "smtp": account.smtp.host if account.smtp else None,
            "agents": [*(account.agents or (invocation.loaded.settings.default_agent,))],
            "watch": account.watch,
            "unsettled": [
                {"state": one.state, "mail": one.summary, "made": one.made} for one in unsettled if one.account == name
            ],
        }
        for name, account in invocation.loaded.settings.mail.accounts.items()
    ]
    tell(facts, "\n".join(line for one in facts for line in _account_lines(one, invocation)) or _NO_ACCOUNTS, as_json=as_json)


@mail.command()
@click.argument("account", required=False)
@_JSON
@pass_invocation
def test(invocation: Invocation, account: str | None, as_json: bool) -> int:
    """Log in at the servers of ACCOUNT (default: of all) and say what is wrong. Exit code 1 if something is, or there is none."""
    from dataclasses import asdict

    from gateway.mail.account_check import check_account

    chosen = _chosen(invocation, account)

    async def work(connections: AccountConnections) -> dict[str, list[dict[str, Any]]]:
        return {name: [asdict(one) for one in await check_account(name, found, connections)] for name, found in chosen.items()}

    facts = asyncio.run(_with_connections(invocation, work))
    lines = []
    for name, checks in facts.items():
        lines.append(f"{name}: {chosen[name].sender}")
        for one in checks:
            lines.append(f"  {'ok ' if one['ok'] else 'NOT'} {one['what']}: {one['told']}")
            lines += [f"      {one['hint']}"] if one["hint"] else []
    tell(facts, "\n".join(lines) or _NO_ACCOUNTS, as_json=as_json)
    return 0 if facts and all(one["ok"] or not one["needed"] for checks in facts.values() for one in checks) else 1


@mail.command(name="list")
@click.argument("account", required=False)
@click.option("--folder", default="INBOX", show_default=True, help="The folder.")
@click.option("-n", "--count", type=click.IntRange(1, 200), default=20, show_default=True, help="How many mails.")
@click.option("--unread", is_flag=True, help="Only unread ones.")
@_JSON
@pass_invocation
def list_(invocation: Invocation, account: str | None, *, folder: str, count: int, unread: bool, as_json: bool) -> None:
    """List the newest mail of ACCOUNT (default: the first one). Nothing is marked as read."""
    from datetime import datetime

    from agent.errors import MailRefused
    from channels.common.mail.imap_values import check_of
    from channels.common.mail.stored_mail import summary_of
    from gateway.mail.agent_mail import trusted_of
    from gateway.mail.mail_words import listed
    from gateway.mail.message_ids import MessageId
    from gateway.mail.search_query import criteria_of

    name, found = next(iter(_chosen(invocation, account).items()), (None, None))
    if name is None or found is None:
        tell([], _NO_ACCOUNTS, as_json=as_json)
        return

    def look(connection: ImapConnection) -> list[tuple[str, Summary]]:
        selected = connection.select(connection.named(folder))
        if unread:
            uids = connection.search(selected, criteria_of("is:unread", datetime.now().astimezone().date()), count).uids
            items = connection.summaries(uids)
        else:
            items = connection.latest(selected, count, 0)
        summaries = [summary_of(one, trusted_of(found)) for one in items]
        check = check_of(selected.validity)
        return [(MessageId(name, selected.folder, check, one.uid).written(alone=False), one) for one in summaries]

    try:
        mails = asyncio.run(_with_connections(invocation, lambda connections: connections.run(name, look)))
    except MailRefused as error:
        raise HomebodyError(str(error), hint=error.hint) from error
    facts = [
        {
            "id": written,
            "from": [one.address for one in summary.headers.sender],
            "subject": summary.headers.subject,
            "arrived": summary.arrived.isoformat() if summary.arrived else None,
            "unread": summary.unread,
            "bytes": summary.size,
        }
        for written, summary in mails
    ]
    tell(
        facts,
        "\n".join(listed(summary, written, None) for written, summary in mails) or f"No mail in {folder}.",
        as_json=as_json,
    )


def _chosen(invocation: Invocation, account: str | None) -> dict[str, MailAccount]:
    found = invocation.loaded.settings.mail.accounts
    if account is None:
        return found
    if account not in found:
        hint = f"There is: {', '.join(found)}." if found else _NO_ACCOUNTS
        raise UsageError(f"there is no mail account {account!r}", hint=hint)
    return {account: found[account]}


async def _with_connections(invocation: Invocation, work: Any) -> Any:
    from gateway.mail.account_connections import AccountConnections

    connections = AccountConnections(lambda: invocation.loaded.settings.mail)
    try:
        return await work(connections)
    finally:
        connections.close()


def _account_lines(one: dict[str, Any], invocation: Invocation) -> list[str]:
    sends = one["smtp"] or "cannot send"
    lines = [
        f"{one['name']:12} {one['address']} ({one['imap']}, {sends}); agents: {', '.join(one['agents'])}; watch: {one['watch']}"
    ]
    facts = {
        "doubt": "may have been sent when it was interrupted",
        "accepted": "was sent, but no copy is filed yet",
        "unknown": "may have been sent; a copy is among the drafts",
    }
    return [
        *lines,
        *(f"  {invocation.local_time(mail['made'])} {facts[mail['state']]}: {mail['mail']}" for mail in one["unsettled"]),
    ]
