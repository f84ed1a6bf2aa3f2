"""The section ``approvals``: the owner's own rules on what an agent may do without being asked."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from agent.section import Section
from agent.tools.protocol import Origin


def _listed(given: object) -> object:
    return (given,) if isinstance(given, str) else given


def _checked_address(given: tuple[str, ...]) -> tuple[str, ...]:
    for one in given:
        if not one.strip("* \t"):
            raise ValueError("an address that is only * names everybody; leave `to` out for that")
    return given


Addresses = Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_checked_address)]
"""Addresses that something is sent to, with ``*``."""
Origins = Annotated[tuple[Origin | Literal["any"], ...], BeforeValidator(_listed)]
"""Who starts a turn, one or several; ``any`` stands for all."""


class ApprovalRule(Section):
    """One rule. All conditions that are given must hold. A rule that denies beats one that asks, which beats one that allows."""

    decision: Literal["allow", "ask", "deny"]
    """``allow``: it runs without a question. ``ask``: the owner is asked. ``deny``: it does not run."""
    tool: str = "exec"
    """The tool; ``*`` stands for any characters."""
    agent: str = "*"
    """The agent's id; ``*`` stands for any characters."""
    origin: Origins = ()
    """Who started the turn: owner (in private), guest, group, schedule, webhook, agent or any. Unset: the owner for allow and ask, any for deny."""  # noqa: E501
    command: str | None = None
    """For exec: the program and its arguments, with ``*`` for characters in a word. Allow: exactly these words; ask and deny: commands that begin so, also within longer ones."""  # noqa: E501
    network: bool = False
    """For exec: whether the rule also allows the command to use the network."""
    to: Addresses = ()
    """For tools that send to addresses, such as mail: the recipients, with ``*`` for characters other than ``@``. Allow: all recipients must be named; ask and deny: one is enough."""  # noqa: E501
    untrusted: bool = False
    """For allow: whether it holds also while untrusted text is in the conversation. Not for exec."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        from gateway.settings.command_pattern import command_pattern, too_broad

        if self.command is not None and self.tool != "exec":
            raise ValueError(f"command is for the tool exec, not for {self.tool}")
        if self.to and fnmatchcase("exec", self.tool):
            raise ValueError("`to` is for tools that send, such as mail: name one as `tool`")
        if self.untrusted and (self.decision != "allow" or fnmatchcase("exec", self.tool)):
            raise ValueError("`untrusted` is for rules that allow another tool than exec: name one as `tool`")
        if self.decision != "allow":
            if self.command is not None:
                command_pattern(self.command, strict=False)
            return self
        if fnmatchcase("exec", self.tool) and self.command is None:
            hint = "to allow all commands of the owner, set tools.exec.security to full"
            raise ValueError(f"a rule that allows exec needs a command; {hint}")
        if self.command is not None and (why := too_broad(self.command)):
            raise ValueError(f"the command {self.command!r} allows too much: {why}")
        return self

    def origins(self) -> frozenset[str]:
        """The origins that the rule holds for; holds ``any`` for all."""
        return frozenset(self.origin or (("any",) if self.decision == "deny" else ("owner",)))

    def is_to(self, recipients: Sequence[str]) -> bool:
        """Whether ``to`` is about these recipients: all of them for a rule that allows, one of them for others; never without any."""
        named = [any(is_address(pattern, one) for pattern in self.to) for one in recipients]
        return bool(named) and (all(named) if self.decision == "allow" else any(named))


def is_address(pattern: str, address: str) -> bool:
    """Whether a pattern names an address. Capitals do not matter; ``*`` stands for characters within one side of the ``@``."""
    parts = (re.escape(part) for part in pattern.strip().casefold().split("*"))
    return re.fullmatch(r"[^@\s,;:<>\"()]*".join(parts), address.casefold()) is not None


class ApprovalsSettings(Section):
    """What an agent may do without being asked."""

    rules: tuple[ApprovalRule, ...] = ()
    """The owner's rules, besides the built-in ones and those made with the answer "always" (docs/approvals.md)."""
