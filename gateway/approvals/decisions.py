"""Decisions on questions: by an owner's command or button, by time, and by what makes a question pointless."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Final, Literal, Protocol

from agent.timing import Clock
from agent.tools.protocol import Act, Origin
from gateway.approvals.record import AskedAct, parse_name, public_name
from gateway.base.errors import StorageFailed
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Approval, NewApproval, NewOutbound, Turn

log = logging.getLogger(__name__)

Choice = Literal["once", "always", "deny"]
CHOICES: Final[tuple[Choice, ...]] = ("once", "always", "deny")
USAGE: Final = "Say `/approve ID once`, `/approve ID always` or `/approve ID deny`."
_PAUSED: Final = "⏸ I am paused (/status says why), so it is done only when that is over: /resume"
_ENDED: Final = {
    "approved": "was approved already",
    "denied": "was denied already",
    "expired": "has expired, and counts as denied; ask me again if it still matters",
    "withdrawn": "is no longer open",
}


class LastingRules(Protocol):
    """Makes rules that let calls run without a question. Methods block."""

    def why_not(self, agent: str, origin: Origin, taint: frozenset[str], act: Act) -> str | None:
        """Say why an act cannot be allowed for good; None when it can."""
        ...

    def allow(self, agent: str, origin: Origin, taint: frozenset[str], act: Act, *, now: datetime) -> str:
        """Allow it for good, and return the id of the rule. Raises StorageFailed, and ValueError with the reason why it cannot be."""
        ...

    def workspace(self, agent: str) -> str:
        """Return the folder of an agent that exists, without links."""
        ...


class OtherGateways(Protocol):
    """The questions of agents that other gateways of a cluster hold."""

    async def decide(self, name: str, choice: Choice) -> str | None:
        """Decide one, and say what came of it; None: there is none of this name."""
        ...

    async def open_questions(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Return name and summary of the open ones, and which gateways did not say theirs."""
        ...


class Decisions:
    """Decides open questions. ``agents`` are the ids of the agents that exist; ``wake`` gets each turn that runs again.

    ``paused`` says whether nothing runs until the owner resumes it.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        rules: LastingRules,
        agents: Collection[str],
        wake: Callable[[Turn], None],
        paused: Callable[[], bool] = lambda: False,
    ) -> None:
        self._paused = paused
        self._ledger = ledger
        self._clock = clock
        self._rules = rules
        self._agents = agents
        self._wake = wake
        self.others: OtherGateways | None = None

    async def decide(self, name: str, choice: Choice, by: str) -> str:
        """Decide the question with this name, and say what came of it. ``by`` names the message that decides: a repeat says the same.

        Raises:
            StorageFailed: nothing was decided.
        """
        wanted, number = parse_name(name)
        found = await self._ledger.approvals.get(wanted)
        if found is None and self.others is not None and (told := await self.others.decide(name, choice)) is not None:
            return told
        if found is None:
            return f"There is no question #{wanted[:40]}. {await self.open_questions()}"
        if found.state == "pending" and number != found.round:
            return f"#{name.strip().lstrip('#')} was asked again, because something changed. The question is #{public_name(found)} now."
        if found.state != "pending":
            return self._decision_text(found, by)
        if found.agent not in self._agents:
            await self._settle(found, "denied", by=by)
            return f"The agent {found.agent} was removed. #{public_name(found)} is closed, and nothing was run."
        return await self._decide_open(found, choice, by)

    async def _decide_open(self, found: Approval, choice: Choice, by: str) -> str:
        """Decide an open question. One about a command that is not as it was makes no lasting rule; its turn finds out and asks anew."""
        changed = choice != "deny" and await asyncio.to_thread(self._changed, found)
        rule = ""
        if choice == "always" and found.expires > self._clock.now() and not changed:
            try:
                rule = await self._lasting(found)
            except ValueError as why:
                return f"#{public_name(found)} cannot be allowed for good: {why}. Choose once or deny."
        settled = await self._settle(found, "denied" if choice == "deny" else "approved", always=bool(rule), by=by)
        if changed and settled.state == "approved" and settled.decided_by == by:
            what = f"🔁 Something changed since I asked #{public_name(settled)}: {_summary(settled)}."
            return f"{what} I look at it again first, and ask anew unless it is as it was."
        return self._decision_text(settled, by)

    async def open_questions(self) -> str:
        """List the open questions, in words."""
        found = [(public_name(one), _summary(one)) for one in await self._ledger.approvals.latest(["pending"], limit=10)]
        unknown: list[str] = []
        if self.others is not None:
            more, unknown = await self.others.open_questions()
            found += more
        lines = ["Open questions:", *(f"- #{name}: {summary}" for name, summary in found), USAGE] if found else []
        if unknown:
            lines.append(f"⚠️ Others may be open: {'; '.join(unknown)}")
        return "\n".join(lines) or "No question is open."

    def why_not_always(self, approval: Approval) -> str | None:
        """Say why a question cannot be answered with "always"; None when it can. Blocking."""
        asked = AskedAct.decoded(approval.payload)
        return self._rules.why_not(approval.agent, asked.origin, frozenset(asked.taint), asked.act)

    async def expire(self) -> None:
        """Close the questions whose time is over; their turns go on and say so. What cannot be stored is tried again with the next call."""
        try:
            for one in await self._ledger.approvals.overdue():
                told = f"⌛ #{public_name(one)} expired, and counts as denied: {_summary(one)}"
                await self._settle(one, "expired", reply=[NewOutbound(conversation=one.place, text=told)])
        except StorageFailed as error:
            log.warning("questions could not be closed: %s", error)

    async def withdraw(self, session: str, reason: str) -> int:
        """Withdraw the open questions of a session, and return the number of turns that end. Raises StorageFailed."""
        turns = await self._ledger.approvals.withdraw(session, reason)
        for turn in turns:
            await self._woken(turn)
        return len(turns)

    async def _settle(
        self,
        approval: Approval,
        decision: Literal["approved", "denied", "expired"],
        *,
        always: bool = False,
        by: str = "",
        reply: Collection[NewOutbound] = (),
    ) -> Approval:
        decided = await self._ledger.approvals.decide(
            approval.id, approval.round, decision, always=always, by=by, reply=list(reply)
        )
        if decided is None:
            return approval
        if decided.resumed and decided.approval.turn is not None:
            await self._woken(decided.approval.turn)
        return decided.approval

    async def _woken(self, turn: str) -> None:
        found = await self._ledger.turns.get(turn)
        if found is not None:
            self._wake(found)

    def _changed(self, approval: Approval) -> bool:
        """Whether a command is not what it was when it was asked about."""
        from gateway.approvals.fingerprint import fingerprint
        from gateway.approvals.named_paths import TooManyFiles

        act = AskedAct.decoded(approval.payload).act
        try:
            return act.kind == "exec" and fingerprint(act, self._rules.workspace(approval.agent)) != approval.fingerprint
        except TooManyFiles:
            return True

    async def _lasting(self, approval: Approval) -> str:
        asked = AskedAct.decoded(approval.payload)
        return await asyncio.to_thread(
            self._rules.allow, approval.agent, asked.origin, frozenset(asked.taint), asked.act, now=self._clock.now()
        )

    def _decision_text(self, approval: Approval, by: str) -> str:
        name, summary = public_name(approval), _summary(approval)
        if approval.decided_by != by or not by or approval.state not in {"approved", "denied"}:
            reason = f" ({approval.reason})" if approval.reason else ""
            return f"#{name} {_ENDED[approval.state]}{reason}: {summary}"
        if approval.state == "denied":
            return f"⛔ Denied #{name}: {summary}"
        lasting = ", and from now on without a question (`homebody approvals rules`)" if approval.always else ""
        waits = f"\n{_PAUSED}" if self._paused() else ""
        return f"✅ Approved #{name}{lasting}: {summary}{waits}"


def _summary(approval: NewApproval) -> str:
    return AskedAct.decoded(approval.payload).act.summary
