"""What a gateway of a cluster sees of the ledger: the rows of the agents and accounts that it holds, and no others.

Views stand before the tables, in a schema of their own. Each shows the rows whose agent or account is held by the gateway that asks, by
the leases as they are in the database at that moment (``cluster_held``, see ``gateway/cluster/postgres_leases.py``). So a gateway that was
stopped and wakes up after another one took over finds nothing to change, whatever it wants to write, and takes up nothing of others.

All transactions of a cluster run one after the other (``Sharing.lock``), also those that take a lease: the ledger's SQL is written for one
writer, and nobody takes over between two statements of a transaction. One whose gateway is stopped is ended by the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import psycopg

_CLIENTS: Final = "('terminal:default', 'web:default', 'api:default', 'internal:default')"
"""Accounts without a lease: what is said there is with people who are connected to this gateway."""
_AGENT: Final = "{column} IN (SELECT name FROM held_agent)"
_ACCOUNT: Final = "{column} IN (SELECT name FROM held_account)"
_OF_TURN: Final = "turn IN (SELECT id FROM {{base}}.turn WHERE agent IN (SELECT name FROM held_agent))"


def _agents(column: str) -> str:
    return _AGENT.format(column=column)


def _accounts(column: str) -> str:
    return _ACCOUNT.format(column=column)


_SESSIONS_AGENT: Final = "split_part(session, ':', 2)"
_ELSE_OF_ACCOUNT: Final = f"ELSE account NOT LIKE '%%:%%' OR account IN {_CLIENTS} OR {_accounts('account')} END"
_OWN: Final = " WITH CHECK OPTION"
"""Rows that a gateway may neither add for others."""
_VIEWS: Final[dict[str, tuple[str, str]]] = {
    "turn": (_agents("agent"), _OWN),
    "tool_call": (_OF_TURN, _OWN),
    "inbox": (
        f"CASE WHEN session IS NOT NULL THEN {_agents(_SESSIONS_AGENT)} {_ELSE_OF_ACCOUNT}",
        "",
    ),
    "outbox": (
        f"CASE WHEN account IN {_CLIENTS} THEN turn IS NULL OR {_OF_TURN} ELSE {_accounts('account')} END",
        "",
    ),
    "cursor": (f"{_accounts('account')} OR account NOT LIKE '%%:%%'", _OWN),
    "approval": (_agents("agent"), _OWN),
    "subagent": (_agents("agent"), ""),
    "job": (_agents("agent"), _OWN),
    "job_run": ("job IN (SELECT id FROM {{base}}.job WHERE agent IN (SELECT name FROM held_agent))", ""),
    "unasked": (_agents("agent"), ""),
    "session": (_agents("agent"), _OWN),
    "transcript": (_agents("agent"), _OWN),
}
"""The condition of each view. What is not here is common to all: people, spending, webhooks, events of conversations; or it is written
with a row that is here, as lines of transcripts are."""
EVERYWHERE: Final = {
    "SELECT coalesce(max(id), 0) + 1 FROM outbox": "SELECT coalesce(max(id), 0) + 1 FROM every_outbox",
    "SELECT 1 FROM inbox WHERE account = ? AND skey = ?": "SELECT 1 FROM every_inbox WHERE account = ? AND skey = ?",
    "SELECT extras FROM outbox WHERE": "SELECT extras FROM every_outbox WHERE",
    "SELECT chunks FROM unasked WHERE state <> 'queued'": "SELECT chunks FROM every_unasked WHERE state <> 'queued'",
}
"""Questions that are about all rows, whoever holds them: where a conversation ends, whether a message is known, which files are needed."""
_NOTIFY: Final = """
CREATE OR REPLACE FUNCTION {base}.cluster_tell() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE of text;
BEGIN
    IF coalesce(current_setting('homebody.gateway', true), '') = '' THEN RETURN NULL; END IF;
    IF TG_TABLE_NAME = 'outbox' THEN
        of := 'account:' || NEW.account;
    ELSE
        of := 'agent:' || split_part(NEW.session, ':', 2);
    END IF;
    IF NOT EXISTS (SELECT 1 FROM {base}.cluster_held WHERE token = of AND gateway = current_setting('homebody.gateway', true)) THEN
        PERFORM pg_notify({channel}, of);
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER cluster_tell AFTER INSERT ON {base}.outbox FOR EACH ROW EXECUTE FUNCTION {base}.cluster_tell();
CREATE OR REPLACE TRIGGER cluster_tell AFTER INSERT ON {base}.inbox FOR EACH ROW WHEN (NEW.session IS NOT NULL)
    EXECUTE FUNCTION {base}.cluster_tell();
"""
FORM: Final = repr((_VIEWS, EVERYWHERE, _NOTIFY))
"""What the views are made from. A change raises ``VERSION`` in ``gateway/cluster/agreement.py``."""
_OWN_TABLES: Final = """
CREATE TABLE IF NOT EXISTS cluster_views (made_for text NOT NULL);
CREATE TABLE IF NOT EXISTS cluster_commit (gateway text PRIMARY KEY, number text NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a gateway shares the ledger: its name in the leases, the lock of all transactions, and how long one may stand still."""

    gateway: str
    lock: str
    idle_seconds: float


def held_schema(schema: str) -> str:
    """Return the schema of the views."""
    return f"{schema}_held"


def make_views(connection: psycopg.Connection[Any], schema: str, lock: str) -> None:
    """Make the views, as far as they are not there as they should be. The tables and those of the leases exist."""
    from psycopg import sql

    held = held_schema(schema)
    names = {"base": sql.Identifier(schema), "held": sql.Identifier(held), "channel": sql.Literal(schema)}
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (lock,))
        columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = %s"
        mark = f"{FORM} {connection.execute(columns, (schema,)).fetchone()}"
        connection.execute(_OWN_TABLES)
        if connection.execute("SELECT 1 FROM cluster_views WHERE made_for = %s", (mark,)).fetchone():
            return
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {held} CASCADE; CREATE SCHEMA {held}").format(**names))
        for kind, cut in (("agent", 7), ("account", 9)):
            connection.execute(
                sql.SQL(
                    "CREATE VIEW {held}.{view} AS SELECT substr(token, {cut}) AS name FROM {base}.cluster_held "
                    "WHERE token LIKE {like} AND gateway = current_setting('homebody.gateway', true)"
                ).format(view=sql.Identifier(f"held_{kind}"), cut=sql.Literal(cut), like=sql.Literal(f"{kind}:%"), **names)
            )
        for table, (condition, check) in _VIEWS.items():
            where = condition.replace("{{base}}", "{base}").replace("%%", "%")
            for kind in ("agent", "account"):
                where = where.replace(f"FROM held_{kind}", f"FROM {{held}}.held_{kind}")
            view = f"CREATE VIEW {{held}}.{{table}} AS SELECT * FROM {{base}}.{{table}} WHERE {where}{check}"
            connection.execute(sql.SQL(view).format(table=sql.Identifier(table), **names))
        for table in ("outbox", "inbox", "unasked"):
            every = sql.SQL("CREATE VIEW {held}.{every} AS SELECT * FROM {base}.{table}")
            connection.execute(every.format(every=sql.Identifier(f"every_{table}"), table=sql.Identifier(table), **names))
        connection.execute(sql.SQL(_NOTIFY).format(**names))
        connection.execute("DELETE FROM cluster_views")
        connection.execute("INSERT INTO cluster_views VALUES (%s)", (mark,))
