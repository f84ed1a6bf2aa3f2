"""Gateways that do not fit together: another home, another time, a later version, tables that were made half."""

from __future__ import annotations

import asyncio
import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import SystemClock
from gateway.base.errors import StorageAway, StorageFailed
from gateway.cluster import agreement, lease_tables
from gateway.cluster.agreement import Home, clock_trouble, home_of, refuse_other_time
from gateway.cluster.lease_tables import prepare, write_lock_of
from gateway.cluster.leases import LeaseTable
from gateway.cluster.postgres_leases import Member, PostgresLeases
from gateway.ledger.postgres import cluster_views
from gateway.ledger.postgres.cluster_views import Sharing
from gateway.ledger.postgres.engine import make_tables
from gateway.ledger.postgres.ledger import PostgresLedger
from tests.peers.cut_line import CutLine

if TYPE_CHECKING:
    from gateway.cluster.agreement import Connection
    from tests.postgres_server import Server

pytestmark = pytest.mark.postgres

KITCHEN, CLUB = Home("a1", "/srv/kitchen"), Home("b2", "/srv/club")
HOUR = 3600.0


async def connected(url: str, schema: str = "public") -> Connection:
    import psycopg

    return await psycopg.AsyncConnection.connect(url, autocommit=True, options=f"-c search_path={schema}")


async def prepared(url: str, home: Home) -> str | None:
    async with await connected(url) as connection:
        return await prepare(connection, "public", home, "here")


class One:
    """The leases of a gateway, whose clock is wrong by ``ahead`` seconds."""

    def __init__(self, url: str, name: str, home: Home = KITCHEN) -> None:
        self.ahead = 0.0
        member = Member(name, name, home=home.id)
        self.store = PostgresLeases(lambda: connected(url), "public", member, clock=lambda: time.time() + self.ahead)
        self.table = LeaseTable(name, 30)

    async def round(self) -> None:
        claimed = True
        while claimed:
            sent = time.monotonic()
            asked, _ = self.table.begin(sent)
            changes = self.table.end(asked, await self.store.round(asked), sent, time.monotonic())
            for token in changes.leave:
                self.table.left(token)
            claimed = changes.claimed

    @property
    def held(self) -> set[str]:
        return {lease.token for lease in self.table.all_held(time.monotonic())}


async def test_gateways_of_another_home_are_refused_while_those_of_the_first_work(url: str) -> None:
    assert await prepared(url, KITCHEN) is None
    one = One(url, "one")
    await one.store.add(["agent:anna"])
    await one.round()
    with pytest.raises(StorageFailed, match=r"another home use this database \(one\): /srv/kitchen") as told:
        await prepared(url, CLUB)
    assert "storage.schemaName" in told.value.hint
    async with await connected(url) as connection:
        await connection.execute("UPDATE cluster_gateway SET until = clock_timestamp()")
    warning = await prepared(url, CLUB)
    assert warning is not None
    assert "another home before: /srv/kitchen. This one is /srv/club." in warning
    assert await prepared(url, CLUB) is None
    with pytest.raises(StorageFailed, match="another home use this database: /srv/club"):
        await one.round()  # it had been cut off, and comes back
    await one.store.close()


def test_a_home_is_known_by_a_file_in_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: home_of(tmp_path, "here"), range(8)))
    assert len(set(found)) == 1
    assert home_of(tmp_path, "here") == found[0]
    assert [file.name for file in tmp_path.iterdir()] == ["cluster-home"]
    for damaged in (b"\x81b2\n", b"", b"a1\nb2\n"):
        (tmp_path / "cluster-home").write_bytes(damaged)
        with pytest.raises(StorageFailed, match="the name of this home is damaged") as told:
            home_of(tmp_path, "here")
        assert "Copy the file from the home of another gateway" in told.value.hint


async def test_a_gateway_whose_clock_is_wrong_gives_up_what_it_holds_until_it_is_right(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    await prepared(url, KITCHEN)
    one, other = One(url, "one"), One(url, "other")
    await one.store.add([f"agent:{number}" for number in range(4)])
    await one.round()
    assert len(one.held) == 4
    one.ahead = HOUR
    for _ in range(3):
        await one.round()
        await other.round()
    assert (len(one.held), len(other.held)) == (0, 4)
    assert "the clock of this machine is 3600 s ahead of the database's: this gateway gives up what it holds" in caplog.text
    async with await connected(url) as connection:
        query = "SELECT trouble FROM cluster_gateway WHERE name = 'one'"
        assert "3600 s ahead" in (await (await connection.execute(query)).fetchall())[0][0]
        with pytest.raises(StorageFailed, match="3600 s behind the database's") as told:
            await refuse_other_time(connection, "here", lambda: time.time() - HOUR)
    assert "timedatectl" in told.value.hint
    one.ahead = 0
    for _ in range(4):
        await one.round()
        await other.round()
    assert len(one.held) == len(other.held) == 2
    for member in (one, other):
        await member.store.close()


@pytest.mark.parametrize(("there", "told"), [(100, ""), (75, ""), (40, "60 s ahead of"), (165, "64 s behind")])
def test_a_round_that_takes_long_does_not_make_a_clock_wrong(there: float, told: str) -> None:
    assert (told in clock_trouble(100, there, 101)) == bool(told) or not told
    assert clock_trouble(100, there, 101).startswith("the clock") == bool(told)
    assert clock_trouble(0, there, 1000) == "", "the answer may have been given at any moment in between"


async def test_tables_of_a_later_version_are_left_alone(url: str) -> None:
    await prepared(url, KITCHEN)
    async with await connected(url) as connection:
        await connection.execute("UPDATE cluster_made SET version = 99, made_for = 'more'")
        with pytest.raises(StorageFailed, match="version 99, and this Homebody knows") as told:
            await prepare(connection, "public", KITCHEN)
        assert "homebody update" in told.value.hint
        assert await (await connection.execute("SELECT made_for FROM cluster_made")).fetchall() == [("more",)]


def test_a_change_of_the_tables_or_views_has_a_new_version() -> None:
    """Who changes them raises ``agreement.VERSION``, so that an earlier Homebody leaves them alone, and writes the digest down here."""
    text = f"{lease_tables.FORM}{cluster_views.FORM}"
    assert (agreement.VERSION, hashlib.sha256(text.encode()).hexdigest()[:12]) == (4, "bfd7b0e7603d")


@pytest.mark.long
async def test_tables_whose_making_ends_at_any_message_are_made_by_the_next_one(
    url: str, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("line")
    line = CutLine(Path(folder) / ".s.PGSQL.5432", server.folder / ".s.PGSQL.5432")

    async def opened(through: str) -> None:
        await asyncio.to_thread(make_tables, through, "homebody", "g")
        async with await connected(through, "homebody") as connection:
            await prepare(connection, "homebody", KITCHEN)
        shared = Sharing("g", write_lock_of("homebody"), 5.0)
        await (await PostgresLedger.open(through, SystemClock(), sharing=shared)).close()

    import psycopg

    for cut in range(1, 200):
        line.cut, broken = line.messages + cut, line.broken
        try:
            await opened(url.replace(str(server.folder), str(folder)))
        except (StorageFailed, psycopg.Error):
            continue
        if line.broken == broken:
            break
    assert line.broken > 20
    line.close()
    await opened(url)


@pytest.mark.parametrize(
    ("told", "away"),
    [
        (
            "connection failed: FATAL:  the database system is not yet accepting connections\nDETAIL:  Consistent recovery state",
            True,
        ),
        ("connection failed: FATAL:  the database system is in recovery mode", True),
        ("connection failed: FATAL:  the database system is shutting down", True),
        ("server closed the connection unexpectedly", True),
        ('connection failed: FATAL:  role "me" does not exist', False),
    ],
)
def test_a_server_that_is_not_ready_yet_is_waited_for(told: str, away: bool) -> None:
    import psycopg

    from gateway.ledger.postgres.postgres_errors import storage_error

    assert isinstance(storage_error(psycopg.OperationalError(told), "here"), StorageAway) == away
