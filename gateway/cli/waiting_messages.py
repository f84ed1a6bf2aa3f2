"""``homebody inbox`` and ``homebody outbox``: messages that wait for an answer or failed, and replies that were not sent."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, say, tell

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def inbox() -> None:
    """Show messages that wait for an answer, and messages that failed."""


@inbox.command(name="list")
@_JSON
@pass_invocation
def list_(invocation: Invocation, as_json: bool) -> None:
    """List messages that are waiting or being answered."""
    _print_rows(invocation, "inbox.list", "No messages are waiting.", as_json=as_json)


@inbox.command()
@_JSON
@pass_invocation
def missed(invocation: Invocation, as_json: bool) -> None:
    """List recent messages that failed or were skipped, with the reason."""
    _print_rows(invocation, "inbox.missed", "No recent message failed.", as_json=as_json)


@inbox.command()
@click.argument("number", type=int)
@_JSON
@pass_invocation
def retry(invocation: Invocation, number: int, as_json: bool) -> None:
    """Answer message NUMBER, whose state is unknown since the ledger was damaged or restored."""
    facts = _call(invocation, "inbox.retry", row=number)
    tell(facts, f"Message {number} is queued and will be answered.", as_json=as_json)


def _print_rows(invocation: Invocation, call: str, nothing: str, *, as_json: bool) -> None:
    rows = _call(invocation, call)["inbox"]
    if as_json:
        tell(rows, "", as_json=True)
        return
    for row in rows:
        why = f" ({row['reason']})" if row["reason"] else ""
        when = invocation.local_time(row["receivedAt"])
        click.echo(f"{row['id']:>6}  {when}  {row['state']}{why}  {row['conversation']}  {shown(row['text'])}")
    if not rows:
        click.echo(nothing)
    elif call == "inbox.missed":
        say("To have one answered, write it again; one that is in doubt since a restore: homebody inbox retry NUMBER")


@click.group()
def outbox() -> None:
    """List undelivered replies, retry or forget failed ones, drop waiting ones."""


@outbox.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Include sent messages.")
@_JSON
@pass_invocation
def list_unsent(invocation: Invocation, everything: bool, as_json: bool) -> None:
    """List replies that wait to be sent or failed, oldest first, and why."""
    rows = _call(invocation, "outbox.list", everything=everything)["outbox"]
    if as_json:
        tell(rows, "", as_json=True)
        return
    for row in rows:
        why = f" ({row['reason']})" if row["reason"] else f" (waits: {row['waits']})" if row.get("waits") else ""
        click.echo(f"{row['id']:>6}  {row['state']}{why}  {row['conversation']}  {shown(row['text'])}")
    if not rows:
        click.echo("No replies are waiting, and none failed.")


@outbox.command(name="retry")
@click.argument("number", type=int)
@_JSON
@pass_invocation
def send_again(invocation: Invocation, number: int, as_json: bool) -> None:
    """Send message NUMBER again."""
    facts = _call(invocation, "outbox.retry", row=number)
    tell(facts, f"Message {number} will be sent again.", as_json=as_json)


@outbox.command()
@click.argument("number", type=int)
@_JSON
@pass_invocation
def drop(invocation: Invocation, number: int, as_json: bool) -> None:
    """Drop message NUMBER: it will not be sent."""
    facts = _call(invocation, "outbox.drop", row=number)
    tell(facts, f"Message {number} will not be sent. To undo this: homebody outbox retry {number}", as_json=as_json)


@outbox.command()
@click.argument("number", type=int)
@_JSON
@pass_invocation
def forget(invocation: Invocation, number: int, as_json: bool) -> None:
    """Clear the text of message NUMBER, which was given up: it is not listed any more and cannot be sent again."""
    facts = _call(invocation, "outbox.forget", row=number)
    tell(facts, f"Message {number} is forgotten.", as_json=as_json)


@outbox.command()
@_JSON
@pass_invocation
def held(invocation: Invocation, as_json: bool) -> None:
    """List messages that nobody asked for and that were held (quiet hours) or kept (beyond the number of a day)."""
    rows = _call(invocation, "outbox.held")["held"]
    if as_json:
        tell(rows, "", as_json=True)
        return
    for row in rows:
        when = invocation.local_time(row["since"])
        click.echo(f"{row['id']:>6}  {when}  {row['state']}  {row['name']}  {row['conversation']}  {shown(row['text'])}")
    click.echo("To send one now: homebody outbox send NUMBER" if rows else "No messages are held or kept.")


@outbox.command()
@click.argument("number", type=int, required=False)
@click.option("--all", "everything", is_flag=True, help="Send all of them, oldest first.")
@_JSON
@pass_invocation
def send(invocation: Invocation, number: int | None, everything: bool, as_json: bool) -> None:
    """Send held or kept message NUMBER now (see `homebody outbox held`)."""
    from gateway.base.errors import UsageError

    if (number is None) != everything:
        raise UsageError("name one number, or --all", hint="`homebody outbox held` shows the messages with their numbers.")
    facts = _call(invocation, "outbox.send", row=number)
    count = len(facts["sent"])
    done = (
        f"Message {number} is queued." if number is not None else f"{count} messages are queued." if count else "None are held."
    )
    tell(facts, done, as_json=as_json)


def shown(text: str) -> str:
    """A text as one line for the terminal, without control characters."""
    line = "".join(filter(str.isprintable, " ".join(text.split())))
    return line if len(line) <= 60 else f"{line[:59]}…"  # noqa: PLR2004  (what a line has room for)


def _call(invocation: Invocation, call: str, **arguments: Any) -> dict[str, Any]:
    from gateway.api.handlers.queues import QueueHandlers
    from gateway.cli.gateway_calls import call_ledger

    return call_ledger(invocation, lambda ledger: QueueHandlers(ledger).calls(), call, **arguments)
