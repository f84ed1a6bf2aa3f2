"""A whole ledger goes into PostgreSQL and back, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from gateway.base.clock import ManualClock
from gateway.base.errors import StorageFailed
from gateway.ledger.sqlite import SqliteLedger
from tests.ledger.test_spending_totals import totals_of
from tests.postgres.test_lost_connections import NOON, arrival, live

if TYPE_CHECKING:
    from pathlib import Path

    from tests.postgres_server import Server

pytestmark = [pytest.mark.postgres, pytest.mark.long]


async def filled(path: Path) -> None:
    ledger = await SqliteLedger.open(path, ManualClock(NOON))
    for number in range(3):
        await live(ledger, number)
    await ledger.inbox.accept("telegram:default", [arrival(9)])
    await ledger.pairing.invite("telegram", "default", "digest")
    await ledger.spending.allow("nul\0 and ümlaut")
    await ledger.close()


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    from gateway.ledger.postgres.transfer import ORDER

    db = apsw.Connection(str(path))
    found = {table: list(db.execute(f"SELECT * FROM {table} ORDER BY {order}")) for table, order in ORDER.items()}  # noqa: S608
    found["spending_total"] = list(db.execute("SELECT * FROM spending_total"))
    assert totals_of(db)
    found["meta"] = [row for row in found["meta"] if row[0] not in {"log", "syncs"}]
    db.close()
    return found


async def test_there_and_back_nothing_is_changed(url: str, tmp_path: Path) -> None:
    from gateway.ledger.postgres.ledger import PostgresLedger
    from gateway.ledger.postgres.postgres_connection import connected
    from gateway.ledger.postgres.transfer import from_file, to_file

    await filled(tmp_path / "ledger.sqlite")
    there = from_file(tmp_path / "ledger.sqlite", url, "homebody", "t")
    with connected(url, "homebody") as server:
        held = "SELECT reltuples FROM pg_class WHERE oid = 'inbox'::regclass"
        assert server.execute(held).fetchone() == (4,), "its planner knows at once what there is"
    back = to_file(url, "homebody", tmp_path / "back.sqlite", "e")
    assert there == back
    assert there["inbox"] == 4
    before = rows(tmp_path / "ledger.sqlite")
    assert rows(tmp_path / "back.sqlite") == before | {"meta": [(n.replace("\0", "\ufffd"), v) for n, v in before["meta"]]}
    assert from_file(tmp_path / "ledger.sqlite", url, "homebody", "t") == there, "what is there already is compared"
    ledger = await PostgresLedger.open(url, ManualClock(NOON))
    assert await ledger.took_any()
    (row,) = await ledger.inbox.waiting()
    (new,) = (await ledger.inbox.accept("telegram:default", [arrival(10)])).rows
    assert new.id == row.id + 1, "numbers go on"
    await live(ledger, 11)
    await ledger.copy_to(tmp_path / "copy.sqlite")
    await ledger.close()
    with pytest.raises(StorageFailed, match="holds a ledger already, which is not the one in the file"):
        from_file(tmp_path / "ledger.sqlite", url, "homebody", "t")
    copy = await SqliteLedger.open(tmp_path / "copy.sqlite", ManualClock(NOON))
    assert copy.warning is None
    assert [one.alias for one in await copy.inbox.waiting()] == ["m:9", "m:10"]
    await copy.close()


async def test_a_trial_writes_nothing(url: str, tmp_path: Path) -> None:
    from gateway.ledger.postgres.ledger import PostgresLedger
    from gateway.ledger.postgres.transfer import from_file

    await filled(tmp_path / "ledger.sqlite")
    assert from_file(tmp_path / "ledger.sqlite", url, "homebody", "t", keep=False)["turn"] == 3
    ledger = await PostgresLedger.open(url, ManualClock(NOON))
    assert await ledger.inbox.waiting() == []
    await ledger.close()


def test_an_empty_database_has_nothing_to_copy(server: Server, url: str, tmp_path: Path) -> None:
    from gateway.ledger.postgres.transfer import to_file

    with pytest.raises(StorageFailed, match="no ledger"):
        to_file(url, "homebody", tmp_path / "back.sqlite", "e")
    assert list(tmp_path.iterdir()) == []
