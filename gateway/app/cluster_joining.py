"""How a gateway joins a cluster: what must be set and agree, and what it has open before it holds anything."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.app.dependencies import Dependencies
from gateway.base.errors import UsageError
from gateway.cluster.agreement import home_of, refuse_other_time
from gateway.cluster.home_proof import elsewhere, leave_name, others, refuse_namesake, refuse_own_folders
from gateway.cluster.lease_tables import prepare, write_lock_of
from gateway.cluster.own_end import take_back
from gateway.cluster.postgres_leases import Member, PostgresLeases
from gateway.cluster.settings_marks import MAY_DIFFER
from gateway.ledger.open_ledger import need_driver
from gateway.settings.root import Settings
from gateway.storage.open_storage import Storage, finish_renames, refuse_both

if TYPE_CHECKING:
    from gateway.cluster.postgres_leases import Connection

STANDSTILL_SHARE: Final = 6
"""A transaction may stand still for this part of a lease. The server ends it then, and nobody waits for it any longer."""


def digest_of(settings: Settings) -> str:
    """Return what tells whether two gateways have the same settings, but for those that may differ."""
    text = settings.model_dump_json(exclude=MAY_DIFFER)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Joined:
    """What a gateway of a cluster has open before it holds anything."""

    storage: Storage
    leases: PostgresLeases
    connect: Callable[[], Awaitable[Connection]]


async def join(deps: Dependencies) -> Joined:
    """Open the shared storage.

    Raises:
        UsageError: something that a cluster needs is not set.
        StorageFailed: the database cannot be used.
    """
    settings, gateway = deps.settings, deps.paths.gateway
    if settings.storage.url is None:
        raise UsageError(
            "cluster.enabled needs a database",
            hint="homebody config set storage.url postgresql://USER@HOST/DATABASE (docs/cluster.md)",
        )
    if not gateway:
        hint = "Name each gateway: export HOMEBODY_GATEWAY=kitchen (docs/cluster.md)"
        raise UsageError("cluster.enabled needs a name for this gateway", where="HOMEBODY_GATEWAY", hint=hint)
    if not deps.serving:
        raise UsageError("the agents are shared by a cluster", hint="Start a gateway first: homebody gateway")
    need_driver()
    finish_renames(deps.paths.state)
    refuse_both(deps.paths)
    import psycopg

    from gateway.ledger.postgres.cluster_views import Sharing
    from gateway.ledger.postgres.engine import make_tables
    from gateway.ledger.postgres.ledger import PostgresLedger
    from gateway.ledger.postgres.postgres_connection import NOTICE_LOSS, place, within
    from gateway.ledger.postgres.postgres_errors import storage_error
    from gateway.storage.postgres_storage import PostgresStorage

    schema = settings.storage.schema_name
    url = within(settings.storage.url.get_secret_value(), settings.cluster.lease_seconds)
    name = f"{gateway}.{secrets.token_hex(4)}"
    still = max(0.5, settings.cluster.lease_seconds / STANDSTILL_SHARE)

    async def connect() -> Connection:
        options = f"-c search_path={schema} -c idle_in_transaction_session_timeout={int(still * 1000)} {NOTICE_LOSS}"
        return await psycopg.AsyncConnection.connect(url, autocommit=True, options=options, connect_timeout=5)

    where = place(url, schema)
    home = await asyncio.to_thread(home_of, deps.paths.state, str(deps.paths.home))
    try:
        await asyncio.to_thread(make_tables, url, schema, name)
        async with await connect() as connection:
            await refuse_other_time(connection, where)
            warning = await prepare(connection, schema, home, where)
            await take_back(connection, schema, deps.paths.local)
            await refuse_namesake(connection, gateway, deps.paths.local)
            await _share_folders(deps, connection, name)
    except psycopg.Error as error:
        raise storage_error(error, where) or error from error
    sharing = Sharing(name, write_lock_of(schema), still)
    ledger = await PostgresLedger.open(
        url, deps.clock, schema=schema, committed=deps.telemetry.commit_seconds.add, sharing=sharing
    )
    ledger.warning = warning or ledger.warning
    member = Member(name, gateway, settings.cluster.address, digest_of(settings), home.id)
    longest = max(1.0, min(5.0, settings.cluster.lease_seconds / 2))
    leases = PostgresLeases(connect, schema, member, longest, known=lambda error: storage_error(error, where))
    return Joined(PostgresStorage(ledger, url, schema, deps.clock), leases, connect)


async def _share_folders(deps: Dependencies, connection: Connection, name: str) -> None:
    """Refuse workspaces that are folders alone where the gateways' homes are not one."""
    settings, paths = deps.settings, deps.paths
    await asyncio.to_thread(leave_name, paths.local, name)
    away = await asyncio.to_thread(elsewhere, paths.local.parent, await others(connection, paths.gateway))
    refuse_own_folders([one for one in settings.agent_ids if settings.agent(one).store.type == "folder"], away, paths.home)
