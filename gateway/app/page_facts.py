"""What open pages of the browser page are told of: figures that differ after a change in a chat, on the command line or in an editor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from pathlib import Path

from gateway.agents.running_agent import RunningAgent
from gateway.app.reload import Reload
from gateway.approvals.stored_rules import StoredRules
from gateway.base.paths import Paths
from gateway.ledger.protocol import Ledger
from memory.workspace_memory import WorkspaceMemory


def outside_facts(
    ledger: Ledger,
    stored: StoredRules,
    paths: Paths,
    *,
    agents: Mapping[str, RunningAgent],
    reload: Reload,
    status: Callable[[], Hashable],
    today: Callable[[], str],
    log: Callable[[], Path],
) -> dict[str, Callable[[], Awaitable[Hashable]]]:
    """Return the facts by the kind of event that tells of them. Each is cheap: they are asked for twice a second while a page is open.

    ``status`` differs once a channel has changed, ``today`` is the owner's date, ``log`` the file of the log.
    """

    async def approvals() -> Hashable:
        pending = await ledger.approvals.latest(["pending"])
        rules = await asyncio.to_thread(_stamp, stored.path)
        return tuple((one.id, one.round) for one in pending), rules

    async def jobs() -> Hashable:
        return await ledger.jobs.mark()

    async def settings() -> Hashable:
        known = reload.facts()
        return await asyncio.to_thread(_stamp, paths.config_file()), tuple(known["waiting"]), known["complaint"]

    async def memory() -> Hashable:
        stores = [one.memory.history.versions for one in agents.values() if isinstance(one.memory, WorkspaceMemory)]
        return await asyncio.to_thread(lambda: tuple(one.size for one in stores))

    async def sessions() -> Hashable:
        return frozenset(
            (one.key, one.session, one.spoken, one.turns) for agent in agents.values() for one in agent.store.all()
        )

    async def health() -> Hashable:
        return (await ledger.marks()).queues, status()

    async def costs() -> Hashable:
        return (await ledger.marks()).costs, today()

    async def logs() -> Hashable:
        return await asyncio.to_thread(_stamp, log())

    facts = (approvals, jobs, settings, memory, sessions, health, costs, logs)
    return {one.__name__: one for one in facts}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
