"""Checks the settings file: is it valid, does it hold unknown keys, and does the running gateway go by it?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from agent.errors import InvalidPriceFile
from agent.models.catalog.prices import read_prices
from gateway.base.errors import Problem
from gateway.config.load import READABLE
from gateway.doctor.checked_installation import Installation, in_thread
from gateway.doctor.file_access import close_to_others
from gateway.doctor.finding import Check, Finding, Level, ok

_KEPT = "The gateway starts with the settings of its last good start, or not at all."
_NAMED = 5
_OTHER_PRICES = "Built-in prices count, and a model of your own server costs nothing, so that budgets do not hold as you meant."
_IGNORED = "What it says does not take effect."


async def _examine(installation: Installation) -> list[Finding]:
    checked = installation.checked
    found = [_of(one, "error", _KEPT) for one in checked.problems if not one.environment]
    found += [_of(one, "error", "The gateway does not start without it.") for one in checked.problems if one.environment]
    found += [_of(one, "warning", _IGNORED if "is not a key" in one.message else "") for one in checked.warnings]
    found += await _in_force(installation)
    found += await in_thread(_of_prices, installation)
    if found:
        return found
    file = installation.paths.config_file()
    return [ok(f"{file} is valid" if installation.has_settings_file else f"there is no {file}; all defaults apply")]


def _of(problem: Problem, level: Level, why: str) -> Finding:
    where = ": ".join(part for part in (problem.place, problem.path) if part)
    mend = problem.hint or "Correct it in the file; all errors are listed by: homebody config validate"
    fix = partial(in_thread, close_to_others, [Path(problem.file)]) if problem.message == READABLE else None
    return Finding(level=level, what=problem.message, where=where, why=why, mend=mend, fix=fix)


def _of_prices(installation: Installation) -> list[Finding]:
    """Read the file of prices as the gateway does. Does blocking I/O."""
    settings = installation.valid_settings
    if settings is None or (given := settings.models.prices_file) is None:
        return []
    try:
        unread = read_prices(Path(given).expanduser()).unread
    except InvalidPriceFile as error:
        return [Finding(level="error", what=str(error), where="models.pricesFile", why=_OTHER_PRICES, mend=error.hint)]
    if not unread:
        return []
    more = f" and {len(unread) - _NAMED} more" if len(unread) > _NAMED else ""
    named = ", ".join(unread[:_NAMED]) + more
    mend = "Write input and output of each as numbers, in USD per million tokens; the form is in docs/cost.md"
    return [Finding(level="warning", what=f"no price can be read of {named}", where=given, why=_OTHER_PRICES, mend=mend)]


async def _in_force(installation: Installation) -> list[Finding]:
    status = await installation.status()
    return [] if status is None else list(_waiting(status.get("settings") or {}))


def _waiting(facts: dict[str, object]) -> Iterator[Finding]:
    waiting = facts.get("waiting")
    if isinstance(waiting, list) and waiting:
        yield Finding(
            level="note",
            what=f"changed, and not yet in force: {', '.join(map(str, waiting))}",
            why="These settings take effect when the gateway starts.",
            mend="Restart the gateway.",
        )
    if facts.get("complaint"):
        yield Finding(
            level="error",
            what="the running gateway refuses the settings file and keeps its previous settings",
            why=str(facts["complaint"]),
            mend="List the errors with: homebody config validate",
        )


SETTINGS = Check(name="settings", examine=_examine, quick=True)
