"""``homebody route``: shows which agent answers a sender, and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from gateway.ledger.protocol import Ledger

_HEARD = {"owner": "the owner's memory", "group": "this group's memory", "peer": "this person's memory"}


@click.group()
def route() -> None:
    """Show which agent answers a sender, and why."""


@route.command()
@click.option("--channel", required=True, help="The channel, such as telegram.")
@click.option("--peer", required=True, help="The sender's id on the platform.")
@click.option("--group", help="The group's id (default: a private chat).")
@click.option("--thread", help="The topic or thread in the group.")
@click.option("--account", default="default", show_default=True, help="The channel's account.")
@click.option("--space", help="The group's Discord server or Slack workspace.")
@click.option("--chat", help="The id of the private chat, if it differs from the sender's (Slack, Discord).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def explain(invocation: Invocation, /, *, as_json: bool, **given: Any) -> None:
    """Show which agent answers, in which session and with which memory, the rule behind it, and whether the sender has access."""
    from gateway.cli.gateway_calls import call_ledger

    facts = call_ledger(invocation, lambda ledger: _route_handlers(invocation, ledger), "route.explain", **given)
    tell(facts, _route_text(facts), as_json=as_json)


def _route_handlers(invocation: Invocation, ledger: Ledger) -> Any:
    from gateway.api.handlers.routes import RouteHandlers
    from gateway.base.clock import SystemClock
    from gateway.routing.access import Access
    from gateway.routing.router import router_of
    from gateway.supervision.platforms import platforms

    settings = invocation.loaded.settings
    policies = {(one.name, one.account): policy for one, policy in platforms(settings, SystemClock(), os.environ)}
    access = Access(ledger.pairing, lambda: policies, settings.session.identity_links)
    return RouteHandlers(lambda: settings, lambda: router_of(settings), access, lambda: policies).calls()


def _route_text(facts: dict[str, Any]) -> str:
    speaks = facts["speaks"]
    who = f"{facts['peer']} ({speaks['person']}, {'the owner' if speaks['role'] == 'owner' else 'a guest'})"
    lines = [f"{who} {'may write' if speaks['may'] else 'may not write: ' + speaks['reason']} in {facts['conversation']}."]
    lines += [f"To allow it: {command}" for command in facts["mend"]]
    if (mention := facts["mention"]) is not None:
        called = f" or contains {', '.join(mention['patterns'])}" if mention["patterns"] else ""
        lines.append(f"It answers {'messages that mention it' + called if mention['required'] else 'every message there'}.")
    for one in facts["answers"]:
        lines.append(f"Agent {one['agent']} answers in session {one['sessionKey']}.")
        lines.append(f"  It reads {_HEARD[one['memory']]}: {one['workspace']}/{one['folder']}")
    if facts["broadcast"]:
        lines.append("Several agents answer, because `broadcast` names this conversation; it takes precedence over bindings.")
    for rule in facts["rules"]:
        mark = "->" if rule["wins"] and not facts["broadcast"] else "  "
        lines.append(f"{mark} {rule['rule']} (agent {rule['agent']}): {rule['why']}")
    if not any(rule["wins"] for rule in facts["rules"]) and not facts["broadcast"]:
        lines.append(f"-> no rule matches: the default agent, {facts['default']}, answers")
    return "\n".join(lines)
