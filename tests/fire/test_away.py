"""What is said while no house is there, and two houses on one state: each oracle is shown to bite."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.fire.platforms import WatchedDiscord, WatchedSlack
from tests.fire.test_oracle import meddling
from tests.fire.world import STATE, Nursery, World, missing_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    "Linux with pidfd" in missing_tools(), reason="gateways are forked and watched as Linux does it"
)
NEVER_STORED = ("DELETE FROM cursor", "CREATE TRIGGER broken AFTER INSERT ON cursor BEGIN DELETE FROM cursor; END")


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    async with Nursery.opened() as nursery:
        yield nursery


async def heard_while_away(folder: Path, nursery: Nursery, platform: Any, *broken: str) -> list[str]:
    """Say something to a house, something more while it is gone, and return what the next one says."""
    async with World(folder / "house", nursery, platform=platform()) as world:
        await world.say("tell me apple")
        life = await world.start()
        assert await world.quiet(life)
        await life.end(signal.SIGKILL)
        meddling(*broken)(world.root)
        await world.say("tell me plum")
        await world.live()
        return world.said()


@pytest.mark.parametrize("platform", [WatchedDiscord, WatchedSlack])
async def test_what_is_said_while_no_house_is_there_is_answered_once(tmp_path: Path, nursery: Nursery, platform: Any) -> None:
    assert await heard_while_away(tmp_path, nursery, platform) == ["heard apple", "heard plum"]


async def test_a_reading_mark_that_is_never_stored_is_seen(tmp_path: Path, nursery: Nursery) -> None:
    """On Discord: Slack offers again by itself what nobody acknowledged, and Telegram keeps the mark itself."""
    assert await heard_while_away(tmp_path, nursery, WatchedDiscord, *NEVER_STORED) == ["heard apple"]


async def second(folder: Path, nursery: Nursery, **how: Any) -> str:
    """Start a house where one runs; return what it says at its end. The first one must go on as if nothing had been."""
    async with World(folder / "house", nursery) as world:
        await world.say("tell me apple")
        first = await world.start()
        assert await world.quiet(first)
        log = world.root / "log"
        before = log.stat().st_size
        rival = await world.start(**how)
        await rival.wait()
        told = log.read_text()[before:]
        await world.say("tell me plum")
        assert await world.quiet(first)
        await first.end()
        assert world.said() == ["heard apple", "heard plum"]
        assert (world.root / STATE / "ledger.sqlite").exists()
        return told


async def test_a_second_house_is_refused_by_the_lock_and_told_who_holds_it(tmp_path: Path, nursery: Nursery) -> None:
    assert "another Homebody process (" in await second(tmp_path, nursery)


async def test_a_lock_that_locks_nobody_out_is_seen(tmp_path: Path, nursery: Nursery) -> None:
    assert "another Homebody process" not in await second(tmp_path, nursery, broken="no state lock")
