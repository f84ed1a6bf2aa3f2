"""The tables of the index in PostgreSQL and their versions, and whether the server has pgvector."""

from __future__ import annotations

from datetime import datetime
from itertools import count
from typing import Final

import psycopg
from msgspec import Struct
from psycopg import sql

from memory.errors import IndexBroken
from memory.store.postgres.connections import Connection, Connections

OLDEST: Final = 150_000
"""PostgreSQL 15, as for messages and conversations."""

_TABLES: Final = """
CREATE TABLE agent (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    changes bigint NOT NULL DEFAULT 0,
    languages text[] NOT NULL DEFAULT '{}',
    answers text
);
CREATE TABLE generation (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent integer NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
    role text NOT NULL CHECK (role IN ('live', 'building', 'old')),
    tokens integer NOT NULL, overlap integer NOT NULL, rules integer NOT NULL,
    provider text NOT NULL DEFAULT '', model text NOT NULL DEFAULT '', fingerprint text NOT NULL DEFAULT '',
    dims integer NOT NULL DEFAULT 0,
    chunks bigint NOT NULL DEFAULT 0, size bigint NOT NULL DEFAULT 0,
    coded bigint NOT NULL DEFAULT 0, code_size bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX generation_by_role ON generation (agent, role) WHERE role <> 'old';
CREATE TABLE file (
    generation bigint NOT NULL REFERENCES generation (number) ON DELETE CASCADE,
    path text COLLATE "C" NOT NULL, source text NOT NULL, hash bytea,
    size bigint NOT NULL, mtime_ns bigint NOT NULL, ctime_ns bigint NOT NULL, inode bigint NOT NULL,
    settled boolean NOT NULL, trouble text NOT NULL,
    PRIMARY KEY (generation, path)
);
CREATE TABLE chunk (
    id bigint PRIMARY KEY, path text COLLATE "C" NOT NULL, source text NOT NULL, audience text COLLATE "C" NOT NULL,
    start_line integer NOT NULL, end_line integer NOT NULL, part integer NOT NULL, day date,
    header text NOT NULL, text text NOT NULL, hash bytea NOT NULL
);
CREATE INDEX chunk_by_path ON chunk (path, id);
CREATE INDEX chunk_by_day ON chunk (day, id) WHERE day IS NOT NULL;
CREATE TABLE word_list (
    id bigint PRIMARY KEY, audience text COLLATE "C" NOT NULL, hash bytea NOT NULL, size integer NOT NULL, code_size integer NOT NULL,
    code text NOT NULL, words tsvector NOT NULL
) WITH (toast_tuple_target = 128);
ALTER TABLE word_list ALTER code SET STORAGE EXTERNAL, ALTER words SET STORAGE EXTERNAL;
CREATE INDEX word_list_by_word ON word_list USING gin (words);
CREATE TABLE vocabulary (
    generation bigint NOT NULL REFERENCES generation (number) ON DELETE CASCADE, word text COLLATE "C" NOT NULL,
    PRIMARY KEY (generation, word)
);
CREATE TABLE waiting (id bigint PRIMARY KEY);
CREATE TABLE refusal (
    id bigint PRIMARY KEY, provider text NOT NULL, model text NOT NULL, fingerprint text NOT NULL,
    at bigint NOT NULL, reason text NOT NULL
);
CREATE TABLE embedder (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider text NOT NULL, model text NOT NULL, fingerprint text NOT NULL, UNIQUE (provider, model, fingerprint)
);
CREATE TABLE batch_job (
    agent integer NOT NULL REFERENCES agent (id) ON DELETE CASCADE, token text NOT NULL, job text,
    provider text NOT NULL, model text NOT NULL, fingerprint text NOT NULL, texts text NOT NULL, at text NOT NULL,
    PRIMARY KEY (agent, token)
);
"""
"""The ids of chunks begin with the number of their generation (``memory/store/generations.py``), which no other agent has. ``waiting`` are
those without a vector; ``word_list`` has what a search reads of all chunks: narrow rows, with the lists of words beside."""
_VECTORS: Final = """
CREATE TABLE IF NOT EXISTS vector (
    agent integer NOT NULL REFERENCES agent (id) ON DELETE CASCADE, embedder integer NOT NULL, hash bytea NOT NULL,
    used bigint NOT NULL, vector halfvec NOT NULL,
    PRIMARY KEY (agent, embedder, hash)
) WITH (toast_tuple_target = 8160);
CREATE TABLE IF NOT EXISTS line_vectors (
    agent integer NOT NULL, embedder integer NOT NULL, hash bytea NOT NULL, vectors bytea NOT NULL,
    PRIMARY KEY (agent, embedder, hash), FOREIGN KEY (agent, embedder, hash) REFERENCES vector ON DELETE CASCADE
) WITH (toast_tuple_target = 8160);
ALTER TABLE line_vectors ALTER vectors SET STORAGE EXTERNAL;
"""
"""Apart from the others, as it can be made only where pgvector is installed. Vectors of up to 4,000 numbers are in the rows themselves."""
_LINES: Final = """
CREATE TABLE line_waiting (id bigint PRIMARY KEY);
INSERT INTO line_waiting SELECT id FROM chunk c WHERE source = 'memory'
    AND NOT EXISTS (SELECT 1 FROM waiting w WHERE w.id = c.id) AND NOT EXISTS (SELECT 1 FROM refusal r WHERE r.id = c.id)
"""
_HASHES: Final = "CREATE INDEX word_list_by_hash ON word_list (hash)"
STEPS: Final = (_TABLES, _LINES, _HASHES)
"""Step n migrates version n to n+1. Released steps are never edited; a change is a new step."""


COLUMNS: Final = {
    "agent": "id name changes languages answers",
    "generation": "number agent role tokens overlap rules provider model fingerprint dims chunks size coded code_size",
    "file": "generation path source hash size mtime_ns ctime_ns inode settled trouble",
    "chunk": "id path source audience start_line end_line part day header text hash",
    "word_list": "id audience hash size code_size code words",
    "vocabulary": "generation word",
    "waiting": "id",
    "line_waiting": "id",
    "refusal": "id provider model fingerprint at reason",
    "embedder": "id provider model fingerprint",
    "batch_job": "agent token job provider model fingerprint texts at",
    "vector": "agent embedder hash used vector",
    "line_vectors": "agent embedder hash vectors",
}
"""The columns of each table at the newest version."""
_WITH_PGVECTOR: Final = ("vector", "line_vectors")
_LONGEST_SCHEMA: Final = 36
"""Bytes of a schema's name that stay when it is set aside: PostgreSQL cuts names at 63."""


class Prepared(Struct, frozen=True):
    """``lack`` is why vectors cannot be stored, or ""; ``notice`` tells of tables that were set aside."""

    lack: str
    notice: str = ""


def prepare(connections: Connections, now: datetime) -> Prepared:
    """Make the tables, or bring them to the newest version. Those of another layout are set aside, in a schema of another name.

    Raises:
        IndexBroken: the server is too old, or the tables are not ours.
        psycopg.Error: PostgreSQL refuses.
    """
    with connections.reading() as connection:
        if connection.info.server_version < OLDEST:
            raise IndexBroken(f"the memory index needs PostgreSQL 15 or later: {connections.where}", hint="docs/postgresql.md")
        with connection.transaction():
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended('homebody memory ' || %s, 0))", (connections.schema,)
            )
            _migrate(connection, connections)
            notice = ""
            if other := _other_layout(connection, connections.schema):
                notice = _set_aside(connection, connections, other, now)
                _migrate(connection, connections)
            lack = _install_pgvector(connection)
            if not lack and connection.execute("SELECT to_regtype('halfvec')").fetchone() == (None,):
                lack = "pgvector is older than 0.7"
            if not lack:
                connection.execute(_VECTORS.encode())
        return Prepared(lack, notice)


def _other_layout(connection: Connection, schema: str) -> str:
    """Return in what the tables differ from those of the newest version; "" if they do not."""
    columns = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s"
    present: dict[str, set[str]] = {}
    for table, column in connection.execute(columns, (schema,)):
        present.setdefault(table, set()).add(column)
    for table, names in COLUMNS.items():
        if table not in present:
            if table not in _WITH_PGVECTOR:
                return f"no table {table}"
        elif present[table] != set(names.split()):
            return f"other columns in {table}"
    return ""


def _set_aside(connection: Connection, connections: Connections, other: str, now: datetime) -> str:
    """Rename the schema, and return what is told of it.

    Raises:
        IndexBroken: the user of the database may not.
    """
    schema = connections.schema
    first = f"{schema.encode()[:_LONGEST_SCHEMA].decode(errors='ignore')}_broken_{now:%Y%m%d_%H%M%S}"
    taken = {name for (name,) in connection.execute("SELECT nspname FROM pg_namespace")}
    aside = next(name for number in count(1) if (name := first if number == 1 else f"{first}_{number}") not in taken)
    try:
        with connection.transaction():
            connection.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(schema), sql.Identifier(aside)))
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    except psycopg.errors.InsufficientPrivilege as error:
        raise IndexBroken(
            f"the memory index is of another version ({other}) and its schema cannot be renamed: {connections.where}",
            hint=f"Let it be made anew, as the owner of the schema: DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}",
        ) from error
    return (
        f"The memory index was of another version ({other}, {connections.where}); its schema was renamed to {aside} and it is being "
        "rebuilt from the notes."
    )


def _migrate(connection: Connection, connections: Connections) -> None:
    schema = connections.schema
    if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone():
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    tables = {name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,))}
    version = 0
    if "meta" in tables:
        found = connection.execute("SELECT value FROM meta WHERE name = 'memory index'").fetchone()
        version = int(found[0]) if found else -1
    if version < 0 or (tables and "meta" not in tables):
        raise IndexBroken(
            f"the schema {schema} holds tables of another program: {connections.where}",
            hint="Name another one: homebody config set agents.defaults.memorySearch.store.schemaName NAME",
        )
    if version > len(STEPS):
        raise IndexBroken(
            f"the memory index is of version {version}, and this Homebody knows {len(STEPS)} at most: {connections.where}",
            hint=f"Start the newer Homebody that wrote it, or let it be made anew: DROP SCHEMA {schema} CASCADE",
        )
    for step in STEPS[version:]:
        connection.execute(step.encode())
    if version == 0:
        connection.execute("CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL)")
        connection.execute("INSERT INTO meta VALUES ('memory index', '')")
    if version < len(STEPS):
        connection.execute("UPDATE meta SET value = %s WHERE name = 'memory index'", (str(len(STEPS)),))


def _install_pgvector(connection: Connection) -> str:
    """Install pgvector into the database unless it is; return why that cannot be done, or ""."""
    if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
        return ""
    if not connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone():
        return "pgvector is not installed on the server of PostgreSQL"
    try:
        with connection.transaction():
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidSchemaName):
        return "pgvector is not switched on in the database: run CREATE EXTENSION vector there, as its administrator"
    except psycopg.errors.UniqueViolation:
        pass  # another gateway did it in the same moment
    connection.execute("SELECT set_config('search_path', current_setting('search_path') || ', public', false)")
    return ""
