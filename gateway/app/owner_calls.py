"""Admin calls behind pages of the browser page: notes, calendar and settings. What they need is loaded with the first of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway.agents.running_agent import RunningAgent
from gateway.api.handlers.late_calls import Calls, on_first_use
from gateway.app.dependencies import Dependencies
from gateway.app.reload import Reload
from gateway.jobs.job_service import JobService
from gateway.ledger.spending import SpendingLedger
from gateway.settings.root import SettingsStore

_NOTES = ("files", "read", "write", "remove", "log", "diff", "undo", "blame", "explain")
_NAMES = (
    *(f"memory.{name}" for name in _NOTES),
    *("jobs.calendar", "jobs.preview"),
    *("settings.form", "settings.preview", "settings.write"),
)


def owner_calls(
    deps: Dependencies,
    settings: SettingsStore,
    *,
    agents: Mapping[str, RunningAgent],
    jobs: JobService,
    spending: SpendingLedger,
    reload: Reload,
) -> dict[str, Callable[..., Awaitable[Any]]]:
    """Return the calls by name."""

    def made() -> Calls:
        from gateway.api.handlers.job_calendar import JobCalendarHandlers
        from gateway.api.handlers.note_history_requests import NoteHistoryHandlers
        from gateway.api.handlers.note_requests import NoteHandlers
        from gateway.api.handlers.settings_requests import SettingsHandlers

        return {
            **NoteHandlers(agents).calls(),
            **NoteHistoryHandlers(agents).calls(),
            **JobCalendarHandlers(jobs, spending, deps.clock, settings=lambda: settings.current).calls(),
            **SettingsHandlers(deps.paths, deps.env, deps.clock, reload=reload.for_command, facts=reload.facts).calls(),
        }

    return on_first_use(_NAMES, made)
