"""A channel that fails begins anew with back-off and disturbs no other; what is told of it; its menu and its calls."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from channels.errors import ChannelBroken
from channels.platform import Policy
from gateway.base.clock import ManualClock
from gateway.commands.table import COMMANDS, MENU
from gateway.supervision.channel_supervisor import ChannelRunner
from gateway.supervision.platforms import BrokenChannel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.protocol import InboundSink, MenuEntry

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Shaky:
    """A channel whose ``run`` raises what it is told to, and then runs on."""

    raises: list[Exception] = field(default_factory=list)
    name: str = "telegram"
    account: str = "default"
    hooked: bool = True
    runs: int = 0
    closed: int = 0
    menus: list[Sequence[MenuEntry]] = field(default_factory=list)
    menu_fails: bool = False

    async def run(self, door: InboundSink) -> None:
        self.runs += 1
        if self.raises:
            raise self.raises.pop(0)
        await asyncio.get_running_loop().create_future()

    async def menu(self, entries: Sequence[MenuEntry]) -> None:
        self.menus.append(entries)
        if self.menu_fails:
            raise RuntimeError("no menu today")

    async def close(self) -> None:
        self.closed += 1


def keeper(channel: Any, clock: ManualClock) -> ChannelRunner:
    return ChannelRunner(channel, Policy(), None, clock, random.Random(1), menu=MENU)  # type: ignore[arg-type]


async def still() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_channel_that_dies_begins_anew_and_another_runs_on(caplog: Any) -> None:
    clock, dying, sound = ManualClock(NOON), Shaky([OSError("gone")] * 3), Shaky(name="slack")
    kept = keeper(dying, clock)
    tasks = [asyncio.create_task(one.run()) for one in (kept, keeper(sound, clock))]
    await still()
    assert (dying.runs, sound.runs) == (1, 1)
    assert kept.facts()["state"] == "restarting"
    assert "OSError: gone" in kept.facts()["trouble"]
    waited = []
    for runs in (2, 3, 4):
        seconds = 0
        while dying.runs < runs:
            clock.move(0.5)
            seconds += 0.5
            await still()
        waited.append(seconds)
    assert waited == sorted(waited)
    assert waited[-1] > 1.5, "each pause is longer than the one before"
    kept.alive()
    assert kept.facts() == {"state": "connected", "heard": clock.now().isoformat(timespec="seconds")}
    assert sound.runs == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (dying.closed, sound.closed) == (1, 1)


HINT = "get a new one. It reconnects within 5 minutes, or immediately with: homebody channels restart telegram:default"


async def test_a_broken_channel_says_what_mends_it_and_comes_back_when_that_was_done() -> None:
    channel, clock = Shaky([ChannelBroken("the token was revoked", hint="get a new one")] * 3), ManualClock(NOON)
    kept = keeper(channel, clock)
    task = asyncio.create_task(kept.run())
    await still()
    assert kept.facts() == {"state": "broken", "heard": None, "trouble": "the token was revoked", "mend": HINT}
    assert (kept.hook, kept.broken) == ("not running", True)
    for runs in (1, 2, 3):
        clock.move(299)
        await still()
        assert (channel.runs, kept.broken) == (runs, True)
        clock.move(1)
        await still()
    assert (channel.runs, kept.hook) == (4, channel)
    kept.alive()
    assert kept.facts()["state"] == "connected"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert channel.closed == 1


@pytest.mark.parametrize("how", ["off", "failing", "running"])
async def test_a_channel_begins_anew_at_once_when_its_owner_says_so(how: str) -> None:
    raises = {"off": [ChannelBroken("gone")], "failing": [OSError("gone")], "running": []}[how]
    channel = Shaky(list(raises))
    kept = keeper(channel, ManualClock(NOON))
    task = asyncio.create_task(kept.run())
    await still()
    assert channel.runs == 1
    kept.restart()
    await still()
    assert (channel.runs, channel.closed, kept.hook) == (2, 0, channel)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert channel.closed == 1


async def test_a_channel_that_is_not_there_is_not_tried_again() -> None:
    channel = BrokenChannel("carrier", "there is no such package", "install it, then start the gateway again")
    kept = keeper(channel, ManualClock(NOON))
    await kept.run()
    assert kept.facts()["mend"] == "install it, then start the gateway again"


async def test_a_channel_is_told_all_commands_once_and_may_fail_over_it() -> None:
    channel = Shaky([OSError("gone")], menu_fails=True)
    clock = ManualClock(NOON)
    task = asyncio.create_task(keeper(channel, clock).run())
    await still()
    clock.move(2)
    await still()
    assert channel.runs == 2
    (entries,) = channel.menus
    assert [entry.name for entry in entries] == list(COMMANDS)
    assert all(entry.help for entry in entries)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_channel_takes_calls_only_while_it_runs_and_wants_them() -> None:
    channel = Shaky()
    kept = keeper(channel, ManualClock(NOON))
    assert kept.hook == "not running"
    task = asyncio.create_task(kept.run())
    await still()
    assert kept.hook is channel
    channel.hooked = False
    assert kept.hook == "unknown"
    channel.hooked = True
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert kept.hook == "not running"


async def test_a_platform_that_gives_no_sign_of_life_is_shown_as_silent_until_it_does() -> None:
    clock, channel = ManualClock(NOON), Shaky()
    channel.silence = 100.0  # type: ignore[attr-defined]
    kept = keeper(channel, clock)
    clock.move(101)
    assert (kept.facts()["state"], kept.facts()["heard"]) == ("silent", None), "it never came up"
    kept.alive()
    heard = kept.facts()["heard"]
    clock.move(99)
    assert kept.facts() == {"state": "connected", "heard": heard}
    clock.move(2)
    assert (kept.facts()["state"], kept.facts()["heard"]) == ("silent", heard)
    assert "101 seconds" in kept.facts()["trouble"]
    assert "--probe" in kept.facts()["mend"]


async def test_a_platform_that_need_not_give_signs_of_life_is_not_called_silent() -> None:
    clock = ManualClock(NOON)
    kept = keeper(Shaky(), clock)
    kept.alive()
    clock.move(1e6)
    assert kept.facts()["state"] == "connected"


async def test_the_owner_is_told_elsewhere_that_a_channel_is_off() -> None:
    told: list[str] = []
    channel, clock = Shaky([ChannelBroken("the token was revoked", hint="get a new one")] * 2), ManualClock(NOON)
    kept = ChannelRunner(channel, Policy(), None, clock, random.Random(1), tell_owner=told.append)  # type: ignore[arg-type]
    task = asyncio.create_task(kept.run())
    await still()
    clock.move(300)
    await still()
    assert channel.runs == 2
    assert told == [f"⚠️ telegram:default is off: the token was revoked: {HINT}"], "once"
    assert kept.broken
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_is_wrong_with_a_channel_that_runs_is_told_beside_its_state() -> None:
    class Hindered(Shaky):
        trouble = "what was missed cannot be read yet"

    one = keeper(Hindered(), ManualClock(NOON))
    one.alive()
    assert (one.facts()["state"], one.facts()["trouble"]) == ("connected", "what was missed cannot be read yet")
    Hindered.trouble = ""
    assert "trouble" not in one.facts()
