"""Checks what agents may do without being asked: confinement, rules that are wide, MCP servers, skills and other packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.approvals.rules import rule_in_words
from gateway.approvals.stored_rules import StoredRule, StoredRules
from gateway.doctor.checked_installation import Installation
from gateway.doctor.confinement_check import SANDBOX
from gateway.doctor.finding import Check, Finding, ok
from gateway.mcp.pins import PinStore
from gateway.settings.approval_settings import ApprovalRule
from gateway.settings.command_pattern import runs_others
from gateway.settings.root import AgentProfile, SettingsStore
from gateway.skills.catalog import SkillCatalog
from gateway.skills.trust import SkillTrust

_OTHERS: Final = frozenset({"guest", "group", "webhook", "any"})
_ANYTHING: Final = "Whatever the model takes for your wish then runs, a misread page included."


def _examine_exec(installation: Installation) -> Iterator[Finding]:
    found = [finding for profile in installation.profiles for finding in _exec_of(profile)]
    yield from found or [ok("commands are confined where that works here, and ask where no rule allows them")]


def _exec_of(profile: AgentProfile) -> Iterator[Finding]:
    run, where = profile.exec, f"agent {profile.id}"
    if run.security == "deny":
        return
    if run.security == "full":
        what = "all commands that you ask for in private run without a question (tools.exec.security: full)"
        yield Finding(
            level="warning", what=what, where=where, why=_ANYTHING, mend="homebody config set tools.exec.security allowlist"
        )
    if run.sandbox == "off" or profile.settings.sandbox.mode == "off":
        key, value = ("tools.exec.sandbox", "auto") if run.sandbox == "off" else ("agents.defaults.sandbox.mode", "all")
        why = "A command that you approve can read your keys and change all your files."
        yield Finding(
            level="warning",
            what=f"commands are not confined ({key}: off)",
            where=where,
            why=why,
            mend=f"homebody config set {key} {value}",
        )
    elif profile.settings.sandbox.mode == "non-main":
        why = "A command that you approve in your main conversation can read your keys and change all your files."
        mend = "homebody config set agents.defaults.sandbox.mode all"
        yield Finding(level="note", what="commands of your main conversation are not confined", where=where, why=why, mend=mend)
    for path in run.read_paths:
        if Path(path).expanduser() in {Path("/"), Path.home(), Path("/etc"), Path("/home"), Path("/root")}:
            why = "It holds keys of yours and of other programs."
            yield Finding(
                level="warning",
                what=f"commands may read all of {path}",
                where="tools.exec.readPaths",
                why=why,
                mend="Name the folders that are needed.",
            )


def _examine_rules(installation: Installation) -> Iterator[Finding]:
    found = [finding for rule in installation.settings.approvals.rules if rule.decision == "allow" for finding in _rule(rule)]
    found += [finding for rule in StoredRules(installation.paths.state).all() for finding in _stored(rule)]
    yield from found or [ok("no rule allows more than single acts")]


def _rule(rule: ApprovalRule) -> Iterator[Finding]:
    where, said = "approvals.rules", rule_in_words(rule)
    if rule.command is not None and runs_others(rule.command.split()[0]):
        why = "That program runs what files say, and the agent can write files."
        yield Finding(
            level="warning",
            what=f"a rule allows a program that runs others ({said})",
            where=where,
            why=why,
            mend="Remove the rule, and approve single commands.",
        )
    if rule.command is not None and rule.network and "*" in rule.command:
        why = "What stands for * can name any server, and carry out what the command reads."
        yield Finding(
            level="warning",
            what=f"a rule with * allows the network ({said})",
            where=where,
            why=why,
            mend="Write the address out, or leave network out.",
        )
    if rule.command is None and rule.tool.strip("*") in {"", "mcp_", "mcp"}:
        yield Finding(
            level="warning",
            what=f"a rule allows many tools at once ({said})",
            where=where,
            why=_ANYTHING,
            mend="Name one tool.",
        )
    if rule.tool in {"mail", "message"} and not rule.to:
        why = "The agent may write to anybody in your name."
        yield Finding(
            level="warning",
            what=f"a rule allows sending to everybody ({said})",
            where=where,
            why=why,
            mend="Name the addresses: to: [...]",
        )
    if rule.untrusted:
        why = "What a page or a mail says can bring it about, without a question."
        yield Finding(
            level="warning",
            what=f"a rule holds also with untrusted text in view ({said})",
            where=where,
            why=why,
            mend="Leave untrusted out.",
        )
    if others := rule.origins() & _OTHERS:
        why = "It is not you who asks."
        what = f"a rule allows this for {', '.join(sorted(others))} ({said})"
        yield Finding(
            level="warning" if others & {"any", "webhook"} else "note",
            what=what,
            where=where,
            why=why,
            mend="Name fewer origins.",
        )


def _stored(rule: StoredRule) -> Iterator[Finding]:
    program = Path(rule.program).name
    shown = " ".join(rule.argv)[:80]
    mend = f"homebody approvals rules remove {rule.id}"
    if rule.network and runs_others(program) and not rule.files:
        why = "That program runs what is there when it runs, with the network."
        yield Finding(level="warning", what=f"you allowed for good: {shown}", where=rule.id, why=why, mend=mend)


def _examine_mcp(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    pins = PinStore(installation.paths.state)
    found: list[Finding] = []
    for name, server in settings.mcp.servers.items():
        if not server.enabled:
            continue
        where = f"mcp.servers.{name}"
        if server.command is not None:
            why = "It runs with your rights: it can read your files and use the network. Only its tools are asked about."
            mend = "Use it if you trust its makers; else run it in a container, and name its address as url."
            found.append(
                Finding(level="note", what=f"the program {server.command} is not confined", where=where, why=why, mend=mend)
            )
        if server.trust_read_only:
            why = "The server itself says which of its tools only read."
            found.append(
                Finding(
                    level="note",
                    what="tools that it calls read-only run without a question",
                    where=where,
                    why=why,
                    mend=f"homebody config unset {where}.trustReadOnly",
                )
            )
        if "*" in server.agents and len(settings.agent_ids) > 1:
            found.append(
                Finding(
                    level="note",
                    what="all agents may use it",
                    where=where,
                    why="Also those that other people speak to.",
                    mend="Name the agents.",
                )
            )
        pin = pins.get(name, server)
        if pin is not None and pin.waiting is not None:
            found.append(
                Finding(
                    level="warning",
                    what=f"it offers something else than you approved: {pin.difference.in_words}",
                    where=where,
                    why="Changed tools cannot be used until you approve them.",
                    mend=f"homebody mcp show {name}, then: homebody mcp approve {name}",
                )
            )
    yield from found or [ok("no MCP server has rights of yours")]


def _examine_skills(installation: Installation) -> Iterator[Finding]:
    settings, trust = installation.settings, SkillTrust(installation.paths.state)
    found: dict[tuple[str, str], Finding] = {}
    for agent in settings.agent_ids:
        for skill in SkillCatalog(agent, SettingsStore(settings), installation.paths, trust, installation.env).scan():
            if skill.state in {"unapproved", "changed"}:
                changed = skill.state == "changed"
                what = f"the skill {skill.name} {'changed since you approved it' if changed else 'is not approved'}"
                why = (
                    "It is not used. Somebody changed it: you, the agent, or another program."
                    if changed
                    else "It is not used until you approve it."
                )
                finding = Finding(
                    level="warning" if changed else "note", what=what, where=str(skill.folder), why=why, mend=skill.hint
                )
                found[skill.name, str(skill.folder)] = finding
    yield from found.values() or [ok("all skills are of Homebody, or approved as they are")]


def _examine_packages(installation: Installation) -> Iterator[Finding]:
    settings = installation.settings
    names = [f"channels.plugins.{name}" for name, one in settings.channels.plugins.items() if one.enabled]
    names += (
        []
        if settings.plugins.slots.memory in {"memory-core", "none"}
        else [f"plugins.slots.memory ({settings.plugins.slots.memory})"]
    )
    why = "Their code runs inside the gateway, with all its keys."
    found = [
        Finding(
            level="note",
            what="is provided by a package of others",
            where=name,
            why=why,
            mend="Keep it if you trust its makers.",
        )
        for name in names
    ]
    yield from found or [ok("no package of others runs inside the gateway")]


CONFINEMENT = Check(name="sandbox", examine=SANDBOX.examine, seconds=SANDBOX.seconds)
COMMANDS = Check(name="commands", examine=_examine_exec)
RULES = Check(name="rules", examine=_examine_rules)
MCP = Check(name="mcp", examine=_examine_mcp)
SKILLS = Check(name="skills", examine=_examine_skills)
OTHER_PACKAGES = Check(name="plugins", examine=_examine_packages)
