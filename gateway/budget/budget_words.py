"""Says in words how far a budget is used, why it allows no call, and what to do about it."""

from __future__ import annotations

from typing import Final

from gateway.budget.raised_limits import BudgetKeys, command_to_raise, raised, written
from gateway.ledger.spending_rows import Limit, NewCall, Reserved

USED_UP: Final = "Today's budget is used up"
"""How the failure of a call begins that a budget does not allow."""
REFUSED: Final = "Today's budget allows no such call"
"""The same for the budget of a job, webhook or sub-agent, and for one of which nothing is used."""
TAKEN: Final = "Today's budget has no room at this moment"
"""How it is said that calls under way have reserved what is left of a budget, and may leave a part of it."""
_NOTHING: Final = 0.005
"""A used share that rounds to nothing."""
_CENT: Final = 0.01
_NEXT: Final = {
    "heartbeat": "The next heartbeat is made by itself.",
    "mail": "The next new mail is looked at by itself.",
    "hook": "What called the webhook has to call again.",
    "subagent": "The sub-agent has to be started again.",
}
"""What makes up for the work of a source that a budget stopped."""


def no_room(reserved: Reserved) -> str:
    """Return why a call was refused for which only calls under way leave no room; "" for any other."""
    limit = reserved.broken
    if limit is None or not reserved.only_held:
        return ""
    return f"{TAKEN}: answers under way have reserved {reserved.held:.0%} of {limit.of or limit.name} until they end"


def refusal(reserved: Reserved, source: str, keys: BudgetKeys) -> tuple[str, str]:
    """Return why a call was refused, and what helps: those who wrote a message, and those whose work has the ``source``."""
    limit = reserved.broken
    if why := no_room(reserved):
        return f"{why}.", made_up_for(source) if source else "Send your message again in a minute."
    if limit is None:
        return f"{USED_UP}.", "`/usage` shows details."
    size = f"({amount(limit, limit.tokens, limit.usd)})"
    if limit.of:
        why = f"{REFUSED}: the next answer could exceed the daily budget of {limit.of} {size}."
    else:
        begins = REFUSED if reserved.shares[limit.name] - reserved.own_of(limit) < _NOTHING else USED_UP
        why = f"{begins}: the next answer could exceed {limit.name} {size}."
    if source or limit.same == "background":
        return why, f"{goes_on(limit, reserved, source)}{how_to_raise(limit, reserved, source, keys)}"
    commands = " && ".join(_command(one, reserved, keys) for one in (limit, *reserved.further))
    return why, f"Send /budget once, then your message again; or raise the budget: {commands}"


def budget_line(limit: Limit, call: NewCall, reserved: Reserved, keys: BudgetKeys, *, refused: bool, held: float = 0.0) -> str:
    """Return the line that tells the owner of a budget: how much of it is used without the ``call``, or that it ``refused`` it.

    ``held``: the share that calls under way have reserved, where the call was refused because of them.
    """
    used = reserved.shares[limit.name] - limit.share(call.tokens, call.usd)
    budget = f"the daily budget of {limit.of}" if limit.of else f"today's budget {limit.name}"
    budget = f"{budget} ({amount(limit, limit.tokens, limit.usd)})"
    most = amount(limit, call.tokens, call.usd)
    if not refused:
        now = f", and the call that is made now may take up to {most}" if reserved.row is not None else ""
        return f"💸 {used:.0%} of {budget} is used{now}. `/usage` shows details."
    if held:
        return (
            f"💸 Calls under way had reserved {held:.0%} of {budget}, and left no room within a minute for one that may take up to {most}. "
            "What was due is done when it is next due. `/usage` shows details."
        )
    again, mend = goes_on(limit, reserved, call.source), how_to_raise(limit, reserved, call.source, keys, further=False)
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


def goes_on(limit: Limit, reserved: Reserved, source: str) -> str:
    """Return when there is room again; "" for a sub-agent, whose work is over by then, and where no day has room for the call."""
    too_small = any(not one.by_use and reserved.own_of(one) > 1 for one in (limit, *reserved.further))
    return "" if source.startswith("subagent:") or limit.within or too_small else "It goes on tomorrow. "


def how_to_raise(limit: Limit, reserved: Reserved, source: str, keys: BudgetKeys, *, further: bool = True) -> str:
    """Return how a limit that refuses a call is raised so that the turn can be made, and what makes up for it then.

    ``further``: also those that refuse it, too.
    """
    if limit.same == "background":
        return (
            "Until then memory flushes and summaries are written by rule, and what is searched by meaning is searched by word. "
            f"To raise it: `{_command(limit, reserved, keys)}`"
        )
    told = [_how(one, reserved, keys, first=one is limit) for one in (limit, *(reserved.further if further else ()))]
    return " ".join((*(f"{one}." if one[-1] == "`" else one for one in told), made_up_for(source))).strip()


def made_up_for(source: str) -> str:
    """Return what makes up for work that was stopped; "" for what people wrote, and for work that nothing is known of."""
    kind, _, name = source.partition(":")
    return f"Then run it again: `homebody cron run {name}`." if kind == "job" else _NEXT.get(kind, "")


def _how(limit: Limit, reserved: Reserved, keys: BudgetKeys, *, first: bool) -> str:
    """Return a sentence with the command that raises a limit."""
    if limit.within:
        return _how_of_subagents(limit, reserved, keys)
    command = _command(limit, reserved, keys)
    if not command:
        return "`/usage` shows details."
    if limit.of and limit.name == "tidy.usd":
        figure = written(limit, _figure(limit, reserved))
        return f"To give it more this once: `homebody memory tidy --limit-usd {figure}`; each day: `{command}`"
    if first:
        return f"To give it more: `{command}`" if limit.of else f"To raise it: `{command}`"
    name = f"the daily budget of {limit.of}" if limit.of else limit.name
    return f"The call could exceed {name} ({amount(limit, limit.tokens, limit.usd)}), too: `{command}`"


def _how_of_subagents(limit: Limit, reserved: Reserved, keys: BudgetKeys) -> str:
    """Return what gives more to sub-agents that are started from now on. What starts one may ask for less than the setting gives."""
    figure, most = _figure(limit, reserved), keys.subagent_usd
    command = f"homebody config set {keys.subagent} {written(limit, figure)}"
    if most is not None and most <= (limit.usd or 0.0):
        return f"To give more to those that are started from now on: `{command}`"
    asked = f"It was started with less than {keys.subagent} gives: start it with `usd: {written(limit, figure)}`"
    return asked if most is None or figure <= most else f"{asked}, after `{command}`"


def _command(limit: Limit, reserved: Reserved, keys: BudgetKeys) -> str:
    return command_to_raise(limit, written(limit, _figure(limit, reserved)), keys)


def _figure(limit: Limit, reserved: Reserved) -> float:
    own = reserved.own_of(limit)
    call = limit.amount(own)
    return raised(limit, used=limit.amount(reserved.shares[limit.name] - own), call=call, turns=reserved.turns)
