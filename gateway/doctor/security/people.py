"""Checks who may speak to the agents: open policies, lists with "*", groups in which everybody may, and guests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from agent.tool_settings import GROUPS
from channels.platform import ANYBODY, GroupRule, Policy
from gateway.base.clock import SystemClock
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.doctor.ledger_checks import ledger_facts
from gateway.settings.root import AgentProfile, Settings
from gateway.supervision.platforms import BrokenChannel, platforms

ACTING: Final = (
    "exec",
    "write",
    "edit",
    "apply_patch",
    "mail",
    "calendar",
    "cron",
    "message",
    "send_file",
    "spawn",
    "mcp_*",
    "gateway",
)
"""Tools that change something, or send something to somebody."""
_COSTS: Final = "They cost you money, and what they write is read by the model."


def _examine(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    found: list[Finding] = []
    for channel, policy in platforms(settings, SystemClock(), installation.env):
        name = f"{channel.name}:{channel.account}"
        if isinstance(channel, BrokenChannel) and "same token" in channel.why:
            why = "Each would receive only some of the messages, so the second one is off."
            found.append(Finding(level="error", what=channel.why, where=name, why=why, mend=channel.hint))
        found += [*_private(name, policy), *_groups(name, policy, settings)]
    yield from found or [ok("nobody is let in whom you did not name or approve")]


def _private(name: str, policy: Policy) -> Iterator[Finding]:
    everybody = ANYBODY in policy.allow_from
    setting = f"channels.{name.partition(':')[0]}.dmPolicy"
    if policy.dm_policy == "open" and everybody:
        why = f"Strangers speak to your agent as guests. {_COSTS}"
        what = "everybody may write private messages"
        yield Finding(level="warning", what=what, where=name, why=why, mend=f"homebody config set {setting} pairing")
    elif everybody:
        what = 'allowFrom lists "*"'
        why = "It lets everybody speak in the groups that are listed, and in private as soon as dmPolicy is open."
        yield Finding(level="warning", what=what, where=name, why=why, mend='Remove "*" from allowFrom, and name people.')


def _groups(name: str, policy: Policy, settings: Settings) -> Iterator[Finding]:
    everybody = ANYBODY in policy.allow_from
    listed = [(group, rule) for space in policy.rules.values() for group, rule in space.items()]
    listed += [(group, GroupRule()) for group in policy.groups]
    acting = _acting_tools(settings)
    for group, rule in listed:
        if not rule.allow:
            continue
        anybody = everybody if rule.users is None else ANYBODY in rule.users
        where = f"{name}, group {group}"
        left = [tool for tool in acting if _allowed(tool, rule.tools)]
        if anybody and left:
            what = f"everybody in the group may speak to the agent, which has tools that act there: {', '.join(left)}"
            why = f"Commands are refused in groups, but for rules of yours; other tools act there. {_COSTS}"
            mend = "Name who may speak (users), or narrow its tools (tools: {deny: [...]})."
            yield Finding(level="warning", what=what, where=where, why=why, mend=mend)
        elif anybody:
            yield Finding(
                level="note",
                what="everybody in the group may speak to the agent",
                where=where,
                why=_COSTS,
                mend="Name who may speak (users).",
            )
        if group == ANYBODY:
            yield Finding(
                level="warning",
                what="all groups are listed",
                where=where,
                why="Whoever adds the bot to a group can let it speak there.",
                mend="List the ids of your groups.",
            )


def _acting_tools(settings: Settings) -> list[str]:
    """Return the tools that act which some agent has by its settings."""
    return [tool for tool in ACTING if any(_has(settings.agent(agent), tool) for agent in settings.agent_ids)]


def _has(profile: AgentProfile, tool: str) -> bool:
    if tool == "exec" and profile.exec.security == "deny":
        return False
    return _allowed(tool, profile.tools)


def _allowed(tool: str, layers: Iterable[Any]) -> bool:
    return all(_named(tool, layer.allow) and not _named(tool, layer.deny) for layer in layers)


def _named(tool: str, patterns: Iterable[str]) -> bool:
    names = [name for pattern in patterns for name in GROUPS.get(pattern.casefold(), (pattern,))]
    return any(fnmatchcase(tool, name) or name == tool for name in names)


async def _examine_guests(installation: Installation) -> list[Finding]:
    facts = await ledger_facts(installation)
    guests = [one for one in facts.people if one["role"] != "owner"]
    rules = [
        rule for rule in installation.settings.approvals.rules if rule.decision == "allow" and rule.origins() & {"guest", "any"}
    ]
    owners = [one for one in facts.people if one["role"] == "owner"]
    found = []
    count = "1 guest" if len(guests) == 1 else f"{len(guests)} guests"
    if guests and rules:
        named = ", ".join(rule.command or rule.tool for rule in rules)
        what = f"{count} may have this done without a question: {named}"
        found.append(
            Finding(
                level="warning",
                what=what,
                where="approvals.rules",
                why="A rule of yours allows it for guests.",
                mend="Who they are: homebody pairing list",
            )
        )
    elif guests:
        named = ", ".join(f"{one['channel']}:{one['sender']}" for one in guests[:5])
        found.append(
            Finding(
                level="note",
                what=f"{count} {'was' if len(guests) == 1 else 'were'} approved: {named}",
                mend=f"To take it back: homebody pairing revoke {guests[0]['channel']} {guests[0]['sender']}",
            )
        )
    if len(owners) > 1 and not installation.settings.session.identity_links:
        named = ", ".join(f"{one['channel']}:{one['sender']}" for one in owners)
        what = f"several people are owners: {named}"
        found.append(
            Finding(level="note", what=what, why="Each may read your notes and approve commands.", mend="homebody pairing list")
        )
    return found or [ok("there are no guests")]


PEOPLE = Check(name="people", examine=_examine)
GUESTS = Check(name="guests", examine=_examine_guests)
