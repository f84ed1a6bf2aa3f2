"""A platform that nobody reaches for some seconds, from any of its sends on: everything is said in the end, and a double is marked.

HOMEBODY_FIRE_SEED draws the send, the seconds, and whether the send that was cut off had its effect.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from tests.fire.loop import STEADY, UNKILLED
from tests.fire.platforms import PLATFORMS, Outage
from tests.fire.scenarios import SCENARIOS

if TYPE_CHECKING:
    from tests.fire.loop import Fire
    from tests.fire.platforms import Platform

SEED = int(os.environ.get("HOMEBODY_FIRE_SEED", "20260301"))
SHORTEST, LONGEST = 1.0, 5.0
SHORT = {("telegram", "before"), ("discord", "after"), ("matrix", "after")}
"""Those of `make test`."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("platform", "cut"),
    [
        pytest.param(one, cut, marks=() if (one, cut) in SHORT else pytest.mark.long)
        for one in PLATFORMS
        if one not in STEADY
        for cut in ("before", "after")
    ],
)
async def test_nothing_is_lost_when_the_platform_is_away_for_seconds(
    fire: Fire, platform: str, cut: Literal["before", "after"]
) -> None:
    drawn = random.Random(f"{SEED} {platform} {cut}")
    outage = Outage(drawn.randint(1, 3), drawn.uniform(SHORTEST, LONGEST), cut)
    made: list[Platform] = []

    def away() -> Platform:
        made.append(PLATFORMS[platform]())
        made[-1].outage = outage
        return made[-1]

    await fire.run(replace(SCENARIOS["three with effects"], platform=platform), (UNKILLED,), platform=away)
    assert fire.failures == [], f"HOMEBODY_FIRE_SEED={SEED}: {outage}"
    assert [peer.outage for peer in made] == [None], "the outage came"
