"""The ledger's file: nobody but SQLite opens it, and one that cannot be opened silences nobody."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import apsw
import pytest

from gateway.base.clock import ManualClock
from gateway.base.errors import StorageFailed
from gateway.ledger.schema import APPLICATION_ID, STEPS
from gateway.ledger.sqlite import SqliteLedger
from tests.fire.world import STATE, Kill, Life, Nursery, World, missing_tools
from tests.full_disk import no_file_may_grow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def a_folder(path: Path) -> None:
    path.unlink()
    (path / "within").mkdir(parents=True)


def tables_missing(path: Path) -> None:
    with apsw.Connection(str(path)) as db:
        db.execute("PRAGMA foreign_keys = OFF; DROP TABLE outbox")
    db.close()


def begun_by_nobody_knows_whom(path: Path) -> None:
    path.unlink()
    with apsw.Connection(str(path)) as db:
        db.execute(f"CREATE TABLE inbox (id); PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {len(STEPS) - 1}")
    db.close()


@pytest.mark.parametrize("harm", [a_folder, tables_missing, begun_by_nobody_knows_whom])
async def test_a_ledger_that_cannot_be_opened_is_set_aside_and_told(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    path = tmp_path / "ledger.sqlite"
    await (await SqliteLedger.open(path, ManualClock(NOON))).close()
    harm(path)
    ledger = await SqliteLedger.open(path, ManualClock(NOON))
    assert ledger.warning is not None
    assert "ledger.sqlite.bad-20260301T120000Z" in ledger.warning
    assert (tmp_path / "ledger.sqlite.bad-20260301T120000Z").exists()
    assert (await ledger.tally()).waiting == 0
    await ledger.close()


async def test_a_ledger_of_a_later_version_is_left_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    await (await SqliteLedger.open(path, ManualClock(NOON))).close()
    with apsw.Connection(str(path)) as db:
        db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    db.close()
    with pytest.raises(StorageFailed, match="version"):
        await SqliteLedger.open(path, ManualClock(NOON))
    assert path.exists()
    assert not aside(tmp_path)


async def test_where_no_new_ledger_can_be_made_the_old_one_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"rubbish" * 1000)
    with no_file_may_grow(), pytest.raises(StorageFailed):
        await SqliteLedger.open(path, ManualClock(NOON))
    assert path.read_bytes() == b"rubbish" * 1000
    assert not aside(tmp_path)


def aside(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if ".bad-" in path.name]


@pytest.mark.skipif(bool(missing_tools()), reason="strace watches the calls")
async def test_the_ledger_is_opened_once_by_sqlite_and_by_nobody_else(tmp_path: Path) -> None:
    """A second handle, once closed, would drop SQLite's locks, and commits could vanish."""
    async with Nursery.opened() as nursery, World(tmp_path / "house", nursery) as world:
        await world.say("tell me apple")
        assert not await world.live()
        pid = await nursery.spawn(world.root)
        calls = tmp_path / "opened"
        strace = await asyncio.create_subprocess_exec(
            *("strace", "-f", "-e", "trace=open,openat,openat2", "-o", str(calls), "-p", str(pid)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert strace.stderr is not None
        assert b"attached" in await strace.stderr.readline()
        life = Life(pid)
        life.strace = strace
        nursery.go(pid)
        await world.say("tell me plum")
        assert await world.quiet(life)
        await life.end()
        opened = re.findall(r'"[^"]*/(ledger\.sqlite[^"]*)", [^)]*\) = \d', calls.read_text())
        assert opened.count("ledger.sqlite") == 1
        # its log may be read: SQLite locks the file itself alone
        others = {name for name in opened if not name.startswith("ledger.sqlite.copy")}
        assert others <= {"ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-open"}


@pytest.mark.skipif("Linux with pidfd" in missing_tools(), reason="gateways are forked and watched as Linux does it")
@pytest.mark.parametrize("damage", ["flip", "zeros", "cut", "the file is gone"])
async def test_damage_in_the_log_of_a_killed_house_is_told_and_nothing_is_said_again(tmp_path: Path, damage: str) -> None:
    """Judged by what the person sees: each answer once, and a word of it where the message that was in flight is not answered."""
    async with Nursery.opened() as nursery, World(tmp_path / "house", nursery) as world:
        await world.say("tell me apple", "tell me pear")
        life = await world.start(Kill("before-finish", 3))
        assert await world.quiet(life)
        await world.say("tell me plum")
        assert not await world.quiet(life)
        file = world.root / STATE / "ledger.sqlite"
        log = file.with_name("ledger.sqlite-wal")
        data = bytearray(log.read_bytes())
        middle = len(data) * 6 // 10
        if damage == "flip":
            data[middle] ^= 4
        elif damage == "zeros":
            data[middle : middle + 4096] = bytes(4096)
        elif damage == "cut":
            del data[middle:]
        else:
            file.unlink()
        log.write_bytes(data)
        assert not await world.live()
        said = world.said()
        assert [text for text in said if text.startswith("heard")][:2] == ["heard apple", "heard pear"]
        assert sum("heard apple" in text for text in said) == sum("heard pear" in text for text in said) == 1
        assert any("ledger of messages could not be used" in text for text in said), said
        assert any("homebody inbox missed" in text for text in said) or "heard plum" in said or damage in {"cut", "zeros"}, said
