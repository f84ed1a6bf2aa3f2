"""What is held by whom, read from the database without a gateway, and wishes about it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final, Literal

from gateway.base.errors import StorageFailed, UsageError
from gateway.cluster.cells import ACCOUNT, AGENT, accounts_in, agents_in
from gateway.cluster.home_proof import NAME_ONE
from gateway.cluster.lease_tables import new_secret
from gateway.cluster.settings_marks import differing, lists_agent
from gateway.settings.storage_settings import StorageSettings

State = Literal["working", "paused", "resting", "leaving", "away"]
HOLDING: Final[frozenset[State]] = frozenset({"working", "paused"})

_GATEWAYS: Final = """
SELECT name, label, address, settings, since, leaving, until > clock_timestamp(), trouble FROM cluster_gateway
WHERE until > clock_timestamp() OR name IN (SELECT gateway FROM cluster_holder) ORDER BY label, since
"""
RESTARTED: Final = (
    "If it was just killed and started again, wait until the lease of its former process has ended (cluster.leaseSeconds)."
)
IDLE_SECONDS: Final = 10.0
"""How long an account may be held by nobody before it is named: a handover takes less."""
_TOKENS: Final = """
SELECT t.token, coalesce(g.label, ''), coalesce(g.name, ''), h.since, t.vt > clock_timestamp(),
    t.vt < clock_timestamp() - make_interval(secs => %s)
FROM cluster_token t LEFT JOIN cluster_holder h USING (token) LEFT JOIN cluster_gateway g ON g.name = h.gateway ORDER BY t.token
"""


def need_database(storage: StorageSettings) -> None:
    """Raise UsageError where the settings name no database, without which there is no cluster."""
    if storage.url is None:
        hint = (
            "One gateway alone: homebody status. Several ones share a database (docs/cluster.md): "
            "homebody config set storage.url postgresql://USER@HOST/DATABASE"
        )
        raise UsageError("there is no cluster: no database is set in storage.url", hint=hint)


def overview(storage: StorageSettings) -> dict[str, Any]:
    """Return the gateways and what each token's holder is, as JSON values. Blocking; raises StorageFailed and UsageError.

    ``process`` tells gateways of one name apart.
    """
    with _connected(storage) as connection:
        gateways = [
            {
                "gateway": label,
                "process": name,
                "address": address or None,
                "settings": settings,
                "since": since.isoformat(timespec="seconds"),
                "state": state_of(alive=alive, leaving=leaving, trouble=trouble),
                "trouble": trouble or None,
            }
            for name, label, address, settings, since, leaving, alive, trouble in connection.execute(_GATEWAYS)
        ]
        found = connection.execute(_TOKENS, (IDLE_SECONDS,)).fetchall()
        idle = [token.removeprefix(ACCOUNT) for token, *_, idle in found if idle and token.startswith(ACCOUNT)]
        tokens = [
            {
                "token": token,
                "gateway": label if held and label else None,
                "process": name if held and name else None,
                "since": since.isoformat(timespec="seconds") if held and since is not None else None,
            }
            for token, label, name, since, held, _ in found
        ]
        marks = _marks(connection).values()
        cells = _cells(connection)
    working = {one["settings"] for one in gateways if one["state"] in HOLDING}
    keys = differing(marks)
    names = Counter(one["gateway"] for one in gateways if one["state"] in {*HOLDING, "resting"})
    labels = {one["process"]: one["gateway"] for one in gateways}
    return {
        "gateways": gateways,
        "held": tokens,
        "settingsDiffer": len(working) > 1 or bool(keys),
        "differing": keys,
        "sameName": sorted(name for name, times in names.items() if times > 1),
        "notConnected": _not_connected(idle, tokens, cells, labels),
    }


def state_of(*, alive: bool, leaving: bool, trouble: str) -> State:
    """Return what a gateway does. One that cannot work is "resting" while others do, and "paused" where it keeps what it holds."""
    if not alive:
        return "away"
    if leaving:
        return "resting" if trouble else "leaving"
    return "paused" if trouble else "working"


def _not_connected(
    accounts: list[str], tokens: list[dict[str, Any]], cells: dict[str, list[set[str]]], labels: dict[str, str]
) -> list[dict[str, Any]]:
    """Return for each account which gateways that work have it in their settings, and which hold its agents without."""
    holders = {one["token"]: one["process"] for one in tokens}
    found = []
    for account in accounts if cells else ():
        having = {name: cell for name, known in cells.items() for cell in known if f"{ACCOUNT}{account}" in cell}
        agents = {token for cell in having.values() for token in cell if token.startswith(AGENT)}
        without = {holders.get(agent) for agent in agents} & (cells.keys() - having.keys())
        found.append(
            {
                "account": account,
                "agents": sorted(agents_in(agents)),
                "known": sorted(labels.get(name, name) for name in having),
                "lacking": sorted(labels.get(name or "", "") for name in without),
            }
        )
    return found


def rotate(storage: StorageSettings) -> None:
    """Give the gateways another secret to prove themselves with. Blocking; raises as ``overview``."""
    with _connected(storage, changes=True) as connection:
        connection.execute("UPDATE cluster_secret SET secret = %s WHERE purpose = 'proof'", (new_secret(),))


def _marks(connection: Any) -> dict[str, dict[str, str]]:
    """Return the marks of the settings of the gateways that work, by the names of their processes."""
    if connection.execute("SELECT to_regclass('cluster_settings')").fetchone() == (None,):
        return {}
    query = """SELECT gateway, keys FROM cluster_settings JOIN cluster_gateway ON name = gateway
               WHERE until > clock_timestamp() AND NOT leaving"""
    return {gateway: json.loads(keys) for gateway, keys in connection.execute(query)}


def _cells(connection: Any) -> dict[str, list[set[str]]]:
    """Return what each gateway that works would hold, by the names of their processes, as far as they told it."""
    there = "SELECT 1 FROM information_schema.columns WHERE table_name = 'cluster_settings' AND column_name = 'cells'"
    if connection.execute(f"{there} AND table_schema = current_schema()").fetchone() is None:
        return {}
    query = """SELECT gateway, cells FROM cluster_settings JOIN cluster_gateway ON name = gateway
               WHERE until > clock_timestamp() AND NOT leaving"""
    return {
        gateway: found for gateway, cells in connection.execute(query) if (found := [set(one) for one in json.loads(cells)])
    }


def move(storage: StorageSettings, agent: str, to: str) -> list[str]:
    """Wish that an agent, and what belongs with it, works on another gateway; return the tokens. Blocking; raises as ``overview``."""
    with _connected(storage, changes=True) as connection:
        found = connection.execute(_GATEWAYS).fetchall()
        resting = {label: trouble for _, label, _, _, _, leaving, alive, trouble in found if alive and leaving and trouble}
        working = [(label, name) for name, label, _, _, _, leaving, alive, _ in found if alive and not leaving]
        names = dict(working)
        if len([name for label, name in working if label == to]) > 1:
            raise UsageError(f"more than one gateway is called {to}", hint=f"{NAME_ONE}. {RESTARTED}")
        if to not in names and to in resting:
            raise UsageError(
                f"the gateway {to} rests, and takes nothing: {resting[to]}",
                hint=f"Mend that first, or take another one. There is: {', '.join(sorted(names)) or 'none'}.",
            )
        if to not in names:
            there = ", ".join(sorted(names)) or "none"
            raise UsageError(f"no gateway {to!r} works in this cluster", hint=f"There is: {there}.")
        known = [row[0] for row in connection.execute("SELECT token FROM cluster_token ORDER BY token")]
        if f"{AGENT}{agent}" not in known:
            there = ", ".join(one.removeprefix(AGENT) for one in known if one.startswith(AGENT))
            raise UsageError(f"the cluster has no agent {agent!r}", hint=f"There is: {there}.")
        if not _knows(connection, names[to], agent):
            raise UsageError(
                f"the settings of the gateway {to} have no agent {agent!r}, so that nobody would work for it",
                hint=f"Give {to} the same settings as the others: homebody cluster status names what differs.",
            )
        if missing := _accounts_missing(_cells(connection), names[to], agent):
            raise UsageError(
                f"the settings of the gateway {to} lack what belongs with agent {agent!r}: {', '.join(missing)}. Nobody would connect it",
                hint=f"Give {to} the same settings as the others: homebody cluster status names what differs.",
            )
        wish = "INSERT INTO cluster_wish VALUES (%s, %s) ON CONFLICT (token) DO UPDATE SET gateway = excluded.gateway"
        connection.execute(wish, (f"{AGENT}{agent}", names[to]))
    return [f"{AGENT}{agent}"]


def _accounts_missing(cells: dict[str, list[set[str]]], gateway: str, agent: str) -> list[str]:
    """Return the accounts that belong with an agent by the settings of any gateway, and not by those of this one."""
    if gateway not in cells:
        return []
    having = {name: {one for cell in known if f"{AGENT}{agent}" in cell for one in cell} for name, known in cells.items()}
    return sorted(set(accounts_in(set().union(*having.values()))) - set(accounts_in(having[gateway])))


def _knows(connection: Any, gateway: str, agent: str) -> bool:
    """Return whether the settings of a gateway that works have an agent, as far as it told their marks."""
    marks = _marks(connection).get(gateway)
    secret = connection.execute("SELECT secret FROM cluster_secret WHERE purpose = 'marks'").fetchone()
    return marks is None or secret is None or lists_agent(marks, agent, str(secret[0]).encode())


def _connected(storage: StorageSettings, *, changes: bool = False) -> Any:
    need_database(storage)
    import psycopg

    assert storage.url is not None

    try:
        options = f"-c search_path={storage.schema_name}"
        connection = psycopg.connect(storage.url.get_secret_value(), options=options, connect_timeout=5)
        there = connection.execute("SELECT to_regclass('cluster_token')").fetchone() != (None,)
        if there and not (changes and connection.execute("SHOW transaction_read_only").fetchone() == ("on",)):
            return connection
        connection.close()
    except psycopg.Error as error:
        raise StorageFailed(f"the database does not answer: {str(error).strip()}", hint="Start PostgreSQL.") from error
    if there:
        text = "the database takes no changes, so that no gateway works either: it is a replica, or set to read-only"
        raise StorageFailed(text, where="storage.url", hint="Name the primary server, or have the database take changes again.")
    raise UsageError(
        "no gateway of a cluster has used this database yet",
        hint="Start one: HOMEBODY_GATEWAY=NAME homebody gateway, with cluster.enabled true in its settings",
    )
