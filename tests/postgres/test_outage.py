"""What is told while the database takes nothing, and what of it is named."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.clock import ManualClock
from gateway.base.errors import StorageFailed
from gateway.base.paths import Paths
from gateway.settings.storage_settings import StorageSettings
from gateway.storage.agent_deletion import forget, kept_of
from gateway.storage.moving import server_facts
from gateway.supervision.database_outage import LOOK_SECONDS, TELL_AFTER, DatabaseOutage

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.ledger.postgres.ledger import PostgresLedger
    from tests.postgres_server import Server

pytestmark = pytest.mark.postgres


def said(url: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        for statement in statements:
            db.execute(statement)


async def opened(url: str) -> PostgresLedger:
    from gateway.ledger.postgres.ledger import PostgresLedger

    return await PostgresLedger.open(url, ManualClock(datetime(2026, 3, 1, 12, tzinfo=UTC)))


async def test_the_owner_is_told_once_of_an_outage_that_lasts_and_of_its_end(url: str) -> None:
    ledger, clock = await opened(url), ManualClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
    told: list[str] = []
    sent: list[str] = []

    async def send(text: str) -> bool:
        sent.append(text)
        return True

    def end(notice: str) -> None:
        told[:] = [one for one in told if one != notice]

    watch = DatabaseOutage(ledger, clock, tell=told.append, end=end, send=send, say=sent.append)
    running = asyncio.create_task(watch.run())
    try:
        said(url, "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
             "RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$",
             "CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON homebody.meta EXECUTE FUNCTION full_disk()")  # fmt: skip
        with pytest.raises(StorageFailed, match="No space left"):
            await ledger.probe()
        while clock.monotonic() < TELL_AFTER + 3 * LOOK_SECONDS:
            for _ in range(200):
                if clock.alarms:
                    break
                await asyncio.sleep(0.01)
            clock.move(LOOK_SECONDS)
        lasts = (await watch.facts())["outage"]
        assert lasts["since"] == "2026-03-01T12:00:05+00:00"
        assert lasts["mend"].startswith("Free some space on the disk of PostgreSQL")
        assert len(sent) == len(told) == 1
        assert "Free some space on the disk of PostgreSQL" in sent[0]
        said(url, "DROP TRIGGER full_disk ON homebody.meta")
        while watch.present is not None:
            clock.move(LOOK_SECONDS)
            await asyncio.sleep(0.01)
        assert ledger.trouble is None
        assert (told, sent[1:]) == ([], ["💾 I can write again, and go on."])
    finally:
        running.cancel()
        await ledger.close()


async def test_a_server_without_room_for_another_connection_is_named(server: Server, database: str) -> None:
    import psycopg

    from gateway.ledger.postgres.postgres_errors import storage_error

    said(server.url(), "CREATE ROLE crowded LOGIN CONNECTION LIMIT 0")
    try:
        with pytest.raises(psycopg.OperationalError) as refused:
            psycopg.connect(server.url(database, user="crowded"))
    finally:
        said(server.url(), "DROP ROLE crowded")
    named = storage_error(refused.value, "x")
    assert named is not None
    assert named.hint.startswith("Raise max_connections of PostgreSQL")


async def test_what_is_wrong_with_a_schema_is_in_its_status(url: str, database: str) -> None:
    await (await opened(url)).close()
    settings = StorageSettings.model_validate({"url": url})

    def facts() -> tuple[Any, ...]:
        found = server_facts(settings)
        return found["missing"], found["readOnly"], found["replica"]

    assert facts() == ([], False, False)
    said(url, "DROP TABLE homebody.job CASCADE", f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    assert facts() == (["job"], True, False)


async def test_conversations_of_a_removed_agent_are_deleted_and_no_others(url: str, tmp_path: Path) -> None:
    await (await opened(url)).close()
    put = "INSERT INTO homebody.transcript (agent, session, state, size, written_at) VALUES ('{0}', 's', 'open', 1, 1)"
    said(url, *(put.format(agent) for agent in ("work", "main")), "INSERT INTO homebody.session VALUES ('work', 'k', '{}')")
    settings, paths = StorageSettings.model_validate({"url": url}), Paths(home=tmp_path)
    for work in (kept_of, forget):
        found = work(paths, settings, "work")
        assert (found.sessions, found.transcripts) == (1, 1)
    assert [(found.sessions, found.transcripts) for found in (kept_of(paths, settings, one) for one in ("work", "main"))] == [
        (0, 0),
        (0, 1),
    ]
