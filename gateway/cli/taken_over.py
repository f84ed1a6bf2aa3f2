"""What the gateway that runs makes of settings or keys that a command has just changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.base.errors import HomebodyError

if TYPE_CHECKING:
    from gateway.cli.invocation import Invocation


def taken_over(invocation: Invocation) -> dict[str, Any] | None:
    """Let the running gateway read its settings now, and return what came of it; None when none runs."""
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
    """Tell people what came of it."""
    if came is None:
        return "No gateway runs; the next one takes it up."
    if came["complaint"]:
        return f"The running gateway keeps its former settings: {came['complaint']}"
    taken = f"In force in the running gateway: {', '.join(came['taken'])}." if came["taken"] else ""
    waiting = f"Waiting for a restart of the gateway: {', '.join(came['waiting'])}." if came["waiting"] else ""
    return f"{taken} {waiting}".strip() or "For the running gateway that changes nothing."
