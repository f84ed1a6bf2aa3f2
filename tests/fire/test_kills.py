"""The gateway is killed at system calls drawn by a seed (HOMEBODY_FIRE_SEED); ``make fire`` kills it at every one."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.fire.loop import burn, sample
from tests.fire.scenarios import SCENARIOS
from tests.fire.world import Kill

if TYPE_CHECKING:
    from tests.fire.loop import Fire

SEED = int(os.environ.get("HOMEBODY_FIRE_SEED", "20260301"))
RUNS = 4


@pytest.mark.timeout(300)  # a run takes a second on an idle machine, and several on a busy one
@pytest.mark.parametrize("name", SCENARIOS)
async def test_nothing_is_lost_said_twice_or_done_twice_wherever_the_house_is_killed(fire: Fire, name: str) -> None:
    scenario = SCENARIOS[name]
    await fire.grow([scenario])
    assert not await fire.run(scenario, (Kill("fdatasync", 9999),)), "nothing kills an undisturbed house"
    drawn = sample(random.Random(f"{SEED} {name}"), [scenario])
    await burn((fire.run(*next(drawn)) for _ in range(RUNS)), 2)
    assert fire.failures == [], f"seed {SEED}"
    assert fire.rows[name].kills > 0
