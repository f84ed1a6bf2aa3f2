"""``homebody approvals``: decides what agents ask for, and lists and changes the rules."""

from __future__ import annotations

import textwrap
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gateway.approvals.question import visible
from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from gateway.approvals.stored_rules import StoredRules
    from gateway.ledger.protocol import Ledger
    from gateway.ledger.rows import Turn

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_AGENT = click.option("--agent", help="Only for this agent.")


@click.group()
def approvals() -> None:
    """Decide what agents ask for, and show and change what they may do without asking.

    Rules of your own are in the settings (`approvals.rules`); docs/approvals.md explains them.
    """


@approvals.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Also those that were decided or expired.")
@_JSON
@pass_invocation
def list_(invocation: Invocation, everything: bool, as_json: bool) -> None:
    """List the open questions."""
    found = _call(invocation, "approvals.list", everything=everything)["approvals"]
    lines = [
        f"{one['name']:10} {one['state']:9} {invocation.local_time(one['askedAt'])}  {one['agent']}: {visible(one['summary'])}"
        for one in found
    ]
    hint = ["homebody approvals show NAME tells all of one, homebody approvals approve NAME decides it."] if lines else []
    tell(found, "\n".join([*lines, *hint]) or "No question is open.", as_json=as_json)


@approvals.command()
@click.argument("name")
@_JSON
@pass_invocation
def show(invocation: Invocation, name: str, as_json: bool) -> None:
    """Show the question NAME with all of its command, or of what would be written."""
    facts = _call(invocation, "approvals.show", name=name)
    tell(facts, _shown(facts, invocation), as_json=as_json)


@approvals.command()
@click.argument("name")
@click.option("--always", is_flag=True, help="Allow exactly this command from now on without a question.")
@_JSON
@pass_invocation
def approve(invocation: Invocation, name: str, always: bool, as_json: bool) -> None:
    """Approve the question NAME, this one time."""
    facts = _call(invocation, "approvals.decide", name=name, choice="always" if always else "once")
    tell(facts, facts["told"], as_json=as_json)


@approvals.command()
@click.argument("name")
@_JSON
@pass_invocation
def deny(invocation: Invocation, name: str, as_json: bool) -> None:
    """Deny the question NAME."""
    facts = _call(invocation, "approvals.decide", name=name, choice="deny")
    tell(facts, facts["told"], as_json=as_json)


@approvals.command()
@_AGENT
@_JSON
@pass_invocation
def rules(invocation: Invocation, agent: str | None, as_json: bool) -> None:
    """List the rules: your own, those made with "always", and the built-in ones."""
    facts = _rule_call(invocation, "approvals.rules", agent=agent)
    tell(facts, _listed(facts, invocation), as_json=as_json)


@approvals.command()
@click.argument("rule")
@_JSON
@pass_invocation
def forget(invocation: Invocation, rule: str, as_json: bool) -> None:
    """Remove the rule with the id RULE; a built-in one, such as builtin:git, is switched off."""
    facts = _rule_call(invocation, "approvals.forget", rule=rule)
    done = facts["forgotten"]
    back = f"It can be switched on again: homebody approvals restore {done['id']}" if done.get("builtIn") else ""
    tell(facts, f"The rule {done['id']} no longer holds. {back}".strip(), as_json=as_json)


@approvals.command()
@click.argument("rule")
@_JSON
@pass_invocation
def restore(invocation: Invocation, rule: str, as_json: bool) -> None:
    """Switch the built-in rule RULE on again."""
    facts = _rule_call(invocation, "approvals.restore", rule=rule)
    tell(facts, f"The rule {facts['restored']['id']} holds again.", as_json=as_json)


def _call(invocation: Invocation, call: str, **arguments: Any) -> dict[str, Any]:
    """Ask the gateway, or the ledger itself; a turn that may go on then does when a gateway starts."""
    from gateway.api.handlers.approval_requests import ApprovalHandlers
    from gateway.approvals.decisions import Decisions
    from gateway.approvals.rules import Rules
    from gateway.base.clock import SystemClock
    from gateway.cli.gateway_calls import call_ledger

    def handlers(ledger: Ledger) -> Any:
        settings, stored = invocation.loaded.settings, _stored(invocation)

        def wake(_turn: Turn) -> None:
            """Do nothing: the ledger says that the turn may go on."""

        decisions = Decisions(
            ledger, SystemClock(), rules=Rules(lambda: settings, stored), agents=settings.agent_ids, wake=wake
        )
        return ApprovalHandlers(ledger, decisions, settings=lambda: settings, stored=stored).calls()

    return call_ledger(invocation, handlers, call, **arguments)


def _rule_call(invocation: Invocation, call: str, **arguments: Any) -> dict[str, Any]:
    """Make a call about rules: they are in a file that a running gateway reads again when it has changed."""
    from gateway.approvals.rule_list import rule_calls

    invocation.paths.prepare()
    settings, stored = invocation.loaded.settings, _stored(invocation)
    return rule_calls(lambda: settings, stored)[call](**arguments)


def _stored(invocation: Invocation) -> StoredRules:
    """Return the lasting rules; where several gateways share them, with a lock in their database."""
    from gateway.approvals.stored_rules import StoredRules

    settings, stored = invocation.loaded.settings, StoredRules(invocation.paths.state)
    if settings.cluster.enabled and settings.storage.url is not None:
        from gateway.cluster.database_lock import database_lock
        from gateway.ledger.open_ledger import need_driver

        need_driver()
        stored.guard = partial(database_lock, settings.storage, "rules")
    return stored


def _shown(facts: dict[str, Any], invocation: Invocation) -> str:
    parts = [f"  {number}. {visible(part)}" for number, part in enumerate(facts["parts"] or (), 1)]
    words = {
        "State": facts["state"]
        + (f", until {invocation.local_time(facts['expiresAt'])}" if facts["state"] == "pending" else ""),
        "Agent": facts["agent"],
        "Asked by": facts["origin"],
        "Why asked": facts["reason"],
        "Folder": facts["cwd"],
        "Network": "yes" if facts["network"] else "no",
        "Variables": ", ".join(f"{name}={value}" for name, value in facts["env"].items()),
        "File": facts["path"],
        "Address": facts["url"],
        "To": ", ".join(facts["recipients"]),
        "Untrusted text from": ", ".join(facts["taint"]),
        "Words": " ".join(f"[{word}]" for word in facts["argv"] or ()),
    }
    relevant = {"Folder", "Network", "Words"} if facts["kind"] != "exec" else set()
    lines = [f"{name}: {visible(value)}" for name, value in words.items() if value and name not in relevant]
    whole = facts["command"] or facts["details"]
    command = [visible(line) for line in whole.split("\n")] if whole else []
    return "\n".join(
        [f"{facts['name']}: {visible(facts['summary'])}", *lines, *(["Parts:", *parts] if parts else []), *command]
    )


def _listed(facts: dict[str, Any], invocation: Invocation) -> str:
    run = facts["exec"]
    lines = [f"Commands of {facts['agent']}: tools.exec.security is {run['security']}, tools.exec.ask is {run['ask']}."]
    lines += [f"⚠️ {facts['problem']}; nothing is allowed without a question until it is mended."] if facts["problem"] else []
    lines.append(
        "Rules of the settings (approvals.rules):" if facts["settings"] else "The settings have no rules (approvals.rules)."
    )
    lines += [
        f"  {one['decision']:5} {one.get('command') or one['tool']}  (agent {one['agent']}; for {', '.join(one['origin'])}"
        f"{'; with the network' if one.get('network') else ''})"
        for one in facts["settings"]
    ]
    lines.append('Rules made with "always":' if facts["stored"] else 'No rule was made with "always" yet.')
    for one in facts["stored"]:
        more = [
            *(["with the network"] if one["network"] else []),
            *([f"{len(one['files'])} unchanged file(s)"] if one["files"] else []),
        ]
        words = " ".join(one["argv"])
        lines.append(
            f"  {one['id']}  {visible(words)}  (agent {one['agent']}, in {one['cwd']}{''.join(f', {part}' for part in more)}; "
            f"{invocation.local_time(one['made'])})"
        )
    lines += [f"  tools.exec.safeBins names what is not known here: {', '.join(facts['unknown'])}"] if facts["unknown"] else []
    lines.append("Built-in rules (builtin:NAME), for commands that only look at the workspace or the machine:")
    on, off = ([one for one in facts["builtIn"] if one["on"] is wanted] for wanted in (True, False))
    names = [one["id"].partition(":")[2] for one in on if one["ofOptions"]]
    lines += textwrap.wrap(", ".join(names), width=110, initial_indent="  ", subsequent_indent="  ") if names else []
    lines += [f"  {one['id'].partition(':')[2]}: {one['commands']}" for one in on if not one["ofOptions"]]
    lines += [f"Switched off: {', '.join(one['id'] for one in off)}"] if off else []
    return "\n".join([*lines, "Remove a rule: homebody approvals forget ID"])
