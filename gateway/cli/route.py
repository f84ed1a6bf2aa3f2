"""``homebody route``: which agent answers whom, and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from gateway.ledger.protocol import Ledger

_HEARD = {"owner": "the owner's memory", "group": "the memory of this group", "peer": "the memory of this person"}


@click.group()
def route() -> None:
    """Show which agent answers whom, and why."""


@route.command()
@click.option("--channel", required=True, help="The channel, such as telegram.")
@click.option("--peer", required=True, help="The platform's id of the person who writes.")
@click.option("--group", help="The group they write in; without it, a private chat.")
@click.option("--thread", help="The topic or thread of that group.")
@click.option("--account", default="default", show_default=True, help="The account of the channel.")
@click.option("--space", help="The Discord server or Slack workspace that the group lies in.")
@click.option("--chat", help="The id of the private chat, where it differs from that of the person (Slack, Discord).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def explain(invocation: Invocation, /, *, as_json: bool, **given: Any) -> None:
    """Tell which agent answers, in which session, whose memory it hears, which rule said so, and whether they may speak at all."""
    from gateway.cli.ledger_call import call_ledger

    facts = call_ledger(invocation, lambda ledger: _desk(invocation, ledger), "route.explain", **given)
    tell(facts, _told(facts), as_json=as_json)


def _desk(invocation: Invocation, ledger: Ledger) -> Any:
    from gateway.api.handlers.routes import RouteHandlers
    from gateway.base.clock import SystemClock
    from gateway.routing.access import Access
    from gateway.routing.router import router_of
    from gateway.supervision.platforms import platforms

    settings = invocation.loaded.settings
    policies = {(one.name, one.account): policy for one, policy in platforms(settings, SystemClock(), os.environ)}
    access = Access(ledger.pairing, lambda: policies, lambda: settings.session.identity_links)
    return RouteHandlers(lambda: settings, lambda: router_of(settings), access, lambda: policies).calls()


def _told(facts: dict[str, Any]) -> str:
    speaks = facts["speaks"]
    who = f"{facts['peer']} ({speaks['person']}, {'the owner' if speaks['role'] == 'owner' else 'a guest'})"
    lines = [f"{who} {'may speak' if speaks['may'] else 'may not speak: ' + speaks['reason']} in {facts['conversation']}."]
    if (mention := facts["mention"]) is not None:
        called = f" or is called by {', '.join(mention['patterns'])}" if mention["patterns"] else ""
        lines.append(f"It hears {'what mentions it' + called if mention['required'] else 'everything that is said there'}.")
    for one in facts["answers"]:
        lines.append(f"Agent {one['agent']} answers in session {one['sessionKey']}.")
        lines.append(f"  It hears {_HEARD[one['memory']]}: {one['workspace']}/{one['folder']}")
    if facts["broadcast"]:
        lines.append("Several agents answer, because `broadcast` names this conversation; it goes before bindings.")
    for rule in facts["rules"]:
        mark = "->" if rule["wins"] and not facts["broadcast"] else "  "
        lines.append(f"{mark} {rule['rule']} (agent {rule['agent']}): {rule['why']}")
    if not any(rule["wins"] for rule in facts["rules"]) and not facts["broadcast"]:
        lines.append(f"-> no rule holds: the default agent, {facts['default']}, answers")
    return "\n".join(lines)
