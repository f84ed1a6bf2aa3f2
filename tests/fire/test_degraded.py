"""A damaged file never silences the house: it answers, sets the file aside, and says so in the chat and in its status."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from gateway.api import api_client
from tests.fire.world import STATE, STOP_SECONDS, Nursery, World, missing_tools
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SESSIONS = "state/agents/main/sessions"

pytestmark = [
    pytest.mark.skipif("Linux with pidfd" in missing_tools(), reason="gateways are forked and watched as Linux does it"),
]


@asynccontextmanager
async def grown(tmp_path: Path, **settings: Any) -> AsyncIterator[World]:
    """A house that has spoken with its owner, and stands still."""
    async with Nursery.opened() as nursery, World(tmp_path / "house", nursery, settings=settings) as world:
        await world.say("tell me apple")
        assert not await world.live()
        assert world.said() == ["heard apple"]
        yield world


async def answered(world: World) -> dict[str, Any]:
    """Start the house, say something, wait until all is said; return the status."""
    await world.say("tell me plum")
    life = await world.start()
    try:
        assert await world.quiet(life)
        return dict(await api_client.ask(world.root / STATE, "status"))
    finally:
        await life.end()


def rubbish(path: Path) -> None:
    assert path.exists(), sorted(path.parent.iterdir())
    path.write_bytes(b"\x00\xffrubbish{" * 4000)


async def test_a_damaged_ledger_is_set_aside_and_told(tmp_path: Path) -> None:
    async with grown(tmp_path) as world:
        rubbish(world.root / STATE / "ledger.sqlite")
        status = await answered(world)
        assert "heard plum" in world.said()
        assert any("ledger" in text and text.startswith("⚠️") for text in world.said())
        assert any("ledger" in notice for notice in status["notices"])
        assert list((world.root / STATE).glob("ledger.sqlite.bad-*"))


async def test_damaged_sessions_are_found_again_and_told(tmp_path: Path) -> None:
    async with grown(tmp_path) as world:
        for path in (world.root / SESSIONS).glob("sessions.json*"):
            path.write_bytes(b"\xff{rubbish\n")
        (world.root / SESSIONS / "sessions.json").write_bytes(b"\xff{rubbish\n")
        status = await answered(world)
        assert "heard plum" in world.said()
        assert any("was renamed to" in notice for notice in status["notices"])
        assert len(world.transcripts()) == 1, "the conversation goes on"


async def test_a_damaged_transcript_is_told_and_mended_by_one_command(tmp_path: Path) -> None:
    async with grown(tmp_path) as world:
        (path,) = world.transcripts()
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([lines[0], b'{"v":1,"rubbish\n', b"\xff\xfe\n", *lines[2:]]))
        status = await answered(world)
        assert "heard plum" in world.said()
        assert any("sessions repair agent:main:main" in text for text in world.said())
        assert any("cannot be read" in notice for notice in status["notices"])
        life = await world.start()
        assert await world.quiet(life)
        facts = await api_client.ask(world.root / STATE, "sessions.repair", key="agent:main:main")
        assert facts["bad"] == 2
        assert facts["kept"]
        await world.say("tell me pear")
        assert await world.quiet(life)
        assert (await api_client.ask(world.root / STATE, "sessions.repair", key="agent:main:main"))["bad"] == 0
        await life.end()
        assert "heard pear" in world.said()


async def test_a_damaged_index_of_the_memory_is_made_anew(tmp_path: Path) -> None:
    async with grown(tmp_path, agent={"memorySearch": {"enabled": True}}) as world:
        index = world.root / "state" / "memory" / "main.sqlite"
        rubbish(index)
        status = await answered(world)
        assert "heard plum" in world.said()
        assert index.read_bytes().startswith(b"SQLite format 3")
        assert any("index" in notice for notice in status["notices"]), status["notices"]


async def test_wrong_settings_are_told_and_the_last_good_ones_are_used(tmp_path: Path) -> None:
    async with grown(tmp_path) as world:
        (world.root / "state" / "homebody.json").write_text('{"gateway": {"port": "no port"}, ')
        status = await answered(world)
        assert "heard plum" in world.said()
        assert any("last good" in text for text in world.said())
        assert any("last good" in notice for notice in status["notices"])


async def test_stop_and_drain_keep_their_times(tmp_path: Path) -> None:
    async with grown(tmp_path) as world:
        held, asked = asyncio.Event(), asyncio.Event()

        async def hold(_peer: str, _count: int) -> None:
            asked.set()
            await held.wait()

        life = await world.start()
        world.model.watcher = hold
        await world.say("tell me plum")
        await asyncio.wait_for(asked.wait(), PATIENCE)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await world.say("/stop")
        await world.platform.until(lambda: any("Stopped" in text for text in world.said()))
        assert loop.time() - began < STOP_SECONDS
        asked.clear()
        await world.say("tell me pear")
        await asyncio.wait_for(asked.wait(), PATIENCE)
        began = loop.time()
        await life.end()
        assert loop.time() - began < STOP_SECONDS, "ten seconds, and the way of the signal; nobody had to kill it"
        held.set()
        world.model.watcher = None
        await world.live()
        assert sum("heard pear" in text for text in world.said()) == 1
