"""Builds what asks owners about the acts of agents: gates, questions and decisions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path

from agent.timing import Clock
from agent.tools.protocol import Origin
from channels.messages import ChatAddress
from channels.protocol import Channel
from gateway.approvals.approval_gate import ApprovalGate
from gateway.approvals.asking import Asking
from gateway.approvals.decisions import Decisions
from gateway.approvals.record import AskedAct
from gateway.approvals.rules import Rules
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import NewApproval, Turn
from gateway.logs.secret_filter import SecretFilter


class ApprovalParts:
    """The parts that share the rules. ``owner`` returns the owner's private chat with an agent; ``wake`` gets turns that may go on.

    ``paused`` says whether none goes on now. ``tried`` waits until it is known how an agent's commands are confined in turns of an origin.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        rules: Rules,
        *,
        agents: Collection[str],
        channel: Callable[[ChatAddress], Channel],
        owner: Callable[[str], Awaitable[ChatAddress | None]],
        wake: Callable[[Turn], None],
        secret_filter: SecretFilter,
        paused: Callable[[], bool],
        tried: Callable[[str, Origin], Awaitable[object]] | None = None,
    ) -> None:
        self.rules = rules
        self.decisions = Decisions(ledger, clock, rules=self.rules, agents=agents, wake=wake, paused=paused)
        self.asking = Asking(channel, self._why_not_always, secret_filter, home=str(Path.home()))
        self.gate = partial(ApprovalGate, rules=self.rules, ledger=ledger.approvals, clock=clock, owner=owner, tried=tried)
        """Makes the gate of a turn."""

    def _why_not_always(self, question: NewApproval) -> str | None:
        asked = AskedAct.decoded(question.payload)
        return self.rules.why_not(question.agent, asked.origin, frozenset(asked.taint), asked.act)
