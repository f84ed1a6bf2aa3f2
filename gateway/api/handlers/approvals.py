"""Questions to the owner and the rules behind them: what ``homebody approvals`` asks, in a running gateway or without one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_args

from gateway.approvals.decisions import Choice, Decisions
from gateway.approvals.record import AskedAct, parse_name, public_name
from gateway.approvals.rule_list import rule_calls
from gateway.approvals.shell_parts import shell_parts
from gateway.approvals.stored_rules import StoredRules
from gateway.base.errors import UsageError
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Approval, ApprovalState
from gateway.settings.root import Settings

_SHOWN = 50


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
        return {"approvals": [_told(one) for one in await self._ledger.approvals.latest(states, limit=_SHOWN)]}

    async def show(self, name: str) -> dict[str, Any]:
        """Return one question with all of its command or change. Raises UsageError when there is none."""
        found = await self._found(name)
        asked = AskedAct.decoded(found.payload)
        parts = (
            await asyncio.to_thread(shell_parts, asked.act.command) if asked.act.command and asked.act.argv is None else None
        )
        return {
            **_told(found),
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

    async def decide(self, name: str, choice: Choice) -> dict[str, Any]:
        """Decide a question: once, always or deny.

        Raises:
            UsageError: there is no such question.
            StorageFailed: nothing was decided.
        """
        await self._found(name)
        if choice not in get_args(Choice):
            raise UsageError(f"{choice!r} is no decision", hint=f"Choose one of {', '.join(get_args(Choice))}.")
        told = await self._decisions.decide(name, choice, f"command line, {choice}")
        return {"told": told, "approval": _told(await self._found(name))}

    async def _found(self, name: str) -> Approval:
        found = await self._ledger.approvals.get(parse_name(name)[0])
        if found is None:
            raise UsageError(f"there is no question {name!r}", hint="`homebody approvals list` lists the open ones.")
        return found


def _in_thread(call: Callable[..., dict[str, Any]]) -> Callable[..., Awaitable[dict[str, Any]]]:
    async def called(**given: Any) -> dict[str, Any]:
        return await asyncio.to_thread(call, **given)

    called.__signature__ = inspect.signature(call)  # type: ignore[attr-defined]  # the API checks arguments by it
    return called


def _told(approval: Approval) -> dict[str, Any]:
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
