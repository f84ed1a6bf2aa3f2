"""``homebody inbox``: what waits for an answer, and what got none."""

from __future__ import annotations

import json

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def inbox() -> None:
    """Look at messages that wait for an answer, and at those that got none."""


@inbox.command(name="list")
@_JSON
@pass_invocation
def list_(invocation: Invocation, as_json: bool) -> None:
    """List what waits for its turn or is being answered."""
    _tell(invocation, "inbox.list", "Nothing waits.", as_json=as_json)


@inbox.command()
@_JSON
@pass_invocation
def missed(invocation: Invocation, as_json: bool) -> None:
    """List messages of the last days that failed or were passed over, and why."""
    _tell(invocation, "inbox.missed", "Every message got its answer.", as_json=as_json)


@inbox.command()
@click.argument("number", type=int)
@_JSON
@pass_invocation
def retry(invocation: Invocation, number: int, as_json: bool) -> None:
    """Answer message NUMBER after all, which is in doubt since the ledger was damaged."""
    from gateway.api.handlers.queues import QueueHandlers
    from gateway.cli.ledger_call import call_ledger

    facts = call_ledger(invocation, lambda ledger: QueueHandlers(ledger).calls(), "inbox.retry", row=number)
    tell(facts, f"Message {number} waits for its answer.", as_json=as_json)


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
