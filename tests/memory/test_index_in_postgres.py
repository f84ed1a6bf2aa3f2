"""What an index in PostgreSQL alone can meet: other gateways, lost connections, a server that hangs or lacks something, other tables."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.clock import ManualClock
from memory.audience import OWNER, Audience
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.errors import IndexBroken
from memory.settings import ChunkingSettings, MemorySettings
from memory.store.postgres.tables import COLUMNS
from memory.workspace_memory import WorkspaceMemory
from tests import postgres_server
from tests.ledger import engines
from tests.memory.memory_engines import SCHEMAS, tables_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from memory.store.postgres.connections import Connections
    from memory.store.postgres.index_tables import IndexTables

pytestmark = [pytest.mark.postgres, pytest.mark.long]

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
SETTINGS = MemorySettings(chunking=ChunkingSettings(tokens=16, overlap=0))


@pytest.fixture(autouse=True)
def on_postgres(engine: str) -> Iterator[None]:
    """Run each test on PostgreSQL, and drop its schemas."""
    postgres_server.server()
    engines.Current.engine = engines.POSTGRES
    yield
    from tests.memory.memory_engines import drop_all

    drop_all()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "memory").mkdir(parents=True)
    for number in range(4):
        lines = "\n".join(f"- {number}.{line} the boiler of house {line * number} was serviced by Otto" for line in range(6))
        (folder / f"memory/{number}.md").write_text(lines)
    return folder


def at(
    workspace: Path, embedder: BagOfWords | None = None, connections: Connections | None = None, **more: Any
) -> WorkspaceMemory:
    """Make a memory as a gateway does, on connections of its own where they are given."""
    store = workspace.parent / "i.sqlite"
    if "engine" not in more:
        more["engine"] = tables_at(store, SETTINGS, "main") if connections is None else tables_on(connections)
    return WorkspaceMemory(workspace, store, SETTINGS, agent="main", clock=ManualClock(NOW), embedder=embedder, **more)


def tables_on(connections: Connections) -> IndexTables:
    from memory.store.postgres.index_tables import IndexTables

    return IndexTables(connections, "main", SETTINGS)


def connections_of(workspace: Path, made: Callable[[Any], None], url: str = "") -> Connections:
    """Return connections to the schema of a workspace, each of which is handed to ``made``."""
    from gateway.ledger.postgres.postgres_connection import connected
    from memory.store.postgres.connections import Connections

    schema = engines.schema_of(workspace.parent / "i.sqlite")
    SCHEMAS.add(schema)

    def connect() -> Any:
        connection = connected(url or postgres_server.server().url(), schema)
        connection.silence = 5.0
        made(connection)
        return connection

    return Connections(connect, schema, "the database")


def rows(workspace: Path, query: str) -> list[Any]:
    import psycopg

    with psycopg.connect(postgres_server.server().url(), autocommit=True) as connection:
        connection.execute(f"SET search_path TO {engines.schema_of(workspace.parent / 'i.sqlite')}")
        found = connection.execute(query.encode())
        return found.fetchall() if found.description else []


def assert_whole(workspace: Path) -> None:
    """Compare what the rows say of each other, if there are any."""
    if rows(workspace, "SELECT to_regclass('chunk')") == [(None,)]:
        return
    assert rows(workspace, "SELECT path, start_line, part FROM chunk GROUP BY 1, 2, 3, id >> 40 HAVING count(*) > 1") == []
    assert rows(workspace, "SELECT id FROM chunk EXCEPT SELECT id FROM word_list") == []
    assert rows(workspace, "SELECT id FROM word_list EXCEPT SELECT id FROM chunk") == []
    totals = "SELECT id >> 40, count(*), sum(size)::bigint FROM word_list GROUP BY 1 EXCEPT SELECT number, chunks, size FROM generation"
    assert rows(workspace, totals) == []


async def test_the_next_holder_takes_the_index_up_and_embeds_nothing_again(workspace: Path) -> None:
    first, second = BagOfWords(), BagOfWords()
    memory = at(workspace, first)
    await memory.sync()
    found = (await memory.search("boiler of house 12", audience=OWNER)).hits
    await memory.close()
    for path in (workspace / "memory").iterdir():  # the same notes in a folder of another machine
        os.utime(path, (1_700_000_000, 1_700_000_000))
    memory = at(workspace, second)
    synced = await memory.sync()
    assert (await memory.search("boiler of house 12", audience=OWNER)).hits == found
    assert (synced.chunks, second.calls["passage"]) == (0, 0)
    assert first.calls["passage"] == len(rows(workspace, "SELECT 1 FROM vector"))
    await memory.close()


async def test_two_gateways_that_index_at_once_leave_each_chunk_once(workspace: Path) -> None:
    both = [at(workspace, BagOfWords(), connections_of(workspace, lambda _: None)) for _ in range(2)]
    for _ in range(3):
        await asyncio.gather(*(memory.sync() for memory in both))
        for number in range(4):
            with (workspace / f"memory/{number}.md").open("a") as file:
                file.write(f"\n- one more line that both of them see in {number}\n")
    await asyncio.gather(*(memory.sync() for memory in both))
    assert_whole(workspace)
    for memory in both:
        assert (await memory.status()).changed_files == []
        assert (await memory.search("one more line that both see", audience=OWNER)).hits
        await memory.close()


async def test_a_sync_that_is_cut_off_at_any_statement_leaves_a_whole_index_and_goes_on(workspace: Path) -> None:
    at_statement = 0
    while True:
        (workspace / "memory/new.md").write_text(f"- line {at_statement} of a note that is written anew each time\n" * 3)
        done = await cut_off(workspace, at_statement)
        assert_whole(workspace)
        memory = at(workspace, BagOfWords())
        await memory.sync()
        status = await memory.status()
        assert (status.missing_vectors, status.changed_files) == (0, [])
        await memory.close()
        assert_whole(workspace)
        if done:
            break
        at_statement += 7  # of the steps of the protocol, of which a statement has a few
    assert at_statement > 50


async def cut_off(workspace: Path, at_statement: int) -> bool:
    """Sync once, as a process that ends at this statement; return whether it came to the end before."""
    left = [at_statement]

    def made(connection: Any) -> None:
        execute = connection.wait

        def counted(*arguments: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                connection.pgconn.finish()
            return execute(*arguments, **more)

        connection.wait = counted

    memory = at(workspace, BagOfWords(), connections_of(workspace, made))
    with contextlib.suppress(IndexBroken):
        await memory.sync()
    await memory.close()
    return left[0] >= 0


async def test_connections_that_were_cut_are_made_again_unnoticed(workspace: Path) -> None:
    memory = at(workspace)
    await memory.sync()
    rows(workspace, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'homebody'")
    assert (await memory.search("boiler", audience=OWNER)).hits
    await memory.close()


async def test_while_the_server_is_away_a_search_says_so_and_finds_again_when_it_is_back(workspace: Path) -> None:
    memory = at(workspace)
    await memory.sync()
    server = postgres_server.server()
    server.stop()
    try:
        with pytest.raises(IndexBroken, match="cannot be used") as refused:
            await memory.search("boiler", audience=OWNER)
        assert "can be read" in refused.value.hint
        (workspace / "memory/away.md").write_text("The walrus came while the database was away\n")
        with pytest.raises(IndexBroken):
            await memory.wrote("memory/away.md")
    finally:
        server.start()
    assert (await memory.search("boiler", audience=OWNER)).hits
    await memory.sync()
    assert (await memory.search("walrus", audience=OWNER)).hits[0].path == "memory/away.md"
    await memory.close()


async def test_a_server_that_hangs_holds_no_search_longer_than_its_patience(workspace: Path) -> None:
    made: list[Any] = []
    engine = tables_on(connections_of(workspace, made.append))
    memory = at(workspace, engine=engine)
    await memory.sync()
    engine.patience = 0.3
    pids = [connection.info.backend_pid for connection in made if not connection.closed]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(IndexBroken, match="has not answered for"):
            await memory.search("boiler", audience=OWNER)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    engine.patience = 60.0
    assert (await memory.search("boiler", audience=OWNER)).hits
    await memory.close()


async def test_tables_that_were_dropped_are_made_anew_from_the_notes(workspace: Path) -> None:
    memory = at(workspace)
    await memory.sync()
    rows(workspace, f"DROP SCHEMA {engines.schema_of(workspace.parent / 'i.sqlite')} CASCADE")
    await memory.search("boiler", audience=OWNER)  # finds nothing yet, and does not fail
    await memory.sync()
    assert (await memory.search("boiler", audience=OWNER)).hits
    await memory.close()


async def test_a_server_without_pgvector_searches_by_words_and_names_what_it_lacks(workspace: Path) -> None:
    import psycopg

    server = postgres_server.server()
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute("CREATE ROLE plain LOGIN")
        admin.execute("CREATE DATABASE bare OWNER plain")
    told: list[str] = []
    try:
        connections = connections_of(workspace, lambda _: None, server.url("bare").replace("homebody@", "plain@"))
        memory = at(workspace, BagOfWords(), connections, tell=told.append)
        await memory.sync()
        answer = await memory.search("boiler of house 12", audience=OWNER)
        status = await memory.status()
        assert answer.hits
        assert (answer.provider, status.vector_path, status.search) == ("none", "none", "keywords")
        assert "CREATE EXTENSION vector" in status.note
        assert "CREATE EXTENSION vector" in told[0]
        assert "pgvector" in (answer.note or "")
        await memory.close()
        with psycopg.connect(server.url("bare"), autocommit=True) as admin:
            admin.execute("CREATE EXTENSION vector")
        memory = at(workspace, BagOfWords(), connections)
        await memory.sync()
        assert (await memory.search("boiler of house 12", audience=OWNER)).provider == "fake"
        await memory.close()
    finally:
        with psycopg.connect(server.url(), autocommit=True) as admin:
            admin.execute("DROP DATABASE bare WITH (FORCE)")
            admin.execute("DROP ROLE plain")


@pytest.mark.parametrize(
    ("done", "said"),
    [
        ("UPDATE meta SET value = '99'", "is of version 99"),
        ("DROP TABLE meta CASCADE", "holds tables of another program"),
        ("DELETE FROM meta", "holds tables of another program"),
    ],
)
async def test_tables_that_are_not_ours_to_use_are_left_alone(workspace: Path, done: str, said: str) -> None:
    memory = at(workspace)
    await memory.sync()
    await memory.close()
    rows(workspace, done)
    memory = at(workspace)
    with pytest.raises(IndexBroken, match=said):
        await memory.search("boiler", audience=OWNER)
    assert rows(workspace, "SELECT count(*) FROM chunk") != [(0,)]
    await memory.close()


@pytest.mark.parametrize(
    "done",
    [
        "ALTER TABLE chunk DROP COLUMN header",
        "ALTER TABLE refusal DROP COLUMN reason",
        "ALTER TABLE line_vectors ADD COLUMN more integer",
        "DROP TABLE vocabulary",
    ],
)
@pytest.mark.parametrize("running", [False, True])
async def test_tables_of_another_layout_are_set_aside_and_made_anew(workspace: Path, done: str, *, running: bool) -> None:
    told: list[str] = []
    memory = at(workspace, BagOfWords(), tell=told.append)
    await memory.sync()
    if not running:
        await memory.close()
        memory = at(workspace, BagOfWords(), tell=told.append)
    rows(workspace, done)
    schema = engines.schema_of(workspace.parent / "i.sqlite")
    aside = f"{schema[:36]}_broken_20260318_120000"
    SCHEMAS.add(aside)
    if running:  # it is noticed where the column is asked for, or when the index is opened next
        with contextlib.suppress(IndexBroken):
            await memory.search("boiler of house 12", audience=OWNER)
        await memory.close()
        memory = at(workspace, BagOfWords(), tell=told.append)
    await memory.sync()
    assert (await memory.search("boiler of house 12", audience=OWNER)).hits
    await memory.close()
    assert [one for one in told if f"renamed to {aside} and it is being rebuilt" in one]
    assert (aside,) in rows(workspace, "SELECT nspname::text FROM pg_namespace")
    assert_whole(workspace)


async def test_a_column_that_goes_while_the_index_is_open_is_made_anew_by_the_next_search(workspace: Path) -> None:
    told: list[str] = []
    memory = at(workspace, BagOfWords(), tell=told.append)
    await memory.sync()
    rows(workspace, "ALTER TABLE chunk DROP COLUMN header")
    SCHEMAS.add(f"{engines.schema_of(workspace.parent / 'i.sqlite')[:36]}_broken_20260318_120000")
    await memory.search("boiler of house 12", audience=OWNER)
    await memory.sync()
    assert (await memory.search("boiler of house 12", audience=OWNER)).hits
    assert any("other columns in chunk" in one for one in told)
    await memory.close()


async def test_the_tables_have_the_columns_that_are_looked_for(workspace: Path) -> None:
    memory = at(workspace, BagOfWords())
    await memory.sync()
    await memory.close()
    found = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
    present: dict[str, set[str]] = {}
    for table, column in rows(workspace, found):
        present.setdefault(table, set()).add(column)
    assert present.pop("meta") == {"name", "value"}
    assert present == {table: set(names.split()) for table, names in COLUMNS.items()}


async def test_nothing_of_a_removed_line_is_left_in_the_tables(workspace: Path) -> None:
    (workspace / "memory/secret.md").write_text("The xylophone of Quetzal is under the stairs, code QX-4711\n")
    memory = at(workspace, BagOfWords())
    await memory.sync()
    (workspace / "memory/secret.md").unlink()
    await memory.sync()
    await memory.leave_no_trace()
    everything = "SELECT text FROM chunk UNION SELECT words::text FROM word_list UNION SELECT word FROM vocabulary"
    texts = " ".join(text for (text,) in rows(workspace, everything)).lower()
    assert [word in texts for word in ("xyloph", "4711", "qx-", "boiler")] == [False, False, False, True]
    await memory.close()


def whole_joins(plan: dict[str, Any]) -> Iterator[str]:
    """Yield the joins of a plan that read a table and find no row of it by an index: they compare all of it, or each row with each."""
    joins = {"Hash Join": "Hash Cond", "Nested Loop": "Join Filter"}
    if (condition := plan.get(joins.get(plan["Node Type"], ""))) and any(map(reads_tables, plan["Plans"])):
        yield f"{plan['Node Type']}: {condition}"
    for part in plan.get("Plans", ()):
        yield from whole_joins(part)


def reads_tables(plan: dict[str, Any]) -> bool:
    return "Relation Name" in plan or any(map(reads_tables, plan.get("Plans", ())))


async def test_a_database_without_statistics_joins_what_is_wanted_and_no_whole_tables(workspace: Path) -> None:
    import psycopg
    from psycopg.rows import tuple_row

    asked: dict[str, tuple[Any, Any]] = {}

    class Recording(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
            text = query.decode() if isinstance(query, bytes) else str(query)
            if "line_vectors" in text or "word_list" in text or "chunk" in text or "waiting" in text:
                asked[text] = (query, params)
            return super().execute(query, params, **more)

    def made(connection: Any) -> None:
        connection.cursor_factory = Recording
        recorded.append(connection)

    recorded: list[Any] = []
    for number in range(200):
        lines = "\n".join(f"- {number}.{line} the boiler of house {line * number} was serviced by Otto" for line in range(6))
        (workspace / f"memory/more-{number}.md").write_text(lines)
    memory = at(workspace, BagOfWords(), connections_of(workspace, made))
    await memory.sync()
    assert (await memory.search("boiler of house 12", audience=OWNER)).hits
    await memory.search("boiler of house 12", audience=Audience("peer", "ben"))
    bad = {}
    with psycopg.connect(postgres_server.server().url(), autocommit=True, row_factory=tuple_row) as connection:
        connection.execute(f"SET search_path TO {engines.schema_of(workspace.parent / 'i.sqlite')}, public")
        connection.execute("SET enable_seqscan = off; SET jit = off")
        for text, (query, params) in asked.items():
            if not text.lstrip().upper().startswith(("SELECT", "WITH", "INSERT INTO LINE", "UPDATE", "DELETE")):
                continue
            explained = query if isinstance(query, bytes) else str(query).encode()
            [(plan,)] = connection.execute(b"EXPLAIN (FORMAT JSON) " + explained, params).fetchall()
            if found := list(whole_joins(plan[0]["Plan"])):
                bad[text] = found
    await memory.close()
    assert len(asked) > 10
    assert bad == {}, bad
