"""Power is lost in the midst of work: what was not synced is gone, and still nothing is lost, doubled or done twice.

Each oracle is shown to bite: a disk that does nothing when the ledger or a transcript is synced stands for a house that never asks.
"""

from __future__ import annotations

import random
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.fire.loop import seed_of_the_day
from tests.fire.power import Disk
from tests.fire.scenarios import SCENARIOS, Verdict, judge
from tests.fire.world import Kill, Nursery, World
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("traced")


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    async with Nursery.opened() as nursery:
        yield nursery


async def outage(folder: Path, nursery: Nursery, name: str, kill: str, *, broken: str = "", **disk: Any) -> Verdict:
    """Let power fail at one place, start again, and judge. ``broken`` is a sabotage of the lives after that."""
    scenario = SCENARIOS[name]
    beforehand = [f"heard {text.split()[-1]}" for text in ("hello there", *scenario.youth)]
    scenario = replace(scenario, besides=(*scenario.besides, *beforehand))
    async with World(folder / "house", nursery, settings=scenario.settings) as world:
        world.files = scenario.files
        life = await world.start()  # what a first life left is on the disk; one that ends in order leaves nothing to be noted
        for text in ("hello there", *scenario.youth):
            await world.say(text)
            assert await world.quiet(life)
        await life.end(signal.SIGKILL if scenario.youth else signal.SIGTERM)
        before = Disk(world.root / "state", world.root / "person", **disk)
        await world.say(*scenario.says)
        life = await world.start(Kill.parse(kill), recorded=True)
        await world.quiet(life)
        await life.end()
        before.play((folder / "house.record").read_text())
        before.put()
        life = await world.start(broken=broken)
        assert await world.quiet(life)
        await life.end()
        await world.live()
        return await judge(scenario, world)


def of_a_note(path: str) -> bool:
    return "/person/homebody/memory/" in path


def of_a_file(path: str) -> bool:
    return "/person/homebody/inbox/" in path


def of_a_deed(path: str) -> bool:
    return "/person/homebody/" in path


def of_the_ledger(path: str) -> bool:
    return "ledger.sqlite" in path


def of_a_transcript(path: str) -> bool:
    return path.endswith(".jsonl") and "/sessions/" in path


PLACES = [
    f"after-{step}:{n}"
    for step, most in {"accept": 2, "claim": 2, "transcript": 6, "finish": 2, "sent": 2}.items()
    for n in range(1, most)
]
DRAWN = [*zip(random.Random(seed_of_the_day()).sample(PLACES, 3), (0.0, 0.6, 0.6), strict=True)]


@parametrize_some(1, ("kill", "torn"), DRAWN)
async def test_what_was_promised_survives_a_loss_of_power(tmp_path: Path, nursery: Nursery, kill: str, torn: float) -> None:
    verdict = await outage(tmp_path, nursery, "three with effects", kill, torn=torn)
    assert not verdict.problems, (kill, verdict.told)


IN_THE_WORKSPACE = [(name, place) for name in ("reset", "a file") for place in PLACES]
"""A fresh start, whose flush writes what was said into the day's note, and a file that is taken in: where power fails meanwhile."""


@parametrize_some(1, ("name", "kill"), random.Random(seed_of_the_day()).sample(IN_THE_WORKSPACE, 2))
async def test_what_was_confirmed_in_the_workspace_survives_a_loss_of_power(
    tmp_path: Path, nursery: Nursery, name: str, kill: str
) -> None:
    verdict = await outage(tmp_path, nursery, name, kill)
    assert not verdict.problems, (name, kill, verdict.told)


@parametrize_some(
    1,
    ("name", "ignored", "found"),
    [
        ("three with effects", of_a_deed, "effect lost"),
        ("reset", of_a_note, "memory lost"),
        ("a file", of_a_file, "file"),
    ],
)
async def test_a_workspace_that_is_not_synced_is_seen(
    tmp_path: Path, nursery: Nursery, name: str, ignored: Callable[[str], bool], found: str
) -> None:
    verdict = await outage(tmp_path, nursery, name, "after-sent:1", ignored=ignored)
    assert found in verdict.problems, verdict


@parametrize_some(
    1,
    ("ignored", "found", "kills"),
    [
        (of_a_transcript, "transcript", ("after-finish:1",)),
        (of_the_ledger, "lost", ("before-sending:1", "before-finish:1", "before-sending:1")),
    ],
)
async def test_a_house_that_does_not_sync_is_seen(
    tmp_path: Path, nursery: Nursery, ignored: Callable[[str], bool], found: str, kills: tuple[str, ...]
) -> None:
    for number, kill in enumerate(kills):  # a message that Telegram had not seen confirmed yet is offered again, and not lost
        (tmp_path / str(number)).mkdir()
        verdict = await outage(tmp_path / str(number), nursery, "one message", kill, ignored=ignored)
        if found in verdict.problems:
            return
    pytest.fail(f"nothing was found: {verdict}")


async def test_a_torn_tail_that_is_appended_to_is_seen(tmp_path: Path, nursery: Nursery) -> None:
    verdict = await outage(
        tmp_path, nursery, "one message", "before-finish:1", ignored=of_a_transcript, torn=0.6, broken="torn tail appended to"
    )
    assert "transcript" in verdict.problems, verdict
