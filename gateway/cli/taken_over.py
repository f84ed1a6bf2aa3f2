"""Tells the running gateway to reload settings and keys that a command has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.base.errors import HomebodyError

if TYPE_CHECKING:
    from gateway.cli.invocation import Invocation


def taken_over(invocation: Invocation) -> dict[str, Any] | None:
    """Let the running gateway reload its settings, and return the result; None if no gateway is running."""
    import asyncio

    from gateway.base.state_lock import describe
    from gateway.cli import starting

    holder = describe(invocation.paths.state / "gateway.lock")
    if holder is None or not holder.socket:
        return None
    try:
        came: dict[str, Any] = asyncio.run(starting.ask(invocation.paths.state, "settings.reload"))
    except HomebodyError as error:
        return {"taken": [], "waiting": [], "complaint": error.as_text()}
    return came


def outcome(came: dict[str, Any] | None) -> str:
    """Return the result as a sentence."""
    if came is None:
        return "No gateway is running; the change applies when one starts."
    if came["complaint"]:
        return f"The running gateway keeps its previous settings: {came['complaint']}"
    taken = f"Applied in the running gateway: {', '.join(came['taken'])}." if came["taken"] else ""
    waiting = f"Takes effect when the gateway restarts: {', '.join(came['waiting'])}." if came["waiting"] else ""
    return f"{taken} {waiting}".strip() or "Nothing changes for the running gateway."
