"""To what a limit is raised so that the work that it stopped can be done, and the command that raises it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from gateway.ledger.spending_rows import Limit, TurnCosts

if TYPE_CHECKING:
    from gateway.settings.root import Settings

CALLS: Final = 8
"""How many calls of the largest size a turn is given room for where no turn before it tells what one costs."""
FEW_CALLS: Final = 4
"""The same where one does."""
AGAIN: Final = 2
"""How many times what a turn has cost before is given room for: the next one may be longer."""
_STEPS: Final = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
_ALMOST: Final = 1 - 1e-9
"""So that no figure is rounded up because of the last digit of a float."""
_CENT: Final = 0.01
_WHOLE: Final = 10
"""USD from which on cents are not told."""
_NO_TURNS: Final = TurnCosts()


class BudgetKeys(Struct, frozen=True, kw_only=True):
    """The settings that hold the budgets of an agent's heartbeats, tidying and sub-agents. ``subagent_usd`` is the last one's value."""

    heartbeat: str = "agents.defaults.heartbeat.dailyUsd"
    subagent: str = "agents.defaults.subagents.usd"
    tidy: str = "agents.defaults.memorySearch.tidy.limitUsd"
    subagent_usd: float | None = None


COMMON_KEYS: Final = BudgetKeys()
"""Those of all agents that have no entry of their own."""


def keys_of(settings: Settings, agent: str) -> BudgetKeys:
    """Return the settings that hold the budgets of an agent: its own entry where that says them, else those of all agents."""
    place, entry = next(((n, one) for n, one in enumerate(settings.agents.list) if one.id == agent), (0, None))
    heartbeat = entry is not None and "daily_usd" in entry.heartbeat.model_fields_set
    subagent = entry is not None and "usd" in entry.subagents.model_fields_set
    search = entry.memory_search if entry is not None else None
    tidy = search is not None and "tidy" in search.model_fields_set and "limit_usd" in search.tidy.model_fields_set
    return BudgetKeys(
        heartbeat=f"agents.list.{place}.heartbeat.dailyUsd" if heartbeat else COMMON_KEYS.heartbeat,
        subagent=f"agents.list.{place}.subagents.usd" if subagent else COMMON_KEYS.subagent,
        tidy=f"agents.list.{place}.memorySearch.tidy.limitUsd" if tidy else COMMON_KEYS.tidy,
        subagent_usd=settings.agent(agent).subagents.usd,
    )


def raised(limit: Limit, *, used: float, call: float = 0.0, turns: TurnCosts = _NO_TURNS) -> float:
    """Return a figure above a limit with which a turn can be made from its beginning, in the limit's unit.

    ``used`` is what counts for the limit already, ``call`` the most that the next call can use, ``turns`` what this turn and those
    before it cost. It is twice the limit at least, so that a day with many turns is not stopped by the next one.
    """
    present = (limit.tokens if limit.usd is None else limit.usd) or 0.0
    turn, dearest = (turns.tokens, turns.dearest_tokens) if limit.usd is None else (turns.usd, turns.dearest_usd)
    if limit.within:  # one that is started anew begins with all of it
        turn, used = max(turn, used), 0.0
    if limit.by_use:  # the last call may go beyond it
        needed = max(FEW_CALLS * call, used + call)
    else:
        needed = used + max((FEW_CALLS if dearest else CALLS) * call, AGAIN * dearest + call, AGAIN * turn + call)
    return readable(max(AGAIN * present, needed), least=1 if limit.usd is None else _CENT)


def readable(amount: float, *, least: float) -> float:
    """Round an amount up to a figure of one or two digits, ``least`` at least."""
    if amount <= least:
        return least
    unit = 10.0 ** math.floor(math.log10(amount))
    return next(step * unit for step in _STEPS if step * unit >= amount * _ALMOST)


def written(limit: Limit, amount: float) -> str:
    """Return an amount as a command takes it, such as "0.80", "3" or "25000", rounded up."""
    if limit.usd is None or amount >= _WHOLE:
        return f"{math.ceil(amount * _ALMOST)}"
    return f"{math.ceil(amount * _ALMOST / _CENT) * _CENT:.2f}".removesuffix(".00")


def command_of(name: str, usd: float | None, tokens: int | None, *, used: float, call: float, keys: BudgetKeys) -> str:
    """Return the command that raises the limit of a budget; "" where none does or none is needed. ``call`` is what a call costs."""
    limit = Limit(name=name, of="" if name.startswith("budgets.") else name, usd=usd, tokens=tokens)
    if name.startswith("subagent:"):
        if keys.subagent_usd is None:
            return ""
        limit, used = Limit(name=keys.subagent, usd=keys.subagent_usd), 0.0
    if not (limit.tokens if limit.usd is None else limit.usd):
        return command_to_raise(limit, "AMOUNT", keys)  # twice nothing is nothing
    return command_to_raise(limit, written(limit, raised(limit, used=used, call=call)), keys)


def command_to_raise(limit: Limit, figure: str, keys: BudgetKeys) -> str:
    """Return the command that sets a limit; "" for one that no command sets, and for a sub-agent's: see ``BudgetKeys``."""
    kind, _, name = limit.name.removesuffix(".usd").removesuffix(".tokens").partition(":")
    unit = "tokens" if limit.usd is None else "usd"
    commands = {
        "job": f"homebody cron change {name} --{unit} {figure}",
        "hook": f"homebody hooks change {name} --daily-{unit} {figure}",
        "heartbeat": f"homebody config set {keys.heartbeat} {figure}",
        "tidy": f"homebody config set {keys.tidy} {figure}",
        "mail": f"homebody config set mail.accounts.{name}.watchDailyUsd {figure}",
    }
    if not limit.of:
        return f"homebody config set {limit.name} {figure}"
    return commands.get(kind, "")
