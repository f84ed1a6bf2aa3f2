"""Decides by rules what an agent may do: without a question, after one, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from agent.loop.gate import Verdict
from agent.tools.command_line import plain_words
from agent.tools.protocol import Act, Origin
from gateway.approvals.command_paths import Place, is_inside
from gateway.approvals.program import find_program, is_of_the_system, leading_first, sha256_of
from gateway.approvals.stored_rules import StoredRule, StoredRules
from gateway.base.errors import UsageError
from gateway.sandbox.command import PATH
from gateway.settings.approval_settings import ApprovalRule
from gateway.settings.root import AgentProfile, Settings

TOOLS: Final = {
    "exec": "exec",
    "write": "write",
    "url": "web_fetch",
    "send": "message",
    "schedule": "cron",
    "call": "mcp_call",
    "spawn": "spawn",
}
"""The tool that rules name for an act, where the caller does not say which one it is."""
_SPEAKERS: Final[dict[Origin, str]] = {
    "guest": "a guest",
    "group": "a group",
    "schedule": "a scheduled job",
    "webhook": "a webhook",
    "agent": "a sub-agent",
}
_NAMED_AFTER_THEIR_KIND: Final = frozenset({"exec", "write"})
"""Acts that rules for the tool of ``TOOLS`` are about, whichever tool does them: input to a command is judged like a command."""
_NAMED_VARIABLES: Final = 6
_LONGEST_NAME: Final = 40
_RUN_WHAT_LIES_AROUND: Final = frozenset({"git"})
"""Programs that run files of the folder where they start, besides what they are told to do."""


class Rules:
    """The rules in force: those of the settings, those that the owner made with "always", and the built-in ones.

    ``settings`` returns the settings in force. ``confined`` says whether an agent's commands are confined, in
    the owner's private turns or in others; where they are not, all are asked about. ``skills`` says why a command is asked about
    that names a skill which the owner did not approve, unless it only looks. Methods read files: call them in a thread.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        stored: StoredRules,
        confined: Callable[[str, Origin], bool] = lambda _agent, _origin: True,
        skills: Callable[[str, Act], str | None] = lambda _agent, _act: None,
    ) -> None:
        self._skills = skills
        self._settings = settings
        self.stored = stored
        self._confined = confined

    def judge(self, agent: str, origin: Origin, taint: frozenset[str], act: Act, *, tool: str = "") -> Verdict:
        """Decide on an act. A rule that denies beats one that asks, which beats one that allows."""
        try:
            profile = self._settings().agent(agent)
        except UsageError:
            return Verdict(decision="deny", reason=f"there is no agent {agent!r} any more")
        case = _Case(profile, origin, taint, act, act.tool or tool or TOOLS[act.kind])
        decided = self._refusal(case) or self._rule_verdict(case)
        if decided is not None:
            return decided
        return self._judge_command(case) if act.kind == "exec" else _judge_other(case)

    def workspace(self, agent: str) -> str:
        """Return the folder of an agent that exists, without links."""
        return os.path.realpath(self._settings().agent(agent).workspace)

    def why_not(self, agent: str, origin: Origin, taint: frozenset[str], act: Act) -> str | None:
        """Say why a question about an act cannot be answered with "always"; None when it can."""
        try:
            return self._why_not_always(_Case(self._settings().agent(agent), origin, taint, act, "exec"))
        except UsageError:
            return f"there is no agent {agent!r} any more"

    def allow(self, agent: str, origin: Origin, taint: frozenset[str], act: Act, *, now: datetime) -> str:
        """Allow exactly this act from now on, and return the id of the rule.

        Raises:
            ValueError: it cannot be allowed for good; the text says why.
            StorageFailed: the rule could not be written.
        """
        if (why := self.why_not(agent, origin, taint, act)) is not None:
            raise ValueError(why)
        case = _Case(self._settings().agent(agent), origin, taint, act, "exec")
        program, argv = case.program or "", case.argv or ()
        files = case.script() if case.runs_others else {}
        if not is_of_the_system(program) and (digest := sha256_of(program)):
            files = {**files, program: digest}
        rule = StoredRule(agent=agent, program=program, argv=argv, cwd=act.cwd, network=act.network, files=files, made=now)
        self.stored.add(rule)
        return rule.id

    def _why_not_always(self, case: _Case) -> str | None:
        if case.origin != "owner":
            return "only the owner's own commands can be allowed for good"
        if case.taint:
            return "the conversation holds untrusted text"
        if case.obstacle or self._before_rules(case) or self._rule_verdict(case):
            return case.obstacle or self._before_rules(case) or "a rule of yours has it asked about each time"
        if case.runs_others and not case.script():
            return f"{case.act.command.split()[0]} can run anything, and what it runs here is not one file that can be compared"
        return None

    def in_words(self, agent: str, tool: str, *, asks: bool = False) -> str:
        """Say what holds for the owner's use of a tool whose acts are judged. ``asks``: it is one that is asked about by itself."""
        settings = self._settings()
        run = settings.agent(agent).exec
        if tool != "exec":
            asked = (
                "typing into a command is judged like a command"
                if tool == "process"
                else "you are asked where untrusted text may be behind it"
            )
            base = "you are asked each time" if asks else f"allowed; {asked}"
        elif run.security == "deny":
            base = "refused (tools.exec.security is deny)"
        elif not self._confined(agent, "owner"):
            base = "you are asked each time, because commands are not confined on this machine"
        elif run.ask == "always":
            base = "you are asked each time (tools.exec.ask is always)"
        else:
            looking = sum(self.builtin(agent).values())
            counted = f"{looking} built-in and {len(self.stored.all())} stored rules (homebody approvals rules)"
            otherwise = {"off": "refused", "on-miss": "you are asked"}[run.ask]
            base = "allowed (tools.exec.security is full)" if run.security == "full" else f"{otherwise}, but for {counted}"
        own = [
            rule_in_words(rule)
            for rule in settings.approvals.rules
            if fnmatchcase(tool, rule.tool) and fnmatchcase(agent, rule.agent)
        ]
        return "; ".join([base, *own])

    def builtin(self, agent: str) -> dict[str, bool]:
        """Return the built-in rules by the program that they are about, and whether each is on for an agent."""
        from gateway.approvals.read_only import LOOKING

        chosen, off = self._settings().agent(agent).exec.safe_bins, self.stored.off()
        broken = self.stored.problem() is not None
        return {name: not broken and name not in off and (chosen is None or name in chosen) for name in sorted(LOOKING)}

    def _refusal(self, case: _Case) -> Verdict | None:
        """Refuse a command that no rule can have asked about or allowed; None for others."""
        from gateway.approvals.mentions import changes_own_rights

        if case.act.kind != "exec":
            return None
        if case.profile.exec.security == "deny":
            return _deny("commands are switched off by the setting tools.exec.security; the owner can set it to allowlist")
        if changes_own_rights(case.act.command):
            return _deny("an agent does not change its own rights; the owner can run this command in a terminal")
        return None

    def _judge_command(self, case: _Case) -> Verdict:
        before, allowed = self._before_rules(case), self._allowing(case)
        if before is None and allowed is not None:
            return Verdict(decision="allow", reason=allowed)
        if case.origin != "owner" and allowed is None:
            return _deny(
                f"commands run only for the owner in a private chat, and {_SPEAKERS[case.origin]} asked for this one; the owner can "
                f"allow single commands with a rule in approvals.rules (origin: {case.origin})"
            )
        if case.profile.exec.ask == "off":
            why = "no rule allows this command and the setting tools.exec.ask is off"
            return _deny(f"{why}; the owner can allow it in approvals.rules")
        return Verdict(decision="ask", reason=before or self._why_asked(case))

    def _before_rules(self, case: _Case) -> str | None:
        """Say why all commands are asked about, whatever rules allow; None if they are not."""
        if case.profile.exec.ask == "always":
            return "the setting tools.exec.ask is always"
        if not self._confined(case.profile.id, case.origin):
            return "commands are not confined on this machine (homebody sandbox explain)"
        return None if case.only_looks else self._skills(case.profile.id, case.act)

    def _rule_verdict(self, case: _Case) -> Verdict | None:
        """What the owner's own rules say that deny or ask, and for other tools than exec also those that allow."""
        matching = [rule for rule in self._settings().approvals.rules if case.is_meant_by(rule)]
        for decision in ("deny", "ask", "allow"):
            rule = next((one for one in matching if one.decision == decision), None)
            if rule is None or (decision == "allow" and case.act.kind == "exec"):
                continue
            return Verdict(
                decision=rule.decision,
                reason=f"a rule in approvals.rules says {rule_in_words(rule)}",
                untrusted=rule.decision == "allow" and any(one.untrusted for one in matching),
            )
        return None

    def _allowing(self, case: _Case) -> str | None:
        """Say what allows a command; None if nothing does."""
        if case.obstacle is None and not (case.taint and case.is_led_by_files):
            found = self._allowed_by_owner(case) or self._allowed_as_looking(case)
            if found is not None:
                return found
        full = case.profile.exec.security == "full" and case.origin == "owner" and not case.taint
        return "the setting tools.exec.security is full" if full else None

    def _allowed_by_owner(self, case: _Case) -> str | None:
        for rule in self._settings().approvals.rules:
            if rule.decision == "allow" and case.is_meant_by(rule) and (rule.network or not case.act.network):
                return f"a rule in approvals.rules says {rule_in_words(rule)}"
        stored = next((one for one in self.stored.all() if case.is_as_stored(one)), None) if case.origin == "owner" else None
        return f"the owner allowed it for good (rule {stored.id})" if stored is not None else None

    def _allowed_as_looking(self, case: _Case) -> str | None:
        from gateway.approvals.read_only import rule_of

        name = rule_of(case.argv or ("",))
        on = case.origin == "owner" and self.builtin(case.profile.id).get(name)
        return f"it only looks (built-in rule {name})" if on and case.only_looks else None

    def _why_asked(self, case: _Case) -> str:
        if case.taint and self._allowing(replace(case, taint=frozenset())) is not None:
            return "it is allowed, but not while the conversation holds untrusted text"
        if case.obstacle is not None:
            return case.obstacle
        if case.origin == "owner" and any(case.is_as_stored(one, unchanged=False) for one in self.stored.all()):
            return "a file that it runs has changed since you allowed it for good"
        return "it uses the network, and no rule allows that" if case.act.network else "no rule allows it without a question"


def rule_in_words(rule: ApprovalRule) -> str:
    """Return a rule of the settings in words, such as ``deny: rm`` or ``allow: web_fetch for group``."""
    what = rule.command if rule.command is not None else rule.tool
    what += f" to {', '.join(rule.to)}" if rule.to else ""
    what += ", also with untrusted text in view" if rule.untrusted else ""
    origins = rule.origins()
    whom = "" if origins in ({"owner"}, {"any"}) else f" for {', '.join(sorted(origins))}"
    return f"{rule.decision}: {what}{whom}"


@dataclass(frozen=True)
class _Case:
    """One act that is judged, for one agent."""

    profile: AgentProfile
    origin: Origin
    taint: frozenset[str]
    act: Act
    tool: str

    @property
    def argv(self) -> tuple[str, ...] | None:
        """The words of a command that runs without a shell."""
        words = plain_words(self.act.command)
        return words if words == self.act.argv else None

    @property
    def program(self) -> str | None:
        """The path of the program that the command runs, outside the workspace."""
        return find_program(self.argv[0], self.folders, self.profile.workspace) if self.argv else None

    @property
    def folders(self) -> Sequence[str]:
        """Where programs are searched."""
        return (*(os.path.expanduser(one) for one in self.profile.exec.path_prepend), *PATH.split(":"))  # noqa: PTH111 -- text for PATH

    @property
    def obstacle(self) -> str | None:
        """Why no rule can allow the command; None if one can."""
        if self.act.kind != "exec":
            is_call = self.act.kind == "call"
            return f"{'a rule in approvals.rules allows a tool' if is_call else 'only commands can be allowed'} for good"
        if self.act.into:
            return "it would be typed into a command that is running, which no rule can allow"
        if self.argv is None:
            return "it uses shell syntax, which no rule can allow"
        if self.act.env or self.act.pty:
            named = [name[:_LONGEST_NAME] for name, _ in leading_first(self.act.env)]
            names = ", ".join([*named[:_NAMED_VARIABLES], *(["…"] if len(named) > _NAMED_VARIABLES else [])])
            return f"it {f'sets variables ({names})' if names else 'runs in a terminal'}, and no rule can allow that"
        if self.program is None:
            inside = "/" in self.argv[0] and Path(self.act.cwd, self.argv[0]).exists()
            return (
                f"{self.argv[0]} lies in the workspace, where it can be changed, and rules hold for programs elsewhere"
                if inside
                else f"there is no program {self.argv[0]} outside the workspace"
            )
        return None if is_inside(self.act.cwd, self.profile.workspace) else "it starts outside the workspace"

    @property
    def runs_others(self) -> bool:
        """Whether the program runs what its arguments or files say."""
        from gateway.settings.command_pattern import runs_others

        return any(runs_others(one) for one in self._names())

    @property
    def is_led_by_files(self) -> bool:
        """Whether files in the workspace, which untrusted text may have changed, can lead the command; looking with git is safe."""
        return self.runs_others or (not _RUN_WHAT_LIES_AROUND.isdisjoint(self._names()) and not self.only_looks)

    @property
    def only_looks(self) -> bool:
        """Whether the command is one of those of the system that only look, and does not use the network."""
        from gateway.approvals.read_only import only_looks

        if self.argv is None or self.program is None or self.act.network or not is_of_the_system(self.program):
            return False
        return only_looks(self.argv, Place(self.act.cwd, str(self.profile.workspace)))

    def is_meant_by(self, rule: ApprovalRule) -> bool:
        """Whether a rule of the settings is about this act."""
        from gateway.approvals.mentions import mentions
        from gateway.settings.command_pattern import command_pattern

        tools = {self.tool, *((TOOLS[self.act.kind],) if self.act.kind in _NAMED_AFTER_THEIR_KIND else ())}
        if not (any(fnmatchcase(one, rule.tool) for one in tools) and fnmatchcase(self.profile.id, rule.agent)):
            return False
        if rule.origins().isdisjoint({self.origin, "any"}) or (rule.to and not rule.is_to(self.act.recipients)):
            return False
        if rule.command is None:
            return True
        if self.act.kind != "exec":
            return False
        if rule.decision == "allow":
            pattern, place = command_pattern(rule.command, strict=True), Place(self.act.cwd, str(self.profile.workspace))
            return self.argv is not None and pattern.matches(self.argv) and all(map(place.holds, pattern.chosen(self.argv)))
        return mentions(command_pattern(rule.command, strict=False), self.act.command)

    def is_as_stored(self, rule: StoredRule, *, unchanged: bool = True) -> bool:
        """Whether a stored rule allows exactly this; with ``unchanged``, the files that it names must be as they were."""
        same = (rule.agent, rule.argv, rule.cwd) == (self.profile.id, self.argv, self.act.cwd)
        if not same or rule.program != self.program or (self.act.network and not rule.network):
            return False
        wanted = self.script() if self.runs_others else {}
        return not unchanged or (
            all(sha256_of(path) == digest for path, digest in rule.files.items()) and wanted.keys() <= rule.files.keys()
        )

    def script(self) -> dict[str, str]:
        """The SHA-256 of the file that an interpreter is given first, by its path; empty if it is given none or options first."""
        from gateway.settings.command_pattern import takes_script

        first = next(iter((self.argv or ())[1:2]), "-")
        if first.startswith("-") or not self.argv or not takes_script(self.argv[0]):
            return {}
        path = os.path.join(self.act.cwd, first)  # noqa: PTH118 -- the word may be an absolute path
        digest = sha256_of(path)
        return {path: digest} if digest else {}

    def _names(self) -> Iterator[str]:
        if self.argv and self.program:
            yield from (Path(one).name for one in (self.argv[0], self.program, os.path.realpath(self.program)))


def _judge_other(case: _Case) -> Verdict:
    """Decide on what is no command and no rule of the owner's is about."""
    act, origin = case.act, case.origin
    if act.kind == "send":
        return _judge_message(case)
    if act.kind == "call":
        return _judge_call(case)
    if act.kind == "schedule" and origin != "owner":
        return Verdict(decision="ask", reason=f"{_SPEAKERS[origin]} asks for it, and it would happen later without you")
    return Verdict(decision="ask", reason=act.ask) if act.ask else Verdict(decision="allow")


def _judge_message(case: _Case) -> Verdict:
    """Decide on a message to another chat: it is allowed to the owner, and asked about where others would read it."""
    if case.origin in {"guest", "group"}:
        return _deny(f"{_SPEAKERS[case.origin]} cannot have messages sent to other chats; answer here")
    if case.act.others:
        return Verdict(decision="ask", reason="others than you would read it")
    return Verdict(decision="ask", reason=case.act.ask) if case.act.ask else Verdict(decision="allow")


def _judge_call(case: _Case) -> Verdict:
    """Decide on what is done in another program or service: the owner's own turns may, others ask, strangers may not."""
    if case.origin in {"guest", "group"}:
        return _deny(f"{_SPEAKERS[case.origin]} cannot have the owner's programs and services used")
    if case.origin != "owner":
        return Verdict(decision="ask", reason=case.act.ask or f"{_SPEAKERS[case.origin]} asks for it")
    return Verdict(decision="ask", reason=case.act.ask) if case.act.ask else Verdict(decision="allow")


def _deny(reason: str) -> Verdict:
    return Verdict(decision="deny", reason=reason)
