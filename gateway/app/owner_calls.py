"""Admin calls of commands, and those behind pages of the browser page. What they need is loaded with the first of each group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from channels.platform import Policy
from gateway.agents.running_agent import RunningAgent
from gateway.api.handlers.late_calls import Calls, on_first_use
from gateway.app.dependencies import Dependencies
from gateway.app.reload import Reload
from gateway.approvals.decisions import Decisions
from gateway.approvals.stored_rules import StoredRules
from gateway.jobs.job_service import JobService
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import InboxRow, OutboxRow
from gateway.ledger.spending_rows import SpendingLedger
from gateway.routing.access import Access
from gateway.routing.router import Router
from gateway.settings.root import SettingsStore

_NOTES = ("files", "read", "write", "remove", "log", "diff", "undo", "blame", "explain")
_NAMES = (
    *(f"memory.{name}" for name in _NOTES),
    *("jobs.calendar", "jobs.preview"),
    *("settings.form", "settings.preview", "settings.write"),
)


_MEMORY: Final = ("memory.status", "memory.sync")
_SHARING: Final = ("share.call",)
_APPROVALS: Final = tuple(f"approvals.{name}" for name in ("list", "show", "decide", "rules", "forget", "restore"))
_PAIRING: Final = tuple(f"pairing.{name}" for name in ("list", "approve", "revoke", "invite", "invitation"))
_ROUTES: Final = ("route.explain",)
_QUEUES: Final = (
    *(f"outbox.{name}" for name in ("list", "retry", "drop", "forget", "held", "send")),
    *(f"inbox.{name}" for name in ("list", "missed", "retry")),
)


def command_calls(
    deps: Dependencies,
    settings: SettingsStore,
    ledger: Ledger,
    *,
    agents: Mapping[str, RunningAgent],
    approvals: Decisions,
    rules: StoredRules,
    access: Access,
    router: Callable[[], Router],
    policies: Callable[[], Mapping[tuple[str, str], Policy]],
    hand_out: Callable[[InboxRow], Awaitable[None]],
    why_waits: Callable[[OutboxRow], str],
) -> dict[str, Callable[..., Awaitable[Any]]]:
    """Return the calls of the command line about memory, approvals, pairing, routes and queues, by name."""

    def memory() -> Calls:
        from gateway.api.handlers.memory_requests import MemoryHandlers

        return MemoryHandlers(agents).calls()

    def sharing() -> Calls:
        from gateway.api.handlers.sharing_requests import SharingHandlers

        return SharingHandlers(agents, deps.clock, lambda: settings.current.default_agent).calls()

    def approving() -> Calls:
        from gateway.api.handlers.approval_requests import ApprovalHandlers

        return ApprovalHandlers(ledger, approvals, settings=lambda: settings.current, stored=rules).calls()

    def pairing() -> Calls:
        from gateway.api.handlers.pairing_requests import PairingHandlers

        return PairingHandlers(ledger, access).calls()

    def routes() -> Calls:
        from gateway.api.handlers.routes import RouteHandlers

        return RouteHandlers(lambda: settings.current, router, access, policies).calls()

    def queues() -> Calls:
        from gateway.api.handlers.queues import QueueHandlers

        return QueueHandlers(ledger, hand_out, why_waits).calls()

    return {
        **on_first_use(_MEMORY, memory),
        **on_first_use(_SHARING, sharing),
        **on_first_use(_APPROVALS, approving),
        **on_first_use(_PAIRING, pairing),
        **on_first_use(_ROUTES, routes),
        **on_first_use(_QUEUES, queues),
    }


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
