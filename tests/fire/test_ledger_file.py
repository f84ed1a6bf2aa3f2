"""Nobody but SQLite opens the ledger's files: a second handle, once closed, would drop its locks, and commits could vanish."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from tests.fire.world import Life, Nursery, World, missing_tools

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(120)
@pytest.mark.skipif(bool(missing_tools()), reason="strace watches the calls")
async def test_the_ledger_is_opened_once_by_sqlite_and_by_nobody_else(tmp_path: Path) -> None:
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
        assert opened.count("ledger.sqlite-wal") <= 1
        assert set(opened) <= {"ledger.sqlite", "ledger.sqlite-wal"}
