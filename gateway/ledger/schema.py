"""The ledger's tables and their migrations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gateway.base.errors import StorageFailed

if TYPE_CHECKING:
    import apsw

APPLICATION_ID: Final = 0x486F6D65  # "Home", in the header of the file

_FIRST = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TABLE turn (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    agent TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'stopped')),
    attempt INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    reason TEXT
) STRICT;
CREATE INDEX turn_running ON turn (started_at) WHERE state = 'running';
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
) STRICT;

CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
    UNIQUE (account, pkey),
    UNIQUE (account, skey)
) STRICT;
CREATE INDEX inbox_waiting ON inbox (id) WHERE state = 'waiting';
CREATE INDEX inbox_of_turn ON inbox (turn) WHERE turn IS NOT NULL;
CREATE INDEX inbox_heavy ON inbox (ended_at) WHERE ended_at IS NOT NULL AND payload IS NOT NULL;
CREATE INDEX inbox_light ON inbox (ended_at) WHERE ended_at IS NOT NULL AND payload IS NULL;

CREATE TABLE cursor (account TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (account, name)) STRICT;

CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
    ended_at INTEGER
) STRICT;
CREATE INDEX outbox_open ON outbox (epoch, conversation, place, id) WHERE state IN ('ready', 'sending', 'ambiguous');
CREATE INDEX outbox_expiring ON outbox (expires) WHERE state IN ('ready', 'ambiguous');
CREATE INDEX outbox_ended ON outbox (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX outbox_of_turn ON outbox (turn) WHERE turn IS NOT NULL;

CREATE TABLE pairing (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    sender TEXT NOT NULL,
    name TEXT NOT NULL,
    code TEXT NOT NULL,
    target TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    PRIMARY KEY (channel, account, sender)
) STRICT;

CREATE TABLE approved (
    channel TEXT NOT NULL,
    account TEXT NOT NULL,
    sender TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('owner', 'peer')),
    target TEXT NOT NULL,
    approved_at INTEGER NOT NULL,
    PRIMARY KEY (channel, account, sender)
) STRICT;
"""

_SPENDING = """
CREATE TABLE spending (
    id INTEGER PRIMARY KEY,
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
    cache_write INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX spending_of_day ON spending (day, agent, session);
"""

_RICH = """
ALTER TABLE outbox ADD COLUMN extras TEXT;
CREATE INDEX outbox_of_platform ON outbox (platform_id, conversation) WHERE platform_id IS NOT NULL;

ALTER TABLE inbox ADD COLUMN message TEXT;
CREATE INDEX inbox_of_message ON inbox (message, conversation) WHERE message IS NOT NULL;

CREATE TABLE aside (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT NOT NULL,
    line TEXT NOT NULL,
    noted_at INTEGER NOT NULL
) STRICT;
CREATE INDEX aside_of_conversation ON aside (conversation, id);

CREATE TABLE moved (
    account TEXT NOT NULL,
    former TEXT NOT NULL,
    present TEXT NOT NULL,
    moved_at INTEGER NOT NULL,
    PRIMARY KEY (account, former)
) STRICT;
"""

_ATTEMPTS = """
ALTER TABLE inbox ADD COLUMN attempts INTEGER;
UPDATE inbox SET attempts = (SELECT attempt FROM turn WHERE turn.id = inbox.turn) WHERE state = 'claimed';
"""

_EDITED = "ALTER TABLE inbox ADD COLUMN edited INTEGER;"

_APPROVALS = """
CREATE TABLE turn_with_suspension (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    agent TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'suspended', 'done', 'failed', 'stopped')),
    attempt INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    reason TEXT,
    suspended_at INTEGER
) STRICT;
INSERT INTO turn_with_suspension SELECT id, session, agent, state, attempt, started_at, ended_at, reason, NULL FROM turn ORDER BY rowid;
DROP TABLE turn;
ALTER TABLE turn_with_suspension RENAME TO turn;
CREATE INDEX turn_running ON turn (started_at) WHERE state = 'running';
CREATE INDEX turn_suspended ON turn (session) WHERE state = 'suspended';
CREATE INDEX turn_ended ON turn (ended_at) WHERE ended_at IS NOT NULL;

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
    decided_at INTEGER
) STRICT;
CREATE INDEX approval_pending ON approval (expires) WHERE state = 'pending';
CREATE INDEX approval_of_turn ON approval (turn) WHERE turn IS NOT NULL;
"""

_HOOKS = """
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
) STRICT;
"""

_SUBAGENTS = """
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
    usd REAL
) STRICT;
CREATE INDEX subagent_of_parent ON subagent (parent);
CREATE INDEX subagent_of_request ON subagent (request);
CREATE INDEX subagent_open ON subagent (created_at) WHERE state = 'open';
CREATE INDEX subagent_ended ON subagent (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX inbox_of_agents ON inbox (session, id) WHERE account = 'agent';
"""

_JOBS = """
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
    unsure_until INTEGER
) STRICT;
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
    PRIMARY KEY (job, instant)
) STRICT;
CREATE INDEX job_run_stored ON job_run (at);
"""

_UNASKED = """
CREATE TABLE unasked (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
) STRICT;
CREATE INDEX unasked_open ON unasked (state, id) WHERE state <> 'queued';
CREATE INDEX unasked_of_day ON unasked (agent, day);
ALTER TABLE outbox ADD COLUMN unasked INTEGER;
ALTER TABLE outbox ADD COLUMN quiet_from INTEGER;
CREATE INDEX outbox_unasked ON outbox (unasked, state) WHERE unasked IS NOT NULL;
"""

_ORIGINS = """
ALTER TABLE aside ADD COLUMN sources TEXT;
ALTER TABLE spending ADD COLUMN origin TEXT;
ALTER TABLE spending ADD COLUMN source TEXT;
CREATE INDEX spending_of_source ON spending (day, source) WHERE source IS NOT NULL;
"""


def _counted_in(call: str) -> str:
    """Return SQL for the totals that a row of ``spending`` counts in: scope and name, which is NULL for one that it does not count in."""
    background = f"CASE WHEN {call}.background = 1 THEN '' END"
    return (
        f"(SELECT '' AS scope, '' AS name UNION ALL SELECT 'agent', {call}.agent UNION ALL SELECT 'session', {call}.session "
        f"UNION ALL SELECT 'background', {background} UNION ALL SELECT 'source', {call}.source)"
    )


def _added(call: str, calls: str, settled: str, tokens: str, cost: str) -> str:
    return f"""
    INSERT INTO spending_total (day, scope, name, calls, settled, tokens, picodollars)
    SELECT {call}.day, scope, name, {calls}, {settled}, {tokens}, {cost} FROM {_counted_in(call)} WHERE name IS NOT NULL
    ON CONFLICT (day, scope, name) DO UPDATE SET calls = calls + excluded.calls, settled = settled + excluded.settled,
        tokens = tokens + excluded.tokens, picodollars = picodollars + excluded.picodollars;
"""


_OLD_COST, _NEW_COST = (f"round(coalesce({call}.cost, 0.0) * 1e12)" for call in ("OLD", "NEW"))
_TOTALS = f"""
CREATE TABLE spending_total (
    day TEXT NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    calls INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    picodollars REAL NOT NULL,
    PRIMARY KEY (day, scope, name)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER spending_added AFTER INSERT ON spending BEGIN
    {_added("NEW", "1", "NEW.settled", "NEW.tokens", _NEW_COST)}
END;
CREATE TRIGGER spending_changed AFTER UPDATE OF settled, tokens, cost ON spending BEGIN
    {_added("NEW", "0", "NEW.settled - OLD.settled", "NEW.tokens - OLD.tokens", f"{_NEW_COST} - {_OLD_COST}")}
END;
CREATE TRIGGER spending_deleted AFTER DELETE ON spending BEGIN
    {_added("OLD", "-1", "-OLD.settled", "-OLD.tokens", f"-{_OLD_COST}")}
    DELETE FROM spending_total WHERE day = OLD.day AND (scope, name) IN {_counted_in("OLD")} AND calls = 0;
END;
INSERT INTO spending_total
SELECT day, counted.scope, CASE counted.scope WHEN 'agent' THEN agent WHEN 'session' THEN session WHEN 'source' THEN source ELSE '' END,
    count(*), sum(settled), sum(tokens), sum(round(coalesce(cost, 0.0) * 1e12))
FROM spending, (SELECT '' AS scope UNION ALL SELECT 'agent' UNION ALL SELECT 'session' UNION ALL SELECT 'background'
    UNION ALL SELECT 'source') AS counted
WHERE (counted.scope <> 'background' OR background = 1) AND (counted.scope <> 'source' OR source IS NOT NULL)
GROUP BY 1, 2, 3;
"""
"""The sums of each day's calls: of all, of an agent, a session or a source, and of those in the background. A call's cost is rounded to
picodollars, so that floats hold them as whole numbers: these sums are exact in any order, and calls can be taken out of them."""

_SPANS = """
ALTER TABLE job ADD COLUMN skipped TEXT;
ALTER TABLE aside ADD COLUMN agent TEXT;
"""
"""All spans of instants that a job left out, as a clock may go wrong more than once; and whose agent a line is for, where it is for one."""

STEPS: Final = (
    *(_FIRST, _SPENDING, _RICH, _ATTEMPTS, _EDITED, _APPROVALS, _HOOKS, _SUBAGENTS, _JOBS, _UNASKED, _ORIGINS),
    *(_TOTALS, _SPANS),
)
"""Step n migrates version n to n+1. Released steps are never edited; a change is a new step."""


LATER: Final = "Start the newer Homebody that wrote it, or move the file away to begin with an empty one."
"""What helps where a file is of a later version."""


def migrate(db: apsw.Connection, new_epoch: str, where: str) -> None:
    """Bring the tables to the newest version, in one transaction. Raises StorageFailed for a file of a later version.

    Foreign keys must be off: a step that makes a table anew drops the old one, whose rows others refer to.
    """
    version = int(db.pragma("user_version") or 0)
    if version > len(STEPS):
        raise StorageFailed(
            f"this ledger is of version {version}, and this Homebody knows {len(STEPS)} at most",
            where=where,
            hint=LATER,
        )
    if version == len(STEPS):
        return
    with db:
        for step in STEPS[version:]:
            db.execute(step)
        db.execute("INSERT OR IGNORE INTO meta (name, value) VALUES ('epoch', ?)", (new_epoch,))
        db.execute(f"PRAGMA user_version = {len(STEPS)}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


@contextmanager
def intended_ledger() -> Iterator[apsw.Connection]:
    """Have an empty ledger of this version, in memory."""
    import apsw

    db = apsw.Connection(":memory:")
    try:
        for step in STEPS:
            db.execute(step)
        yield db
    finally:
        db.close()


def restore_indexes(db: apsw.Connection, intended: apsw.Connection) -> list[str]:
    """Make indexes anew that are missing or not as intended, and drop others; return their names. They hold nothing of their own.

    Raises CorruptError where that cannot be done, as where rows are twice that an index wants once.
    """
    import apsw

    wanted, found = _indexes(intended), _indexes(db)
    wrong = sorted(name for name in {*wanted, *found} if wanted.get(name, ((),))[0] != found.get(name, ((),))[0])
    if not wrong:
        return []
    try:
        with db:
            for name in wrong:
                db.execute(f"DROP INDEX IF EXISTS {apsw.format_sql_value(name)}")
                if name in wanted:
                    db.execute(wanted[name][1])
    except (apsw.SQLError, apsw.ConstraintError) as error:
        raise apsw.CorruptError(f"its indexes cannot be made anew: {error}") from error
    return wrong


def _indexes(db: apsw.Connection) -> dict[str, tuple[tuple[object, ...], str]]:
    """Return the columns of each index that a step made, and its definition."""
    query = "SELECT name, sql, tbl_name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    columns = 'SELECT seqno, name, "desc", coll FROM pragma_index_xinfo(?)'
    rows: list[tuple[str, str, str]] = db.execute(query).fetchall()  # type: ignore[assignment]  # texts, as the query says
    return {name: ((table, *db.execute(columns, (name,))), sql) for name, sql, table in rows}


def shape(db: apsw.Connection) -> frozenset[tuple[object, ...]]:
    """Return all columns of all tables and indexes, without the text of their definitions, which differs between versions of SQLite."""
    tables = """
        SELECT t.name, c.name, c.type, c."notnull", c.pk FROM pragma_table_list AS t, pragma_table_xinfo(t.name) AS c
        WHERE t.schema = 'main' AND (t.name NOT LIKE 'sqlite_%' OR t.name = 'sqlite_sequence')
    """
    indexes = """
        SELECT s.tbl_name, s.name, i.seqno, i.name FROM sqlite_schema AS s, pragma_index_xinfo(s.name) AS i
        WHERE s.type = 'index'
    """
    return frozenset((*db.execute(tables), *db.execute(indexes)))
