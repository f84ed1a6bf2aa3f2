"""``homebody pairing``: approves and revokes people who may talk to your agent."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.ledger.protocol import Ledger

_LONGEST_NAME = 60
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def pairing() -> None:
    """Approve and revoke people who may talk to your agent.

    A person who is not approved yet gets a code instead of an answer. Approve them with that code.
    """


@pairing.command(name="list")
@click.argument("channel", required=False)
@_JSON
@pass_invocation
def list_(invocation: Invocation, channel: str | None, as_json: bool) -> None:
    """Show pending requests and approved people."""
    _print_facts(
        _ask(invocation, "pairing.list", channel=channel), partial(_listed, local=invocation.local_time), as_json=as_json
    )


@pairing.command()
@click.argument("channel")
@click.argument("code")
@click.option("--owner", is_flag=True, help="This person is you: they get the owner's rights and your memory.")
@_JSON
@pass_invocation
def approve(invocation: Invocation, channel: str, code: str, owner: bool, as_json: bool) -> None:
    """Approve the person with CODE on CHANNEL. The first one becomes the owner; others are guests with separate sessions."""
    _print_facts(_ask(invocation, "pairing.approve", channel=channel, code=code, owner=owner), _approved, as_json=as_json)


@pairing.command()
@click.argument("channel")
@click.argument("sender")
@_JSON
@pass_invocation
def revoke(invocation: Invocation, channel: str, sender: str, as_json: bool) -> None:
    """Revoke the access of the person with id SENDER on CHANNEL."""
    _print_facts(_ask(invocation, "pairing.revoke", channel=channel, sender=sender), _revoked, as_json=as_json)


def _ask(invocation: Invocation, call: str, **arguments: Any) -> dict[str, Any]:
    from gateway.api.handlers.pairing_requests import PairingHandlers
    from gateway.base.clock import SystemClock
    from gateway.cli.gateway_calls import call_ledger
    from gateway.routing.access import Access
    from gateway.supervision.platforms import platforms

    def handlers(ledger: Ledger) -> Any:
        settings = invocation.loaded.settings
        policies = {(one.name, one.account): policy for one, policy in platforms(settings, SystemClock(), os.environ)}
        return PairingHandlers(ledger, Access(ledger.pairing, lambda: policies, settings.session.identity_links)).calls()

    return call_ledger(invocation, handlers, call, **arguments)


def _print_facts(facts: dict[str, Any], told: Callable[[dict[str, Any]], str], *, as_json: bool) -> None:
    tell(facts, told(facts), as_json=as_json)


def _listed(facts: dict[str, Any], *, local: Callable[[str], str]) -> str:
    asking = [
        f"  {_who(one)}: homebody pairing approve {one['channel']} {one['code']}   (until {local(one['expiresAt'])})"
        for one in facts["pending"]
    ]
    let_in = [
        f"  {_who(one)}: {'owner' if one['role'] == 'owner' else 'guest'}, since {local(one['approvedAt'])}"
        for one in facts["approved"]
    ]
    lines = (["Pending requests:", *asking] if asking else []) + (["Approved:", *let_in] if let_in else [])
    return "\n".join(lines) or "No pending requests and nobody approved. Write to your bot to get a code."


def _approved(facts: dict[str, Any]) -> str:
    one = facts["approved"]
    if one["role"] == "owner":
        return f"{_who(one)} was approved as the owner."
    again = f"homebody pairing revoke {one['channel']} {one['sender']}"
    return (
        f"{_who(one)} was approved as a guest, with a separate session and without access to your notes.\n"
        f"If this is you: {again}, write to the bot again, and approve the new code with --owner."
    )


def _revoked(facts: dict[str, Any]) -> str:
    lines = [f"{_who(one)} no longer has access." for one in facts["revoked"]]
    owner = next((one for one in facts["revoked"] if one["role"] == "owner"), None)
    if owner is not None and not facts["ownersLeft"]:
        lines.append(
            "That was the only owner: nobody is left on a chat platform who answers approvals and is told of faults.\n"
            f"To have one again, write to the bot for a code, or: homebody setup {owner['channel']}"
        )
    return "\n".join(lines)


def _who(one: dict[str, Any]) -> str:
    """A person's name and id for the terminal. Names are strangers' text: in quotation marks, without control characters."""
    name, sender = ("".join(filter(str.isprintable, one[key])) for key in ("name", "sender"))
    name = re.sub('[“”"]', "", name)[:_LONGEST_NAME]
    return f"“{name}”, {one['channel']} {sender}" if name else f"{one['channel']} {sender}"
