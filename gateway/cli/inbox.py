"""``homebody inbox``: shows messages that wait for an answer or failed."""

from __future__ import annotations

import json

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def inbox() -> None:
    """Show messages that wait for an answer, and messages that failed."""


@inbox.command(name="list")
@_JSON
@pass_invocation
def list_(invocation: Invocation, as_json: bool) -> None:
    """List messages that are waiting or being answered."""
    _tell(invocation, "inbox.list", "No messages are waiting.", as_json=as_json)


@inbox.command()
@_JSON
@pass_invocation
def missed(invocation: Invocation, as_json: bool) -> None:
    """List recent messages that failed or were skipped, with the reason."""
    _tell(invocation, "inbox.missed", "No recent message failed.", as_json=as_json)


@inbox.command()
@click.argument("number", type=int)
@_JSON
@pass_invocation
def retry(invocation: Invocation, number: int, as_json: bool) -> None:
    """Answer message NUMBER, whose state is unknown since the ledger was damaged."""
    from gateway.api.handlers.queues import QueueHandlers
    from gateway.cli.ledger_call import call_ledger

    facts = call_ledger(invocation, lambda ledger: QueueHandlers(ledger).calls(), "inbox.retry", row=number)
    tell(facts, f"Message {number} is queued and will be answered.", as_json=as_json)


def _tell(invocation: Invocation, call: str, nothing: str, *, as_json: bool) -> None:
    from gateway.api.handlers.queues import QueueHandlers
    from gateway.cli.ledger_call import call_ledger
    from gateway.cli.outbox import shown

    rows = call_ledger(invocation, lambda ledger: QueueHandlers(ledger).calls(), call)["inbox"]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        why = f" ({row['reason']})" if row["reason"] else ""
        when = invocation.local_time(row["receivedAt"])
        click.echo(f"{row['id']:>6}  {when}  {row['state']}{why}  {row['conversation']}  {shown(row['text'])}")
    if not rows:
        click.echo(nothing)
