"""The section ``approvals``: the owner's own rules on what an agent may do without being asked."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, model_validator

from agent.section import Section
from agent.tools.protocol import Origin
from gateway.settings.command_pattern import command_pattern, too_broad


def _listed(given: object) -> object:
    return (given,) if isinstance(given, str) else given


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

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.command is not None and self.tool != "exec":
            raise ValueError(f"command is for the tool exec, not for {self.tool}")
        if self.decision != "allow":
            if self.command is not None:
                command_pattern(self.command, strict=False)
            return self
        if self.tool in {"exec", "*"} and self.command is None:
            hint = "to allow all commands of the owner, set tools.exec.security to full"
            raise ValueError(f"a rule that allows exec needs a command; {hint}")
        if self.command is not None and (why := too_broad(self.command)):
            raise ValueError(f"the command {self.command!r} allows too much: {why}")
        return self

    def origins(self) -> frozenset[str]:
        """The origins that the rule holds for; holds ``any`` for all."""
        return frozenset(self.origin or (("any",) if self.decision == "deny" else ("owner",)))


class ApprovalsSettings(Section):
    """What an agent may do without being asked."""

    rules: tuple[ApprovalRule, ...] = ()
    """The owner's rules, besides the built-in ones and those made with the answer "always" (docs/approvals.md)."""
