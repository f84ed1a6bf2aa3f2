"""The ledger's tables in PostgreSQL, their migrations, and what of SQLite's SQL PostgreSQL lacks.

The tables and columns are those of ``gateway/ledger/schema.py``; a test compares them. Texts are compared byte by byte, as in SQLite.
Tables whose rows have no number of their own have ``rowid`` as SQLite's have, in the order of insertion.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gateway.base.errors import StorageFailed

if TYPE_CHECKING:
    import psycopg

_FUNCTIONS: Final = """
CREATE FUNCTION max(bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT greatest($1, $2)';
CREATE FUNCTION min(bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT least($1, $2)';
CREATE FUNCTION json_each(list text) RETURNS TABLE (value text) LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
    AS 'SELECT json_array_elements_text($1::json)';
CREATE FUNCTION numbers_as_json(bigint[]) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT array_to_json($1)::text';
CREATE AGGREGATE json_group_array(bigint) (sfunc = array_append, stype = bigint[], initcond = '{}', finalfunc = numbers_as_json);
"""
"""The functions of SQLite that the ledger's SQL uses: ``max`` and ``min`` of two, lists that are bound as JSON, and lists as a result."""

_TABLES: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE turn (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    agent TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'suspended', 'done', 'failed', 'stopped')),
    attempt INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    reason TEXT,
    suspended_at INTEGER,
    ROWID
);
CREATE INDEX turn_running ON turn (started_at) WHERE state = 'running';
CREATE INDEX turn_suspended ON turn (session) WHERE state = 'suspended';
CREATE INDEX turn_ended ON turn (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE tool_call (
    turn TEXT NOT NULL REFERENCES turn (id) ON DELETE CASCADE,
    call_id TEXT NOT NULL,
    name TEXT NOT NULL,
    args_hash TEXT NOT NULL,
    effect TEXT NOT NULL CHECK (effect IN ('pure', 'idempotent', 'effect')),
    state TEXT NOT NULL CHECK (state IN ('planned', 'started', 'done', 'unknown')),
    result_ref TEXT,
    PRIMARY KEY (turn, call_id)
);

CREATE TABLE inbox (
    id NUMBERED,
    account TEXT NOT NULL,
    pkey TEXT NOT NULL,
    skey TEXT NOT NULL,
    conversation TEXT NOT NULL,
    session TEXT,
    sender TEXT NOT NULL,
    payload TEXT,
    received_at INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'claimed', 'answered', 'ignored', 'failed')),
    turn TEXT REFERENCES turn (id) ON DELETE SET NULL,
    reason TEXT,
    ended_at INTEGER,
    message TEXT,
    attempts INTEGER,
    edited INTEGER,
    UNIQUE (account, pkey),
    UNIQUE (account, skey)
);
CREATE INDEX inbox_waiting ON inbox (id) WHERE state = 'waiting';
CREATE INDEX inbox_of_turn ON inbox (turn) WHERE turn IS NOT NULL;
CREATE INDEX inbox_heavy ON inbox (ended_at) WHERE ended_at IS NOT NULL AND payload IS NOT NULL;
CREATE INDEX inbox_light ON inbox (ended_at) WHERE ended_at IS NOT NULL AND payload IS NULL;
CREATE INDEX inbox_of_message ON inbox (message, conversation) WHERE message IS NOT NULL;
CREATE INDEX inbox_of_agents ON inbox (session, id) WHERE account = 'agent';

CREATE TABLE cursor (account TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (account, name));

CREATE TABLE outbox (
    id NUMBERED,
    place INTEGER NOT NULL,
    key TEXT NOT NULL UNIQUE,
    turn TEXT REFERENCES turn (id) ON DELETE SET NULL,
    account TEXT NOT NULL,
    conversation TEXT NOT NULL,
    target TEXT NOT NULL,
    text TEXT NOT NULL,
    reply_to TEXT,
    missed TEXT,
    state TEXT NOT NULL CHECK (state IN ('ready', 'sending', 'sent', 'ambiguous', 'dead')),
    attempt INTEGER NOT NULL DEFAULT 0,
    doubts INTEGER NOT NULL DEFAULT 0,
    firm INTEGER NOT NULL DEFAULT 0,
    recorded TEXT,
    platform_id TEXT,
    reason TEXT,
    epoch TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    ended_at INTEGER,
    extras TEXT,
    unasked INTEGER,
    quiet_from INTEGER
);
CREATE INDEX outbox_open ON outbox (epoch, conversation, place, id) WHERE state IN ('ready', 'sending', 'ambiguous');
CREATE INDEX outbox_expiring ON outbox (expires) WHERE state IN ('ready', 'ambiguous');
CREATE INDEX outbox_ended ON outbox (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX outbox_of_turn ON outbox (turn) WHERE turn IS NOT NULL;
CREATE INDEX outbox_of_platform ON outbox (platform_id, conversation) WHERE platform_id IS NOT NULL;
CREATE INDEX outbox_unasked ON outbox (unasked, state) WHERE unasked IS NOT NULL;

CREATE TABLE pairing (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    sender TEXT NOT NULL,
    name TEXT NOT NULL,
    code TEXT NOT NULL,
    target TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    ROWID,
    PRIMARY KEY (channel, account, sender)
);

CREATE TABLE approved (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    sender TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('owner', 'peer')),
    target TEXT NOT NULL,
    approved_at INTEGER NOT NULL,
    ROWID,
    PRIMARY KEY (channel, account, sender)
);

CREATE TABLE spending (
    id NUMBERED,
    day TEXT NOT NULL,
    at INTEGER NOT NULL,
    agent TEXT NOT NULL,
    session TEXT NOT NULL,
    model TEXT NOT NULL,
    background INTEGER NOT NULL,
    settled INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL,
    cost REAL,
    input INTEGER NOT NULL DEFAULT 0,
    output INTEGER NOT NULL DEFAULT 0,
    cache_read INTEGER NOT NULL DEFAULT 0,
    cache_write INTEGER NOT NULL DEFAULT 0,
    origin TEXT,
    source TEXT
);
CREATE INDEX spending_of_day ON spending (day, agent, session);
CREATE INDEX spending_of_source ON spending (day, source) WHERE source IS NOT NULL;

CREATE TABLE aside (
    id NUMBERED,
    conversation TEXT NOT NULL,
    line TEXT NOT NULL,
    noted_at INTEGER NOT NULL,
    sources TEXT
);
CREATE INDEX aside_of_conversation ON aside (conversation, id);

CREATE TABLE moved (
    account TEXT NOT NULL,
    former TEXT NOT NULL,
    present TEXT NOT NULL,
    moved_at INTEGER NOT NULL,
    ROWID,
    PRIMARY KEY (account, former)
);

CREATE TABLE approval (
    id TEXT PRIMARY KEY,
    round INTEGER NOT NULL,
    turn TEXT REFERENCES turn (id) ON DELETE CASCADE,
    session TEXT NOT NULL,
    transcript TEXT NOT NULL,
    agent TEXT NOT NULL,
    target TEXT NOT NULL,
    call TEXT NOT NULL,
    payload TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'withdrawn')),
    reason TEXT,
    always INTEGER NOT NULL,
    decided_by TEXT,
    asked_at INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    decided_at INTEGER,
    ROWID
);
CREATE INDEX approval_pending ON approval (expires) WHERE state = 'pending';
CREATE INDEX approval_of_turn ON approval (turn) WHERE turn IS NOT NULL;

CREATE TABLE hook (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'paused')),
    token_hash TEXT,
    secret TEXT,
    rules TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
);

CREATE TABLE subagent (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    session TEXT NOT NULL UNIQUE,
    parent TEXT NOT NULL,
    request TEXT NOT NULL,
    depth INTEGER NOT NULL,
    label TEXT NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'done', 'failed', 'stopped')),
    reason TEXT,
    messages INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at INTEGER,
    archived INTEGER NOT NULL,
    usd REAL,
    ROWID
);
CREATE INDEX subagent_of_parent ON subagent (parent);
CREATE INDEX subagent_of_request ON subagent (request);
CREATE INDEX subagent_open ON subagent (created_at) WHERE state = 'open';
CREATE INDEX subagent_ended ON subagent (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE job (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'done')),
    schedule TEXT NOT NULL,
    zone TEXT NOT NULL,
    asked_in TEXT NOT NULL,
    reason TEXT NOT NULL,
    details TEXT NOT NULL,
    reckoned_in TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    next_at INTEGER,
    last_at INTEGER,
    skipped_from INTEGER,
    skipped_to INTEGER,
    unsure_until INTEGER,
    ROWID
);
CREATE INDEX job_due ON job (next_at) WHERE state = 'active';
CREATE INDEX job_skipped ON job (skipped_to) WHERE skipped_to IS NOT NULL;
CREATE INDEX job_asked_in ON job (asked_in) WHERE asked_in <> '';

CREATE TABLE job_run (
    job TEXT NOT NULL,
    instant INTEGER NOT NULL,
    at INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('fired', 'skipped', 'missed')),
    reason TEXT NOT NULL,
    until INTEGER,
    by_hand INTEGER NOT NULL,
    inbox INTEGER,
    message TEXT,
    ROWID,
    PRIMARY KEY (job, instant)
);
CREATE INDEX job_run_stored ON job_run (at);

CREATE TABLE unasked (
    id NUMBERED,
    key TEXT NOT NULL UNIQUE,
    turn TEXT REFERENCES turn (id) ON DELETE SET NULL,
    agent TEXT NOT NULL,
    source TEXT NOT NULL,
    name TEXT NOT NULL,
    conversation TEXT NOT NULL,
    chunks TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('held', 'kept', 'queued')),
    counts INTEGER NOT NULL,
    day TEXT NOT NULL,
    told INTEGER NOT NULL,
    made_at INTEGER NOT NULL,
    ended_at INTEGER
);
CREATE INDEX unasked_open ON unasked (state, id) WHERE state <> 'queued';
CREATE INDEX unasked_of_day ON unasked (agent, day);
"""
"""Written with SQLite's types, as the tables there are; ``_typed`` makes PostgreSQL's of them."""
_TYPES: Final = {
    "TEXT": 'text COLLATE "C"',
    "INTEGER": "bigint",
    "REAL": "double precision",
    "BYTES": "bytea",
    "NUMBERED": "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
    "ROWID": "rowid bigint GENERATED BY DEFAULT AS IDENTITY",
}


def _typed(tables: str) -> str:
    return re.sub(rf"\b({'|'.join(_TYPES)})\b", lambda found: _TYPES[found[1]], tables)


_CONVERSATIONS: Final = """
CREATE TABLE session (
    agent TEXT NOT NULL,
    key TEXT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (agent, key)
);

CREATE TABLE transcript (
    id NUMBERED,
    agent TEXT NOT NULL,
    session TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'archived', 'aside')),
    size INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    UNIQUE (agent, session)
);

CREATE TABLE transcript_line (
    transcript INTEGER NOT NULL REFERENCES transcript (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    line BYTES NOT NULL,
    PRIMARY KEY (transcript, place)
);
"""
"""Sessions and transcripts, which are files elsewhere. A record is the JSON of ``sessions.json``. A line is as in the file, but for its
end, and its place is the byte at which it begins there. A transcript that is ``aside`` is a damaged one that was repaired."""
_COUNTED: Final = """CROSS JOIN LATERAL (VALUES ('', ''), ('agent', call.agent), ('session', call.session),
        ('background', CASE WHEN call.background = 1 THEN '' END), ('source', call.source)) AS counted (scope, name)
    WHERE counted.name IS NOT NULL"""


def _add(calls: str) -> str:
    """Return a statement that adds calls, each with its ``sign``, to the totals."""
    return f"""
    INSERT INTO spending_total AS total (day, scope, name, calls, settled, tokens, picodollars)
    SELECT call.day, counted.scope, counted.name, sum(sign), sum(sign * settled), sum(sign * tokens),
        sum(sign * round(coalesce(cost, 0) * 1e12))
    FROM {calls} AS call {_COUNTED} GROUP BY 1, 2, 3
    ON CONFLICT (day, scope, name) DO UPDATE SET calls = total.calls + excluded.calls, settled = total.settled + excluded.settled,
        tokens = total.tokens + excluded.tokens, picodollars = total.picodollars + excluded.picodollars;
"""


def _trigger(name: str, event: str, tables: str, statements: str) -> str:
    return f"""
CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {statements}
    RETURN NULL;
END $$;
CREATE TRIGGER {name} AFTER {event} ON spending REFERENCING {tables} FOR EACH STATEMENT EXECUTE FUNCTION {name}();
"""


_ADDED, _REMOVED = "(SELECT 1 AS sign, * FROM added)", "(SELECT -1 AS sign, * FROM removed)"
_FORGET: Final = f"""
    DELETE FROM spending_total WHERE calls = 0 AND (day, scope, name) IN
        (SELECT call.day, counted.scope, counted.name FROM removed AS call {_COUNTED});
"""
_TOTALS: Final = f"""
CREATE TABLE spending_total (
    day TEXT NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    calls INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    picodollars REAL NOT NULL,
    PRIMARY KEY (day, scope, name)
) WITH (fillfactor = 50);
{_trigger("spending_added", "INSERT", "NEW TABLE AS added", _add(_ADDED))}
{_trigger("spending_changed", "UPDATE", "NEW TABLE AS added OLD TABLE AS removed", _add(f"({_ADDED[1:-1]} UNION ALL {_REMOVED[1:-1]})"))}
{_trigger("spending_deleted", "DELETE", "OLD TABLE AS removed", _add(_REMOVED) + _FORGET)}
{_add("(SELECT 1 AS sign, * FROM spending)")}
CREATE INDEX spending_open ON spending (at) WHERE settled = 0;
"""
"""The sums of each day's calls, as in ``gateway/ledger/schema.py``, but once for each statement: a row that changes often in a transaction
leaves all of its versions to be passed over. Where each call is a transaction of its own, the versions stay within their page."""
_SPANS: Final = """
ALTER TABLE job ADD COLUMN skipped TEXT;
ALTER TABLE aside ADD COLUMN agent TEXT;
"""
STEPS: Final = (_FUNCTIONS + _typed(_TABLES), _typed(_CONVERSATIONS), _typed(_TOTALS), _typed(_SPANS))
"""Step n migrates version n to n+1. Released steps are never edited; a change is a new step."""
_VERSION: Final = "version"
HOLDER: Final = "holder"
COMMIT: Final = "commit"
HOME: Final = "home"
PROBE: Final = "probe"
OWN_ROWS: Final = (_VERSION, HOLDER, COMMIT, HOME, PROBE)
"""Rows of ``meta`` that only PostgreSQL has: version of the tables, who opened it last, its last commit, its home, and a trial."""
_FIND: Final = "SELECT count(*), count(*) FILTER (WHERE tablename = 'meta') FROM pg_tables WHERE schemaname = current_schema()"


def migrate(connection: psycopg.Connection[Any], schema: str, new_epoch: str, where: str) -> None:
    """Bring the tables to the newest version, in one transaction; the lock of the ledger is held.

    Raises:
        StorageFailed: the tables are of a later version, or another program's.
        psycopg.Error: PostgreSQL refuses; nothing is changed then.
    """
    from psycopg import sql

    with connection.transaction():
        if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone():
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        version = version_of(connection, schema, where)
        for step in STEPS[version:]:
            connection.execute(step)
        if version < len(STEPS):
            add = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (name) DO NOTHING"
            connection.execute(add, ("epoch", new_epoch))
            connection.execute(add, (_VERSION, ""))
            connection.execute("UPDATE meta SET value = %s WHERE name = %s", (str(len(STEPS)), _VERSION))


def version_of(connection: psycopg.Connection[Any], schema: str, where: str) -> int:
    """Return the version of the tables, 0 where there are none. Raises StorageFailed for a later one, and another program's tables."""
    tables, ours = connection.execute(_FIND).fetchone() or (0, 0)
    if not tables:
        return 0
    found = connection.execute("SELECT value FROM meta WHERE name = %s", (_VERSION,)).fetchone() if ours else None
    if found is None or not str(found[0]).isdecimal():
        raise StorageFailed(
            f"the schema {schema} holds tables of another program",
            where=where,
            hint="Name another schema in the settings: homebody config set storage.schemaName NAME",
        )
    if int(found[0]) > len(STEPS):
        raise StorageFailed(
            f"this ledger is of version {found[0]}, and this Homebody knows {len(STEPS)} at most",
            where=where,
            hint="Start the newer Homebody that wrote it.",
        )
    return int(found[0])
