"""Power is lost in the midst of work: what was not synced is gone, and still nothing is lost, doubled or done twice.

Each oracle is shown to bite: a disk that does nothing when the ledger or a transcript is synced stands for a house that never asks.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.fire.loop import seed_of_the_day
from tests.fire.power import Disk
from tests.fire.scenarios import SCENARIOS, Verdict, judge
from tests.fire.world import Kill, Nursery, World

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
    scenario = replace(SCENARIOS[name], besides=(*SCENARIOS[name].besides, "heard there"))
    async with World(folder / "house", nursery, settings=scenario.settings) as world:
        await world.say("hello there")
        life = await world.start()  # a first life that ends in order: what it left is on the disk
        assert await world.quiet(life)
        await life.end()
        before = Disk(world.root / "state", **disk)
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


def of_the_ledger(path: str) -> bool:
    return "ledger.sqlite" in path


def of_a_transcript(path: str) -> bool:
    return path.endswith(".jsonl") and "/sessions/" in path


PLACES = [
    f"after-{step}:{n}"
    for step, most in {"accept": 2, "claim": 2, "transcript": 6, "finish": 2, "sent": 2}.items()
    for n in range(1, most)
]
DRAWN = random.Random(seed_of_the_day()).sample(PLACES, 3)


@pytest.mark.parametrize("kill", DRAWN)
@pytest.mark.parametrize("torn", [0.0, 0.6])
async def test_what_was_promised_survives_a_loss_of_power(tmp_path: Path, nursery: Nursery, kill: str, torn: float) -> None:
    verdict = await outage(tmp_path, nursery, "three with effects", kill, torn=torn)
    assert not verdict.problems, (kill, verdict.told)


@pytest.mark.parametrize(
    ("ignored", "found", "kills"),
    [
        (of_the_ledger, "lost", ("before-sending:1", "before-finish:1", "before-sending:1")),
        (of_a_transcript, "transcript", ("after-finish:1",)),
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
