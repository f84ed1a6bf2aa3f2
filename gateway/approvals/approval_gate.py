"""The gate of a turn: asks the rules about each act, and the owner where the rules say so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent.loop.gate import Verdict
from agent.messages import ToolCall
from agent.timing import Clock
from agent.tools.protocol import Act, Origin, ToolContext
from channels.messages import API, ChatAddress
from gateway.approvals.record import AskedAct, approval_id
from gateway.ledger.approval_rows import ApprovalLedger
from gateway.ledger.rows import UNSURE, Approval, NewApproval

LIFETIME: Final = timedelta(minutes=30)
"""How long a question stays open. Nobody's answer is a no."""
DENIED: Final = "the owner denied it."
EXPIRED: Final = f"nobody decided within {LIFETIME // timedelta(minutes=1)} minutes, which counts as a no."
_CHANGED: Final[Mapping[str, str]] = {
    "exec": "the program, its environment, or a file or folder that it names changed after you were asked",
    "write": "the file that it would change changed after you were asked",
}
_OTHERS_CHANGED: Final = "what it would do changed after you were asked"
_FOLDER_CHANGED: Final = "a file in its folder changed after you were asked"
_LEDGER_LOST: Final = "my database was damaged or restored since I asked you; it may have been done already"
_NOBODY_TO_ASK: Final = (
    "it needs the owner's approval, and I know no private chat with the owner to ask in. It becomes possible once the owner has written "
    "to me in one."
)
_NO_NOTES: Final = (
    "a sub-agent changes no notes, and no file that every conversation is given; say in your result what is to be kept. The owner can "
    "allow it with a rule in approvals.rules (tool: write, origin: agent)."
)
_BY_MAIL: Final = "nobody is asked about what a mail may have started, since anybody can send one"

_STRICTNESS: Final[Mapping[str, int]] = {"allow": 0, "ask": 1, "deny": 2}


class Judge(Protocol):
    """Decides by rules. Methods block."""

    def judge(self, agent: str, origin: Origin, taint: frozenset[str], act: Act, *, tool: str = "") -> Verdict:
        """Decide on an act of an agent."""
        ...


class TurnFacts(Struct, frozen=True, kw_only=True):
    """The turn that a gate judges for. ``name`` is its name in the transcript, ``transcript`` the id of the session.

    ``workspace`` is the agent's folder, ``conversation`` where the turn was asked for. ``asked_by`` is the origin of the turn from which
    this one comes, if of another one: what that may not do, this may not either.
    """

    name: str
    agent: str
    session: str
    transcript: str
    workspace: str
    conversation: ChatAddress
    asked_by: Origin | None = None


@dataclass(kw_only=True)
class ApprovalGate:
    """Judges the acts of one turn. ``asked`` are the questions that it asked before; ``questions`` are those to be asked now.

    ``owner`` returns the owner's private chat with an agent, or None. ``tried`` waits until it is known how an agent's commands are
    confined.
    """

    rules: Judge
    ledger: ApprovalLedger
    clock: Clock
    owner: Callable[[str], Awaitable[ChatAddress | None]]
    turn: TurnFacts
    asked: Sequence[Approval] = ()
    questions: list[NewApproval] = field(default_factory=list)
    tried: Callable[[str, Origin], Awaitable[object]] | None = None

    async def judge(self, key: str, call: ToolCall, act: Act, context: ToolContext) -> Verdict:
        """See ``agent.loop.gate.Gate``."""
        from gateway.approvals.named_paths import TooManyFiles
        from gateway.approvals.taint_rules import in_order, may_be_asked, needs_yes

        approval = approval_id(self.turn.name, key)
        former = next((one for one in self.asked if one.id == approval), None)
        if act.kind == "exec" and self.tried is not None:
            await self.tried(self.turn.agent, context.origin)
        verdict = await asyncio.to_thread(self._by_rules, act, context, call.name)
        if context.task and act.kind == "write" and verdict.decision == "allow" and not verdict.reason:
            verdict = Verdict(decision="deny", reason=_NO_NOTES)
        excused = act.kind == "exec" or verdict.untrusted
        why = needs_yes(act, context) if verdict.decision == "allow" and not excused else None
        if why is not None:
            verdict = Verdict(decision="ask" if may_be_asked(context) else "deny", reason=why)
        if verdict.decision == "ask" and self._by_mail(context):
            verdict = Verdict(decision="deny", reason=f"{verdict.reason}; {_BY_MAIL}.")
        asked = AskedAct(
            call=call, act=act, origin=context.origin, taint=in_order(context), reason=verdict.reason, at=context.now
        )
        try:
            if former is not None:
                return await self._judge_again(former, key, asked, verdict)
            if verdict.decision == "ask":
                return await self._ask(
                    key, asked, await self.ledger.get(approval)
                )  # known only to a ledger that was damaged since
        except TooManyFiles as error:
            return Verdict(decision="deny", reason=f"{error}.")
        return verdict

    def _by_rules(self, act: Act, context: ToolContext, tool: str) -> Verdict:
        """Return what the rules say for each of the origins that bound the turn; the strictest counts. Blocking."""
        origins = dict.fromkeys((context.origin, self.turn.asked_by or context.origin))
        said = [self.rules.judge(self.turn.agent, one, context.taint, act, tool=tool) for one in origins]
        return max(said, key=lambda one: (_STRICTNESS[one.decision], not one.untrusted))

    def _by_mail(self, context: ToolContext) -> bool:
        """Return whether no person started a turn, a webhook's or that of new mail, and it has mail in view."""
        return "webhook" in {context.origin, self.turn.asked_by} and any(one.startswith("mail:") for one in context.taint)

    async def _judge_again(self, former: Approval, key: str, asked: AskedAct, verdict: Verdict) -> Verdict:
        """Decide on a call that was asked about. The rules of now hold too, and a yes holds only for what was asked about."""
        from agent.loop.tool_runner import APPROVED

        if former.state in {"denied", "expired"} or verdict.decision == "deny":
            reason = {"denied": DENIED, "expired": EXPIRED}.get(former.state, verdict.reason)
            return Verdict(decision="deny", reason=reason)
        digest = await self._digest(asked.act)
        if former.state == "approved" and (digest == former.fingerprint or verdict.decision == "allow"):
            return Verdict(decision="allow", reason=APPROVED)
        return await self._ask(key, asked, former, digest)

    async def _ask(self, key: str, asked: AskedAct, former: Approval | None, digest: str | None = None) -> Verdict:
        """Put a question, or the open one again."""
        from gateway.approvals.fingerprint import only_files_around_differ

        approval = approval_id(self.turn.name, key)
        place = await self._place(asked.origin)
        if place is None:
            return Verdict(decision="deny", reason=_NOBODY_TO_ASK)
        number, digest = 1, digest or await self._digest(asked.act)
        if former is not None:
            number = former.round if former.state == "pending" else former.round + 1
            if number > former.round:
                around = only_files_around_differ(digest, former.fingerprint)
                changed = _FOLDER_CHANGED if around else _CHANGED.get(asked.act.kind, _OTHERS_CHANGED)
                why = _LEDGER_LOST if former.reason in UNSURE else changed
                asked = replace(asked, reason=why)
        question = NewApproval(
            id=approval,
            round=number,
            session=self.turn.session,
            transcript=self.turn.transcript,
            agent=self.turn.agent,
            place=place,
            call=key,
            payload=asked.encoded(),
            fingerprint=digest,
            expires=self.clock.now() + LIFETIME,
        )
        self.questions.append(question)
        return Verdict(decision="ask", reason=asked.reason, approval=approval, summary=asked.act.own_summary)

    async def _digest(self, act: Act) -> str:
        from gateway.approvals.fingerprint import fingerprint

        return await asyncio.to_thread(fingerprint, act, self.turn.workspace)

    async def _place(self, origin: Origin) -> ChatAddress | None:
        """Return where to ask: where the owner asked for it, or in the owner's private chat."""
        place = self.turn.conversation
        if origin == "owner" and place.channel == API:  # a program must not answer what is asked about it
            return await self.owner(self.turn.agent) or ChatAddress(channel="terminal", kind="direct", id="local")
        if origin == "owner" and place.kind == "direct":
            return place
        return await self.owner(self.turn.agent)
