"""Leases in a real PostgreSQL: shared, taken over, fenced, moved, and not known when the server does not answer."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import pytest

from gateway.base.errors import StorageFailed, UsageError
from gateway.cluster import postgres_leases
from gateway.cluster.home_proof import leave_name, refuse_namesake
from gateway.cluster.lease_tables import prepare
from gateway.cluster.leases import Lease, LeaseTable
from gateway.cluster.overview import move, overview
from gateway.cluster.postgres_leases import PostgresLeases
from gateway.cluster.settings_marks import marks_of
from gateway.settings.root import Settings
from gateway.settings.storage_settings import StorageSettings
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.cluster.postgres_leases import Connection
    from tests.postgres_server import Server

pytestmark = pytest.mark.postgres


async def connected(url: str) -> Connection:
    import psycopg

    return await psycopg.AsyncConnection.connect(url, autocommit=True)


class Member:
    """One gateway, whose rounds are done by hand."""

    def __init__(self, url: str, name: str, seconds: float) -> None:
        self.store = PostgresLeases(lambda: connected(url), "public", postgres_leases.Member(name, name, f"http://{name}"))
        self.table = LeaseTable(name, seconds)

    async def round(self) -> tuple[str, ...]:
        """Do a round, give up at once what is asked for; return what was lost."""
        lost: list[str] = []
        claimed = True
        while claimed:
            sent = time.monotonic()
            asked, late = self.table.begin(sent)
            changes = self.table.end(asked, await self.store.round(asked), sent, time.monotonic())
            for token in changes.leave:
                self.table.left(token)
            lost += (*late, *changes.lost)
            claimed = changes.claimed
        return tuple(lost)

    @property
    def held(self) -> set[str]:
        return {lease.token for lease in self.table.all_held(time.monotonic())}

    def lease(self, token: str) -> Lease:
        found = self.table.held(token, time.monotonic())
        assert found is not None
        return found


@pytest.fixture
async def members(url: str) -> AsyncIterator[tuple[Member, Member]]:
    connection = await connected(url)
    await asyncio.gather(
        prepare(connection, "public"), *[_prepared(url) for _ in range(2)]
    )  # several gateways may begin at once
    await connection.close()
    both = Member(url, "one", 30), Member(url, "other", 30)
    await both[0].store.add([f"agent:{number}" for number in range(4)])
    await both[1].store.add([f"agent:{number}" for number in range(6)])
    yield both
    for member in both:
        await member.store.close()


async def _prepared(url: str) -> None:
    connection = await connected(url)
    await prepare(connection, "public")
    await connection.close()


async def fenced(url: str, lease: Lease) -> bool:
    """Whether a write with this lease would be taken."""
    connection = await connected(url)
    query = "SELECT 1 FROM cluster_token JOIN cluster_held USING (token) WHERE token = %s AND fence = %s"
    found = await (await connection.execute(query, (lease.token, lease.fence))).fetchone()
    await connection.close()
    return found is not None


async def settled(*members: Member) -> None:
    for _ in range(4):
        for member in members:
            await member.round()


async def test_tokens_are_shared_given_up_and_never_held_twice(members: tuple[Member, Member]) -> None:
    one, other = members
    await one.round()
    assert len(one.held) == 6, "alone it has all"
    await settled(one, other)
    assert len(one.held) == len(other.held) == 3
    assert not one.held & other.held
    one.table.emptying = True
    await settled(one, other)
    assert one.held == set()
    assert len(other.held) == 6


async def test_other_settings_are_told_of_once_and_not_while_each_reads_a_changed_file(
    members: tuple[Member, Member], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = members
    other.store.member = postgres_leases.Member("other", "cellar", settings="2")
    await settled(one, other)
    assert not caplog.records
    monkeypatch.setattr(postgres_leases, "DIFFERING_SECONDS", 0.0)
    await settled(one, other)
    told = sorted(record.message.partition(" are")[0] for record in caplog.records)
    assert told == ["the settings of cellar", "the settings of one"]


async def test_a_gateway_with_the_name_of_another_one_is_refused_or_told(
    url: str, members: tuple[Member, Member], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = members
    one.store.member = postgres_leases.Member("one", "kitchen", address="http://10.0.0.5:18790")
    await one.round()
    storage = StorageSettings.model_validate({"url": url, "schemaName": "public"})
    connection = await connected(url)
    leave_name(tmp_path, "one")
    await refuse_namesake(connection, "kitchen", tmp_path)  # it is the former process of this gateway
    refused = asyncio.create_task(refuse_namesake(connection, "kitchen", tmp_path / "elsewhere"))
    while not refused.done():
        await one.round()
        await asyncio.sleep(0.05)
    with pytest.raises(UsageError, match=r"is called kitchen, too at http://10.0.0.5:18790") as told:
        await refused
    assert told.value.where == "HOMEBODY_GATEWAY"
    waiting = asyncio.create_task(refuse_namesake(connection, "kitchen", tmp_path / "elsewhere"))
    await asyncio.sleep(0)
    ended = await connected(url)
    await ended.execute("UPDATE cluster_gateway SET until = clock_timestamp()")  # as if it were killed
    await waiting
    await ended.close()
    await connection.close()
    other.store.member = postgres_leases.Member("other", "kitchen")
    await settled(one, other)
    assert len([record for record in caplog.records if "is called kitchen, too" in record.message]) == 2
    assert (await asyncio.to_thread(overview, storage))["sameName"] == ["kitchen"]
    with pytest.raises(UsageError, match="more than one gateway is called kitchen"):
        await asyncio.to_thread(move, storage, "0", "kitchen")


async def test_a_move_in_a_database_that_takes_no_changes_says_so(
    url: str, database: str, members: tuple[Member, Member]
) -> None:
    storage = StorageSettings.model_validate({"url": url, "schemaName": "public"})
    await members[0].round()
    connection = await connected(url)
    await connection.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on".encode())
    await connection.close()
    with pytest.raises(StorageFailed, match="the database takes no changes"):
        await asyncio.to_thread(move, storage, "0", "one")
    assert (await asyncio.to_thread(overview, storage))["gateways"]


async def test_an_agent_moves_only_where_its_settings_are(url: str, members: tuple[Member, Member]) -> None:
    one, _ = members
    await one.round()
    storage = StorageSettings.model_validate({"url": url, "schemaName": "public"})
    connection = await connected(url)
    [(secret,)] = await (await connection.execute("SELECT secret FROM cluster_secret WHERE purpose = 'marks'")).fetchall()
    marks = marks_of(Settings.model_validate({"agents": {"list": [{"id": "1"}]}}), str(secret).encode())
    await connection.execute("INSERT INTO cluster_settings (gateway, keys) VALUES ('one', %s)", (json.dumps(marks),))
    await connection.close()
    assert await asyncio.to_thread(move, storage, "1", "one") == ["agent:1"]
    with pytest.raises(UsageError, match="the settings of the gateway one have no agent '2'"):
        await asyncio.to_thread(move, storage, "2", "one")


async def test_a_gateway_that_cannot_work_gives_up_all_while_another_works(url: str, members: tuple[Member, Member]) -> None:
    one, other = members
    storage = StorageSettings.model_validate({"url": url, "schemaName": "public"})

    async def states() -> dict[str, str]:
        return {each["gateway"]: each["state"] for each in (await asyncio.to_thread(overview, storage))["gateways"]}

    await settled(one, other)
    one.table.resting = "its disk is full"
    await settled(one, other)
    assert (len(one.held), len(other.held)) == (0, 6)
    assert await states() == {"one": "resting", "other": "working"}
    with pytest.raises(UsageError, match="the gateway one rests, and takes nothing: its disk is full"):
        await asyncio.to_thread(move, storage, "0", "one")
    other.table.resting = "it crashed"
    await settled(one, other)
    assert (len(one.held), len(other.held)) == (0, 6), "nobody could do better"
    assert await states() == {"one": "resting", "other": "paused"}
    one.table.resting = ""
    await settled(one, other)
    assert (len(one.held), len(other.held)) == (6, 0)
    other.table.resting = ""
    await settled(one, other)
    assert len(one.held) == len(other.held) == 3


async def test_one_that_starts_and_cannot_work_takes_nothing_unless_it_is_alone(members: tuple[Member, Member]) -> None:
    one, other = members
    one.table.resting = other.table.resting = "its disk is full"
    await one.round()
    assert len(one.held) == 6, "it keeps what is said"
    one.table.resting = ""
    await one.round()
    for _ in range(4):
        await other.round()
        await one.round()
        assert (len(one.held), len(other.held)) == (6, 0)


async def test_what_no_other_gateway_knows_stays_with_one_that_cannot_work(url: str, members: tuple[Member, Member]) -> None:
    one, other = members
    one.table.cells = (("agent:0", "agent:1"), *((f"agent:{number}",) for number in range(2, 6)))
    await one.round()
    other.table.cells = tuple((f"agent:{number}",) for number in range(1, 6))
    connection = await connected(url)
    told = "INSERT INTO cluster_settings (gateway, keys, cells) VALUES ('other', '{}', %s)"
    await connection.execute(told, (json.dumps(other.table.cells),))
    await connection.close()
    one.table.resting = "its disk is full"
    await settled(one, other)
    await settled(one, other)
    assert one.held == {"agent:0", "agent:1"}, "what belongs together stays together"
    assert other.held == {f"agent:{number}" for number in range(2, 6)}


async def _told_cells(url: str, gateway: str, *cells: tuple[str, ...]) -> None:
    connection = await connected(url)
    query = "INSERT INTO cluster_settings (gateway, keys, cells) VALUES (%s, '{}', %s)"
    await connection.execute(query, (gateway, json.dumps(cells)))
    await connection.close()


async def test_an_agent_moves_only_where_the_settings_have_its_accounts(url: str, members: tuple[Member, Member]) -> None:
    one, other = members
    bot = ("account:telegram:main", "agent:main")
    await one.store.add(bot)
    await one.round()
    await other.round()
    storage = StorageSettings.model_validate({"url": url, "schemaName": "public"})
    await _told_cells(url, "one", bot)
    await _told_cells(url, "other", ("agent:main",))
    assert await asyncio.to_thread(move, storage, "main", "one") == ["agent:main"]
    with pytest.raises(UsageError, match="gateway other lack what belongs with agent 'main': telegram:main"):
        await asyncio.to_thread(move, storage, "main", "other")


async def test_an_account_that_nobody_holds_is_named_with_who_lacks_it(url: str, members: tuple[Member, Member]) -> None:
    one, other = members
    bot = ("account:telegram:main", "agent:main")
    await one.store.add(bot)
    one.table.cells, other.table.cells = (("agent:main",),), ()
    await one.round()
    await other.round()
    await _told_cells(url, "one", ("agent:main",))
    await _told_cells(url, "other", bot)
    storage = StorageSettings.model_validate({"url": url, "schemaName": "public"})
    assert (await asyncio.to_thread(overview, storage))["notConnected"] == [], "a handover may take some seconds"
    await _later(url, 11)
    [told] = (await asyncio.to_thread(overview, storage))["notConnected"]
    assert told == {"account": "telegram:main", "agents": ["main"], "known": ["other"], "lacking": ["one"]}


async def _later(url: str, seconds: float) -> None:
    """Have what is free be so for longer."""
    connection = await connected(url)
    query = "UPDATE pgmq.q_public_lease SET vt = vt - make_interval(secs => %s) WHERE vt <= clock_timestamp()"
    await connection.execute(query, (seconds,))
    await connection.close()


async def test_a_cell_part_of_which_nobody_holds_for_long_goes_to_who_knows_it_whole(
    url: str, members: tuple[Member, Member]
) -> None:
    one, other = members
    bot = ("account:telegram:main", "agent:main")
    await one.store.add(bot)
    one.table = LeaseTable("one", 1.0, cells=(("agent:main",),))
    other.table = LeaseTable("other", 1.0, cells=(bot,))
    await one.round()
    assert one.held == {"agent:main"}
    began = time.monotonic()
    while other.held != set(bot):
        for member in (other, one):
            await member.round()
        assert time.monotonic() - began < PATIENCE
        await asyncio.sleep(0.2)
    assert time.monotonic() - began > 2.0, "settings that are being changed come first"
    assert one.held == set()
    connection = await connected(url)
    assert await (await connection.execute("SELECT * FROM cluster_wish")).fetchall() == []
    await connection.execute("INSERT INTO cluster_wish VALUES ('agent:1', 'other')")
    await other.round()
    assert await (await connection.execute("SELECT * FROM cluster_wish")).fetchall() == [], "its settings do not have it"
    await connection.close()


async def test_a_former_holder_is_fenced_off(url: str, members: tuple[Member, Member]) -> None:
    one, other = members
    one.table.seconds = 2
    await one.round()
    lease = one.lease("agent:0")
    assert await fenced(url, lease)
    await asyncio.sleep(2.1)  # it was stopped, and another came
    await other.round()
    assert len(other.held) == 6
    assert not await fenced(url, lease)
    assert other.lease("agent:0").fence > lease.fence
    assert "agent:0" in await one.round(), "it hears of it"


async def test_a_token_goes_where_it_is_wanted(url: str, members: tuple[Member, Member]) -> None:
    one, other = members
    await settled(one, other)
    moving = min(one.held)
    connection = await connected(url)
    await connection.execute("INSERT INTO cluster_wish VALUES (%s, 'other')", (moving,))
    await settled(one, other)
    assert moving in other.held
    assert await (await connection.execute("SELECT count(*) FROM cluster_wish")).fetchone() == (0,)
    await connection.close()


async def test_a_token_that_is_made_again_has_a_higher_fence(members: tuple[Member, Member]) -> None:
    one, _ = members
    await one.round()
    former = one.lease("agent:0")
    await one.store.remove({former.token: former.fence})
    assert "agent:0" in await one.round()
    await one.store.add(["agent:0"])
    await settled(one)
    assert one.lease("agent:0").fence > former.fence


async def test_a_server_that_is_away_says_so_and_the_next_round_connects_again(
    server: Server, members: tuple[Member, Member]
) -> None:
    one, _ = members
    await one.round()
    server.stop()
    try:
        with pytest.raises(StorageFailed, match="leases could not be asked for"):
            await one.round()
    finally:
        server.start()
    await one.round()
    assert len(one.held) == 6


async def test_preparing_again_locks_nothing_that_others_use(url: str, members: tuple[Member, Member]) -> None:
    """A gateway that starts must not wait crosswise with one that works."""
    one, _ = members
    await one.round()
    connection, other = await connected(url), await connected(url)
    async with connection.transaction():
        await connection.execute("SELECT token, fence FROM cluster_token")
        await connection.execute("SELECT pgmq.set_vt('public_lease', ARRAY[1]::bigint[], 5)")
        await asyncio.wait_for(prepare(other, "public"), 20)
    for used in (connection, other):
        await used.close()


async def test_tokens_that_no_settings_name_are_forgotten_once_nobody_holds_them(
    members: tuple[Member, Member], url: str
) -> None:
    one, other = members
    one.table.cells = (("agent:0",), ("agent:1",))
    await settled(one)
    assert one.held == {"agent:0", "agent:1"}
    other.store.member = postgres_leases.Member("other", "other", settings="others")
    await other.round()
    kept = await one.store.retire(["agent:0"])
    assert kept == 5, "the other gateway has other settings"
    other.store.member = postgres_leases.Member("other", "other")
    await other.round()
    assert await one.store.retire(["agent:0", "agent:1"]) >= 0
    connection = await connected(url)
    rows = await (await connection.execute("SELECT token FROM cluster_token ORDER BY token")).fetchall()
    await connection.close()
    held = {lease for member in members for lease in member.held}
    assert {row[0] for row in rows} == {"agent:0", "agent:1", *held}
