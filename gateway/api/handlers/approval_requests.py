"""Questions to the owner and the rules behind them: what ``homebody approvals`` asks, in a running gateway or without one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from agent.tools.protocol import Act
from gateway.approvals.decisions import Choice, Decisions
from gateway.approvals.question import odd_letters, visible
from gateway.approvals.record import AskedAct, parse_name, public_name
from gateway.approvals.rule_list import rule_calls
from gateway.approvals.shell_parts import shell_parts
from gateway.approvals.stored_rules import StoredRules
from gateway.base.errors import UsageError
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Approval, ApprovalState
from gateway.settings.root import Settings

_SHOWN = 50
_Source: TypeAlias = Literal["command line", "browser page", "chat"]
_SOURCES: Final = get_args(_Source)


class ApprovalHandlers:
    """Lists, shows and decides questions, and lists and changes rules. All answers are JSON values."""

    def __init__(self, ledger: Ledger, decisions: Decisions, *, settings: Callable[[], Settings], stored: StoredRules) -> None:
        self._ledger = ledger
        self._decisions = decisions
        self._settings = settings
        self._stored = stored

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        rules = {name: _in_thread(call) for name, call in rule_calls(self._settings, self._stored).items()}
        return {"approvals.list": self.list, "approvals.show": self.show, "approvals.decide": self.decide, **rules}

    async def list(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the open questions; with ``everything`` also the latest that were decided."""
        states: tuple[ApprovalState, ...] = get_args(ApprovalState) if everything else ("pending",)
        return {"approvals": [_approval_json(one) for one in await self._ledger.approvals.latest(states, limit=_SHOWN)]}

    async def show(self, name: str) -> dict[str, Any]:
        """Return one question with all of its command or change. Raises UsageError when there is none."""
        found = await self._found(name)
        asked = AskedAct.decoded(found.payload)
        parts = (
            await asyncio.to_thread(shell_parts, asked.act.command) if asked.act.command and asked.act.argv is None else None
        )
        why_not = await asyncio.to_thread(self._decisions.why_not_always, found)
        return {
            **_approval_json(found),
            "shown": visible_act(asked.act, parts),
            "whyNotAlways": why_not,
            "confinement": asked.act.confinement,
            "into": asked.act.into,
            "pty": asked.act.pty,
            "argv": None if asked.act.argv is None else list(asked.act.argv),
            "parts": parts,
            "env": dict(asked.act.env),
            "network": asked.act.network,
            "path": asked.act.path,
            "url": asked.act.url,
            "recipients": list(asked.act.recipients),
            "details": asked.act.details,
            "taint": list(asked.taint),
            "fingerprint": found.fingerprint,
        }

    async def decide(self, name: str, choice: Choice, source: _Source = "command line") -> dict[str, Any]:
        """Decide a question: once, always or deny. ``source`` is where its owner decides; a repeat from there says the same.

        Raises:
            UsageError: there is no such question.
            StorageFailed: nothing was decided.
        """
        await self._found(name)
        if choice not in get_args(Choice):
            raise UsageError(f"{choice!r} is no decision", hint=f"Choose one of {', '.join(get_args(Choice))}.")
        if source not in _SOURCES:
            raise UsageError(f"{source!r} is no place where questions are decided", hint=f"There are: {', '.join(_SOURCES)}.")
        text = await self._decisions.decide(name, choice, f"{source}, {choice}")
        return {"told": text, "approval": _approval_json(await self._found(name))}

    async def _found(self, name: str) -> Approval:
        found = await self._ledger.approvals.get(parse_name(str(name))[0])
        if found is None:
            raise UsageError(f"there is no question {name!r}", hint="`homebody approvals list` lists the open ones.")
        return found


def visible_act(act: Act, parts: Sequence[str] | None) -> dict[str, Any]:
    """Return the texts of an act as a question shows them: what is not seen is named, and letters that look like others are, too."""
    return {
        "summary": visible(act.summary),
        "command": _visible_lines(act.command),
        "parts": [visible(part) for part in parts or ()],
        "argv": [visible(word) for word in act.argv or ()],
        "details": _visible_lines(act.details),
        "warnings": odd_letters(" ".join((act.command, *act.recipients))),
    }


def _visible_lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.split("\n"))


def _in_thread(call: Callable[..., dict[str, Any]]) -> Callable[..., Awaitable[dict[str, Any]]]:
    async def called(**given: Any) -> dict[str, Any]:
        return await asyncio.to_thread(call, **given)

    called.__signature__ = inspect.signature(call)  # type: ignore[attr-defined]  # the API checks arguments by it
    return called


def _approval_json(approval: Approval) -> dict[str, Any]:
    asked = AskedAct.decoded(approval.payload)
    return {
        "name": public_name(approval),
        "state": approval.state,
        "agent": approval.agent,
        "kind": asked.act.kind,
        "summary": asked.act.summary,
        "command": asked.act.command,
        "cwd": asked.act.cwd,
        "origin": asked.origin,
        "reason": asked.reason,
        "always": approval.always,
        "conversation": approval.place.address,
        "askedAt": approval.asked_at.isoformat(timespec="seconds"),
        "expiresAt": approval.expires.isoformat(timespec="seconds"),
        "decidedAt": approval.decided_at.isoformat(timespec="seconds") if approval.decided_at else None,
    }
