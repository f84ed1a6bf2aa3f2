"""The gateway is killed at system calls and named places drawn by a seed (HOMEBODY_FIRE_SEED); ``make fire`` kills it at every one.

Without strace only the named places are tried, and the header of the test run says so; where CI=true that is a failure.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from gateway.turns.interrupted import MAX_ATTEMPTS
from tests.fire.loop import CALLS, PLACES, burn, sample
from tests.fire.scenarios import SCENARIOS
from tests.fire.world import Kill, missing_tools
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from tests.fire.loop import Fire

SEED = int(os.environ.get("HOMEBODY_FIRE_SEED", "20260301"))
KILLS, DRAWS = 2, 10
TRIED = [
    "three with effects",
    "again and again",
    "asked and approved",
    *random.Random(SEED).sample([name for name, one in SCENARIOS.items() if one.platform != "telegram"], 2),
]
"""A few: `make fire` tries all, and .ci/run draws from each as often as from any other."""


@parametrize_some(2, "name", TRIED)
async def test_nothing_is_lost_said_twice_or_done_twice_wherever_the_house_is_killed(fire: Fire, name: str) -> None:
    scenario = SCENARIOS[name]
    await fire.grow([scenario])
    assert not await fire.run(scenario, (Kill("after-never", 1),)), "nothing kills an undisturbed house"
    drawn = sample(random.Random(f"{SEED} {name}"), [scenario], calls="strace" not in missing_tools())
    for _ in range(DRAWS):  # some fall behind the end, and hit nobody
        if fire.rows[name].kills < KILLS:
            await burn((fire.run(*next(drawn)) for _ in range(2)), 2)
    assert fire.failures == [], f"seed {SEED}"
    assert fire.rows[name].kills >= KILLS


@parametrize_some(
    3,
    "place",
    ["before-accept", "after-accept", "after-claim", "before-transcript", "before-finish", "after-sending", "before-sent"],
)
async def test_a_named_place_kills_the_process_and_the_next_one_goes_on(fire: Fire, place: str) -> None:
    assert await fire.run(SCENARIOS["one message"], (Kill(place, 1),)), f"{place} was never reached"
    assert fire.failures == []


@given(
    kill=st.builds(
        Kill,
        st.sampled_from((*CALLS, *PLACES)),
        st.integers(1, 99),
        st.none() | st.tuples(st.sampled_from(("model", "telegram")), st.integers(1, 9)),
    )
)
def test_the_command_that_repeats_a_run_names_the_same_kill(kill: Kill) -> None:
    assert Kill.parse(str(kill)) == kill


def test_the_environment_names_the_place_at_which_the_process_dies() -> None:
    code = (
        "from agent.fault_injection import point\nfor step in 'ab':\n point('before', step); point('after', step)\n"
        " print(step, flush=True)"
    )

    def said(place: str) -> tuple[int, bytes]:
        ran = subprocess.run([sys.executable, "-c", code], env={"HOMEBODY_FAULT": place}, check=False, capture_output=True)
        return ran.returncode, ran.stdout

    assert said("after-b:1") == (-signal.SIGKILL, b"a\n")
    assert said("before-b:2") == said("") == (0, b"a\nb\n")


@parametrize_some(1, "name", ["steered", "answered together"])
async def test_messages_of_a_turn_that_is_given_up_are_each_named_or_answered(fire: Fire, name: str) -> None:
    scenario = SCENARIOS[name]
    assert await fire.run(scenario, tuple(Kill("before-finish", 1) for _ in range(MAX_ATTEMPTS)))
    assert fire.failures == []
    assert fire.rows[name].verdict.given_up, "it was tried as often as a turn may be"


@parametrize_some(
    1, ("name", "place"), [("answered together", "before-transcript"), ("steered by webhook", "before-settle_call")]
)
async def test_what_is_said_while_a_gateway_closes_is_answered_by_the_next_one(fire: Fire, name: str, place: str) -> None:
    scenario = SCENARIOS[name]  # the model is asked the second time by the notes that are taken at closing
    assert await fire.run(scenario, tuple(Kill(place, 1) for _ in range(MAX_ATTEMPTS)))
    assert fire.failures == []
    assert fire.rows[name].verdict.given_up
