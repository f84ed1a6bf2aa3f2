"""A connection to PostgreSQL that is lost at any moment: each call happens once, and says what became of it."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from channels.messages import ChatAddress, Cursor
from gateway.base.clock import ManualClock
from gateway.base.errors import StorageFailed
from gateway.ledger.rows import Arrival, NewOutbound
from gateway.ledger.spending_rows import NewCall
from tests.peers.cut_line import CutLine

if TYPE_CHECKING:
    from gateway.ledger.protocol import Ledger
    from tests.postgres_server import Server

pytestmark = [pytest.mark.postgres, pytest.mark.long]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ACCOUNT = "telegram:default"
CHAT = ChatAddress(channel="telegram", kind="direct", id="42")


async def opened(url: str) -> Ledger:
    from gateway.ledger.postgres.ledger import PostgresLedger

    return await PostgresLedger.open(url, ManualClock(NOON))


def arrival(number: int) -> Arrival:
    names = {"key": f"u:{number}", "alias": f"m:{number}", "conversation": CHAT.address, "session": "s", "sender": "42"}
    return Arrival(**names, payload="{}", received_at=NOON)


async def live(ledger: Ledger, number: int) -> None:
    """What one message causes. Each step that is done twice, or not at all, raises here or shows in ``found``."""
    (row,) = (await ledger.inbox.accept(ACCOUNT, [arrival(number)], Cursor(name="offset", value=str(number)))).rows
    turn = await ledger.turns.claim("s", "main", [row.id])
    call = NewCall(day="2026-03-01", agent="main", session="s", model="m", background=False, tokens=1, usd=0.5)
    await ledger.spending.reserve(call, [])
    assert await ledger.turns.begin_call(turn.id, "c", "tool", "hash", "effect") is None
    await ledger.turns.end_call(turn.id, "c")
    chunk = NewOutbound(conversation=CHAT, text=f"answer {number}")
    await asyncio.gather(ledger.turns.finish(turn.id, "done", [chunk]), ledger.inbox.cursor(ACCOUNT, "offset"))
    (due,) = await ledger.outbox.due([ACCOUNT])
    assert (await ledger.outbox.sending(due.id)).attempt == 1
    await ledger.outbox.sent(due.id, f"p{number}")


async def live_once_it_answers(ledger: Ledger, number: int) -> None:
    while True:
        try:
            return await live(ledger, number)
        except StorageFailed:  # attempts to connect are some time apart
            await asyncio.sleep(0.05)


def found(url: str) -> dict[str, Any]:
    import psycopg

    queries = {
        "messages": "SELECT array_agg(skey || ' ' || state || ' ' || attempts ORDER BY id) FROM homebody.inbox",
        "answers": "SELECT array_agg(text || ' ' || state || ' ' || attempt || ' ' || doubts ORDER BY id) FROM homebody.outbox",
        "turns": "SELECT count(*) FROM homebody.turn",
        "calls": "SELECT count(*) FROM homebody.tool_call WHERE state = 'done'",
        "spent": "SELECT sum(cost) FROM homebody.spending",
    }
    with psycopg.connect(url) as db:
        return {name: db.execute(query).fetchone()[0] for name, query in queries.items()}


def expected(numbers: range) -> dict[str, Any]:
    return {
        "messages": [f"m:{number} answered 1" for number in numbers],
        "answers": [f"answer {number} sent 1 0" for number in numbers],
        "turns": len(numbers),
        "calls": len(numbers),
        "spent": 0.5 * len(numbers),
    }


@pytest.mark.parametrize("heard", [False, True], ids=["not heard", "heard"])
async def test_a_line_that_breaks_at_any_message_loses_and_doubles_nothing(url: str, server: Server, heard: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        line = CutLine(Path(folder) / ".s.PGSQL.5432", server.folder / ".s.PGSQL.5432")
        line.heard = heard
        ledger = await opened(url.replace(str(server.folder), folder))
        line.messages = 0
        await live(ledger, 0)
        messages = line.messages  # what a message causes, beyond which the next one would begin
        assert messages > 30, "there is something to cut"
        for number in range(1, messages + 1):
            line.cut = line.messages + number
            await live(ledger, number)
        await ledger.close()
        line.close()
        assert line.broken >= messages - 3, "statements are prepared by and by, which takes fewer messages"
    assert found(url) == expected(range(messages + 1))


async def test_a_call_after_a_restart_of_the_server_finds_it_again(url: str, server: Server) -> None:
    ledger = await opened(url)
    await live(ledger, 0)
    server.stop()
    server.start()
    await live(ledger, 1)
    await ledger.close()
    assert found(url) == expected(range(2))


async def test_while_the_server_is_away_calls_say_so_and_later_ones_work(url: str, server: Server) -> None:
    ledger = await opened(url)
    await live(ledger, 0)
    server.stop()
    try:
        for _ in range(3):
            with pytest.raises(StorageFailed, match="the ledger could not be used") as told:
                await ledger.inbox.accept(ACCOUNT, [arrival(1)])
            assert "Start PostgreSQL" in told.value.hint
            assert (
                told.value.where
                == f"postgresql://homebody@{server.folder}/{url.partition('?')[0].rpartition('/')[2]} (schema homebody)"
            )
    finally:
        server.start()
    await live_once_it_answers(ledger, 1)
    await ledger.close()
    assert found(url) == expected(range(2))


async def test_a_commit_in_doubt_waits_until_it_is_known(url: str, server: Server) -> None:
    """The line breaks after COMMIT was heard, and the server is away for a while: the call neither fails nor is done twice."""
    import psycopg

    with tempfile.TemporaryDirectory() as folder:
        line = CutLine(Path(folder) / ".s.PGSQL.5432", server.folder / ".s.PGSQL.5432")
        line.heard = True
        ledger = await opened(url.replace(str(server.folder), folder))
        before = line.messages
        await ledger.inbox.accept(ACCOUNT, [arrival(0)])
        line.cut = line.messages + (line.messages - before)  # the last message of the next call
        line.server = Path("/nowhere")  # nobody answers there
        doubtful = asyncio.create_task(ledger.inbox.accept(ACCOUNT, [arrival(1)]))
        await asyncio.to_thread(line.broke.wait)
        with pytest.raises(StorageFailed):
            await ledger.inbox.accept(ACCOUNT, [arrival(2)])
        assert not doubtful.done()
        line.server = server.folder / ".s.PGSQL.5432"
        assert [row.alias for row in (await doubtful).rows] == ["m:1"]
        await ledger.close()
        line.close()
    with psycopg.connect(url) as db:
        assert db.execute("SELECT skey FROM homebody.inbox ORDER BY id").fetchall() == [("m:0",), ("m:1",)]


async def test_what_became_of_a_commit_is_not_known_once_another_took_over(url: str, server: Server) -> None:
    with tempfile.TemporaryDirectory() as folder:
        line = CutLine(Path(folder) / ".s.PGSQL.5432", server.folder / ".s.PGSQL.5432")
        line.heard = True
        first = await opened(url.replace(str(server.folder), folder))
        before = line.messages
        await first.inbox.accept(ACCOUNT, [arrival(0)])
        line.cut = line.messages + (line.messages - before)
        line.server = Path("/nowhere")
        doubtful = asyncio.create_task(first.inbox.accept(ACCOUNT, [arrival(1)]))
        await asyncio.to_thread(line.broke.wait)
        second = await opened(url)
        await second.close()
        line.server = server.folder / ".s.PGSQL.5432"
        with pytest.raises(StorageFailed, match="it is not known whether this was stored"):
            await doubtful
        await first.close()
        line.close()


async def test_one_that_was_cut_off_writes_no_more_once_another_took_over(url: str, server: Server) -> None:
    import psycopg

    first = await opened(url)
    await live(first, 0)
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'homebody'")
    second = await opened(url)
    await live(second, 1)
    with pytest.raises(StorageFailed, match="another gateway uses this database"):
        await first.inbox.accept(ACCOUNT, [arrival(2)])
    await second.close()
    for _ in range(2):
        while True:
            with pytest.raises(StorageFailed) as told:
                await first.inbox.accept(ACCOUNT, [arrival(2)])
            if "while the connection was lost" in str(told.value):
                break
            await asyncio.sleep(0.05)
    await first.close()
    assert found(url) == expected(range(2))


def test_a_server_that_is_silent_for_too_long_is_left(url: str) -> None:
    import psycopg

    from gateway.ledger.postgres.postgres_connection import connected

    connection = connected(url, "public")
    connection.silence = 0.3
    with pytest.raises(psycopg.OperationalError, match=r"has not answered for 0\.3 seconds"):
        connection.execute("SELECT pg_sleep(60)")
    assert connection.closed
    other = connected(url, "public")
    other.silence = 30
    other.execute("SELECT pg_sleep(0.5)")
    other.close()


async def test_why_the_connection_does_not_come_back_is_said_each_time(url: str, database: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {database}r LOGIN; ALTER DATABASE {database} OWNER TO {database}r")
        ledger = await opened(url.replace("homebody@", f"{database}r@", 1))
        admin.execute(f"ALTER ROLE {database}r NOLOGIN")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (f"{database}r",))
        for _ in range(5):
            with pytest.raises(StorageFailed, match="not permitted to log in"):
                await ledger.inbox.accept(ACCOUNT, [arrival(1)])
        admin.execute(f"ALTER ROLE {database}r LOGIN")
        await live_once_it_answers(ledger, 1)
        await ledger.close()
        admin.execute(f"ALTER DATABASE {database} OWNER TO CURRENT_USER; DROP OWNED BY {database}r; DROP ROLE {database}r")
