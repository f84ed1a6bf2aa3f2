"""A disk that is full, broken or closed to us: nothing that was taken is lost, the owner is told, and all goes on by itself."""

from __future__ import annotations

import contextlib
import random
import subprocess
from typing import TYPE_CHECKING

import pytest

from agent.messages import AssistantMessage, Text
from gateway.api import api_client
from tests.fire.loop import disk_faults
from tests.fire.scenarios import SCENARIOS
from tests.fire.test_kills import SEED
from tests.fire.world import STATE, Nursery, World, missing_tools
from tests.full_disk import no_file_may_grow
from tests.gateway.conftest import Street
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fire.loop import Fire

FORKED = pytest.mark.skipif("Linux with pidfd" in missing_tools(), reason="gateways are forked and watched as Linux does it")


def answer(text: str) -> AssistantMessage:
    return AssistantMessage(content=(Text(text=text),), model="scripted/model", stop="end")


async def test_a_message_that_the_disk_stopped_is_answered_once_there_is_room_again(tmp_path: Path) -> None:
    street = Street(tmp_path, {})
    street.model.then(answer("one"), answer("two"), answer("three"))
    async with street.house() as (house, talk):
        await talk.ask("first")
        house.lanes.pause()
        keys = [await talk.send(text) for text in ("second", "third")]
        await talk.ask("/status")
        with no_file_may_grow():
            house.lanes.resume()
            await talk.until(lambda: house.pause.causes)
        assert len(street.model.requests) == 1
        street.clock.move(6)
        facts = [await talk.facts(key) for key in keys]
        assert [fact["reply"] for fact in facts] == ["two", "three"], "in their order"
        assert not house.pause.causes


@FORKED
@parametrize_some(1, "name", ["three with effects", "one message"])
async def test_nothing_is_lost_whichever_writes_are_refused_for_a_while(fire: Fire, traced: None, name: str) -> None:
    scenario = SCENARIOS[name]
    await fire.grow([scenario])
    drawn = disk_faults(random.Random(f"{SEED} {name}"), [scenario])
    for _ in range(3):
        await fire.run(*next(drawn))
    assert fire.failures == [], f"seed {SEED}"
    assert fire.rows[name].kills > 0


@FORKED
async def test_a_state_that_may_not_be_written_is_refused_with_what_mends_it(tmp_path: Path) -> None:
    async with Nursery.opened() as nursery, World(tmp_path / "house", nursery) as world:
        await world.say("tell me apple")
        assert not await world.live()
        folders = [world.root / STATE, *(world.root / "state").rglob("sessions")]
        for folder in folders:
            for path in (*folder.iterdir(), folder):
                path.chmod(0o500 if path.is_dir() else 0o400)
        await world.say("tell me plum")
        life = await world.start(bound=True)  # permissions do not bind root, so it gives its privileges up
        assert await life.until_over(30)
        log = (world.root / "log").read_text()
        assert f"chmod u+rwx {world.root / STATE}" in log
        for folder in folders:
            for path in (folder, *folder.iterdir()):
                path.chmod(0o700 if path.is_dir() else 0o600)
        assert not await world.live()
        assert world.said() == ["heard apple", "heard plum"]


@FORKED
async def test_a_ledger_that_may_only_be_read_is_made_writable_where_it_is_ours(tmp_path: Path) -> None:
    async with Nursery.opened() as nursery, World(tmp_path / "house", nursery) as world:
        await world.say("tell me apple")
        assert not await world.live()
        (world.root / STATE / "ledger.sqlite").chmod(0o400)
        await world.say("tell me plum")
        life = await world.start(bound=True)
        assert await world.quiet(life)
        await life.end()
        assert world.said() == ["heard apple", "heard plum"]


@FORKED
async def test_a_full_disk_keeps_nothing_from_going_on_once_there_is_room(tmp_path: Path) -> None:
    """On a small file system of its own, filled to the last byte while the model is asked."""
    state = tmp_path / "house" / "state"
    async with Nursery.opened() as nursery, World(tmp_path / "house", nursery) as world:
        if not mounted(state):
            pytest.skip("a small file system cannot be mounted here")
        try:
            world.furnish()
            await full_and_free_again(world, state / "filler")
        finally:
            unmount(state)


@FORKED
async def test_a_full_disk_of_the_workspace_alone_leaves_replies_and_is_told_everywhere(tmp_path: Path) -> None:
    workspace = tmp_path / "house" / "person" / "homebody"
    async with Nursery.opened() as nursery, World(tmp_path / "house", nursery) as world:
        assert not await world.live()
        if not mounted(workspace, "10m"):
            pytest.skip("a small file system cannot be mounted here")
        try:
            fill_up(workspace / "filler")
            life = await world.start()
            await world.say("tell me apple")
            assert await world.quiet(life)
            status = await api_client.ask(world.root / STATE, "status")
            assert (status["paused"], [text for text in status["notices"] if "No space is left" in text]) == (
                [],
                [next(text.removeprefix("💾 ") for text in world.said() if text.startswith("💾"))],
            )
            assert f"No space is left on the disk of {workspace} (0 MB). I go on answering" in status["notices"][0]
            assert "not kept (notes and files of main)" in status["notices"][0]
            assert "heard apple" in world.said()
            await life.end()
        finally:
            unmount(workspace)


async def full_and_free_again(world: World, filler: Path) -> None:
    await world.say("tell me apple")
    assert not await world.live()
    life = await world.start()

    async def fill(peer: str, _count: int) -> None:
        if peer == "model":
            fill_up(filler)

    world.model.watcher = fill
    await world.say("tell me plum")
    status = await world.until_paused()
    assert "go on by myself" in status["paused"][0]
    await world.say("tell me pear")
    world.model.watcher = None
    make_room(filler)
    assert await world.quiet(life)
    await life.end()
    said = [text for text in world.said() if not text.startswith(("⚠️", "💾"))]
    assert said == ["heard apple", "heard plum", "heard pear"]
    assert any("I can write again" in text for text in world.said())


def fill_up(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        for size in (1024 * 1024, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass


def make_room(filler: Path) -> None:
    filler.unlink()


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], check=True)


def mounted(folder: Path, size: str = "210m") -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(folder)]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False
