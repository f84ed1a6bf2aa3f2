"""The gateway is killed while it talks on a real homeserver, at places drawn by HOMEBODY_FIRE_SEED (hundreds: ``make matrix-kills``)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.fire.loop import Fire, burn, sample, seed_of_the_day
from tests.fire.scenarios import SCENARIOS
from tests.fire.world import Nursery, missing_tools
from tests.matrix import house

if TYPE_CHECKING:
    from pathlib import Path

    from tests.matrix.synapse import Synapse

KILLS, DRAWS = 2, 8


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["three with effects by Synapse", "three with effects by Synapse, encrypted"])
async def test_nothing_is_lost_or_doubled_wherever_the_house_is_killed(name: str, homeserver: Synapse, tmp_path: Path) -> None:
    house.use(homeserver)
    seed = seed_of_the_day()
    drawn = sample(random.Random(f"{seed} {name}"), [SCENARIOS[name]], calls="strace" not in missing_tools())
    async with Nursery.opened() as nursery:
        fire = Fire(tmp_path, nursery, again="make matrix-kills")
        for _ in range(DRAWS):  # some fall behind the end, and hit nobody
            if fire.rows[name].kills < KILLS:
                await burn((fire.run(*next(drawn)) for _ in range(2)), 2)
    assert fire.failures == [], f"HOMEBODY_FIRE_SEED={seed}"
    assert fire.rows[name].kills >= KILLS
    assert fire.rows[name].verdict.marked == 0, "the homeserver takes a repeated send once"
