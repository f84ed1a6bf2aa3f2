"""What is judged of Discord, of files and of changed messages is shown to bite: one ordering is broken on purpose, and seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.fire.platforms import WatchedDiscord, WatchedSlack
from tests.fire.scenarios import SCENARIOS
from tests.fire.test_oracle import ForgetfulTelegram, meddling
from tests.fire.world import QUIET_SECONDS, Kill
from tests.peers.mood import Mood

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fire.loop import Fire

ON_DISCORD, CHANGED_ON_SLACK = "one message by Discord", "changed before the answer by Slack"
AHEAD = "UPDATE cursor SET value = json_object('700000000000000101', '4611686018427387904') WHERE name = 'read'"
"""The private channel was read to its end, and far beyond."""
UNSENT = "UPDATE outbox SET state = 'ready', doubts = 0, recorded = NULL WHERE state <> 'sent'"


class HastyDiscord(WatchedDiscord):
    patience = 1.5


class ForgetfulDiscord(HastyDiscord):
    """Compares and keeps no nonces: as if each attempt came some minutes after the last one."""

    async def changed(self) -> None:
        self.forget_nonces()
        for message in self._place.messages:
            message.pop("nonce", None)
        await super().changed()


TRIES = 3
"""Runs until a kill strikes: on a busy machine a change may come too late for the place it is meant for."""


async def told(fire: Fire, name: str, kill: str, *, youth: tuple[str, ...] = (), **broken: Any) -> tuple[set[str], str]:
    """Kill once; return the kinds of what is found wrong, and how it is told."""
    scenario = replace(SCENARIOS[name], youth=youth)
    await fire.grow([scenario])
    for _ in range(TRIES):
        before = len(fire.rows[name].failures)
        fire.rows[name].verdict.problems.clear()
        if await fire.run(scenario, (Kill.parse(kill),), **broken):
            return set(fire.rows[name].verdict.problems), "\n".join(fire.rows[name].failures[before:])
    raise AssertionError(f"{kill} was never reached in {TRIES} runs of {name!r}")


@pytest.mark.long
async def test_noting_how_far_was_read_before_storing_that_is_seen_as_a_loss_and_forgetting_a_send_as_a_double(
    fire: Fire,
) -> None:
    """For the double it takes nonces that were forgotten as well: either guard does alone."""
    broken: dict[str, Any] = {"platform": HastyDiscord, "between": meddling(AHEAD)}
    kinds, _ = await told(fire, ON_DISCORD, "before-accept:1", youth=("hello there",), **broken)
    assert kinds == {"lost", "transcript"}
    for broken in ({"platform": ForgetfulDiscord}, {"between": meddling(UNSENT)}):
        assert await told(fire, ON_DISCORD, "before-sent:1", **broken) == (set(), "")
    kinds, _ = await told(fire, ON_DISCORD, "before-sent:1", platform=ForgetfulDiscord, between=meddling(UNSENT))
    assert kinds == {"doubled"}


def in_the_inbox(change: Callable[[Path], Any]) -> Callable[[Path], None]:
    def meddle(root: Path) -> None:
        for path in (root / "person" / "homebody" / "inbox").iterdir():
            change(path)

    return meddle


async def test_a_file_that_is_written_in_place_or_named_anew_at_each_try_is_seen(fire: Fire) -> None:
    halve = in_the_inbox(lambda path: path.write_bytes(path.read_bytes()[:9]))
    kinds, _ = await told(fire, "a file", "before-transcript:1", between=halve)
    assert kinds == {"file", "lost", "strange"}, "it is kept, and neither whole nor answered as it was"
    rename = in_the_inbox(lambda path: path.rename(path.with_name(f"an-earlier-{path.name}")))
    kinds, words = await told(fire, "a file by Slack", "before-transcript:1", between=rename)
    assert kinds == {"file"}
    assert "an-earlier-" in words


class OrderlySlack(WatchedSlack):
    """Tells everything once and in order, and the next thing when this one was acknowledged.

    The model answers when all was told, so that what is said meanwhile still waits for its turn.
    """

    def __init__(self) -> None:
        super().__init__(mood=Mood(calm=True))

    async def emit(self, event: dict[str, Any]) -> None:
        await super().emit(event)
        await self.until(lambda: not self.waiting or not self.delivery.sockets, QUIET_SECONDS)  # else the house was killed


@pytest.mark.long
async def test_a_change_that_is_acknowledged_before_it_is_stored_or_both_answered_and_told_is_seen(fire: Fire) -> None:
    """A change is both answered and told when its message still waits, and its line is kept for the next message nevertheless."""
    kinds, words = await told(fire, "changed before the answer", "before-accept:2", platform=ForgetfulTelegram)
    assert kinds == {"lost", "order", "transcript"}
    assert "'heard peach' was never said" in words
    keep = "INSERT INTO aside (conversation, line, noted_at) SELECT conversation, '[edited: tell me peach]', received_at FROM inbox"
    between = meddling(f"{keep} LIMIT 1")
    _, words = await told(fire, CHANGED_ON_SLACK, "after-accept:3", platform=OrderlySlack, between=between)
    assert "'tell me peach' is in it 2 times" in words
