"""Says in words how far a budget is used, and why it allows no call."""

from __future__ import annotations

from typing import Final

from gateway.ledger.spending_rows import Limit, NewCall, Reserved

TAKEN: Final = "Today's budget has no room at this moment"
"""How it is said that calls under way have reserved what is left of a budget, and may leave a part of it."""
_NOTHING: Final = 0.005
"""A used share that rounds to nothing."""
_CENT: Final = 0.01


def no_room(reserved: Reserved) -> str:
    """Return why a call was refused for which only calls under way leave no room; "" for any other."""
    limit = reserved.broken
    if limit is None or not reserved.only_held:
        return ""
    return f"{TAKEN}: answers under way have reserved {reserved.held:.0%} of {limit.of or limit.name} until they end"


def budget_line(limit: Limit, call: NewCall, used: float, *, refused: bool, held: float = 0.0) -> str:
    """Return the line that tells the owner of a budget: how much of it is ``used`` without the ``call``, or that it refused it.

    ``held``: the share that calls under way have reserved, where the call was refused because of them.
    """
    budget = f"the daily budget of {limit.of}" if limit.of else f"today's budget {limit.name}"
    budget = f"{budget} ({amount(limit, limit.tokens, limit.usd)})"
    most, mend = amount(limit, call.tokens, call.usd), how_to_raise(limit, call.tokens, call.usd)
    again = goes_on(limit, 0.0 if limit.by_use else limit.share(call.tokens, call.usd))
    if not refused:
        return (
            f"💸 {used:.0%} of {budget} is used, and the call that is made now may take up to {most}. `/usage` shows details."
        )
    if held:
        return (
            f"💸 Calls under way had reserved {held:.0%} of {budget}, and left no room within a minute for one that may take up to {most}. "
            "What was due is done when it is next due. `/usage` shows details."
        )
    if limit.by_use and used > _NOTHING:
        return f"💸 {budget[:1].upper()}{budget[1:]} is used up. {again}{mend}"
    if used < _NOTHING:
        return f"💸 {budget[:1].upper()}{budget[1:]} allows no call: one may take up to {most}. {mend}"
    return (
        f"💸 {min(used, 1):.0%} of {budget} is used, and the next call may take up to {most}, which is more than what is left. "
        f"{again}{mend}"
    )


def amount(limit: Limit, tokens: int | None, usd: float | None) -> str:
    """Return an amount in what the limit counts, such as "$0.25" or "12,000 tokens"."""
    if limit.usd is None:
        return f"{tokens or 0:,} tokens"
    usd = usd or 0.0
    return f"${usd:.2f}" if usd >= _CENT or not usd else f"${usd:.4f}"


def goes_on(limit: Limit, own: float = 0.0) -> str:
    """Return when there is room again; "" for a sub-agent's limit, as its work is over by then, and where no day has room for the call.

    ``own`` is the share of the limit that the call itself may use.
    """
    return "" if limit.name.startswith("subagent:") or own > 1 else "It goes on tomorrow. "


def how_to_raise(limit: Limit, tokens: int, usd: float | None) -> str:
    """Return how the budget is raised to four times such a call, which leaves room for a turn that uses a tool."""
    kind, _, name = limit.name.removesuffix(".usd").removesuffix(".tokens").partition(":")
    in_usd = limit.usd is not None
    more = (
        f"{max(4 * (usd or 0.0), 2 * (limit.usd or 0.0), _CENT):.2f}"
        if in_usd
        else str(max(4 * tokens, 2 * (limit.tokens or 0)))
    )
    if limit.same == "background":
        return (
            "Until then memory flushes and summaries are written by rule, and what is searched by meaning is searched by word. "
            f"To raise it: `homebody config set {limit.name} {more}`"
        )
    commands = {
        "job": f"homebody cron change {name} {'--usd' if in_usd else '--tokens'} {more}",
        "hook": f"homebody hooks change {name} {'--daily-usd' if in_usd else '--daily-tokens'} {more}",
        "heartbeat": f"homebody config set agents.defaults.heartbeat.dailyUsd {more}",
        "mail": f"homebody config set mail.accounts.{name}.watchDailyUsd {more}",
    }
    if kind == "subagent":
        return f"To give more to those that are started from now on: `homebody config set agents.defaults.subagents.usd {more}`"
    return f"To give it more: `{commands[kind]}`" if limit.of and kind in commands else "`/usage` shows details."
