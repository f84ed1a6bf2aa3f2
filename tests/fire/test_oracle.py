"""Each judgement is shown to bite: one ordering is broken on purpose, and it must be seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from tests.fire.platforms import CallingTelegram, WatchedSlack, WatchedTelegram
from tests.fire.scenarios import SCENARIOS
from tests.fire.world import STATE, Kill
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web

    from tests.fire.loop import Fire


class ForgetfulTelegram(WatchedTelegram):
    """Takes whatever it hands out for confirmed: as if the house confirmed before it stored.

    ``unconfirmed`` counts it until the next request all the same: a house that still stores it is not told to end.
    """

    _handed_out = 0

    async def _updates(self, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        self._handed_out = 0
        updates = await super()._updates(arguments)
        self._pending = []
        self._handed_out = len(updates)
        return updates

    @property
    def unconfirmed(self) -> int:
        return super().unconfirmed + self._handed_out


class ForgetfulCaller(CallingTelegram):
    """Calls once with each update, whatever comes of it: as if the house answered before it stored."""

    def first(self) -> dict[str, Any] | None:
        return self._pending.pop(0)

    async def taken(self, update: dict[str, Any]) -> None:
        """It was forgotten before."""


class ForgetfulSlack(WatchedSlack):
    """Does not offer again what it offered over a connection that broke: as if the house acknowledged before it stored."""

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        try:
            return await super()._link(request)
        finally:
            self.waiting.clear()


def meddling(*statements: str):
    def meddle(root: Path) -> None:
        db = apsw.Connection(str(root / STATE / "ledger.sqlite"))
        for statement in statements:
            db.execute(statement)
        db.close()

    return meddle


pytestmark = pytest.mark.usefixtures("traced")


async def found(fire: Fire, name: str, call: str, after: tuple[str, int] | None = None, **broken: Any) -> set[str]:
    """Kill at one call after the other until something is found wrong. The house has a ledger already, so the first ones count.

    What a house does at the same time is not done in the same order each time: where nothing was found, all are tried again.
    """
    scenario = replace(SCENARIOS[name], youth=("hello there",))
    await fire.grow([scenario])
    for _ in range(3):
        for when in range(1, 12):
            if not await fire.run(scenario, (Kill(call, when, after),), **broken):
                break
            if kinds := set(fire.rows[name].verdict.problems):
                return kinds
    return set()


async def test_confirming_before_storing_is_seen_as_a_loss(fire: Fire) -> None:
    assert "lost" in await found(fire, "one message", "before-accept", platform=ForgetfulTelegram)


async def test_answering_a_call_before_storing_is_seen_as_a_loss(fire: Fire) -> None:
    name = "one message by webhook"
    assert await fire.run(SCENARIOS[name], (Kill("before-accept", 1),), platform=ForgetfulCaller)
    assert fire.rows[name].verdict.problems.keys() == {"lost", "transcript"}


async def test_acknowledging_before_storing_is_seen_as_a_loss_on_slack(fire: Fire) -> None:
    assert await fire.run(SCENARIOS["one message by Slack"], (Kill("before-accept", 1),), platform=ForgetfulSlack)
    assert fire.rows["one message by Slack"].verdict.problems.keys() == {"lost", "transcript"}


async def test_forgetting_that_a_send_was_begun_is_seen_as_a_double(fire: Fire) -> None:
    forget = meddling("UPDATE outbox SET state = 'ready', doubts = 0, recorded = NULL WHERE state <> 'sent'")
    assert "doubled" in await found(fire, "one message", "recvfrom", ("telegram", 1), between=forget)


@pytest.mark.long
async def test_forgetting_that_a_tool_was_begun_is_seen_as_a_second_deed(fire: Fire) -> None:
    forget = meddling("DELETE FROM tool_call")
    assert "effect twice" in await found(fire, "three with effects", "before-transcript", between=forget)


async def found_on_a_bad_disk(fire: Fire, name: str, kill: str, broken: str) -> set[str]:
    """Let a disk fail a house whose ledger does one thing in the wrong order (``broken``, a trigger); return what is found wrong.

    ``kill`` has a ``{}`` where it says which call fails; one after the other is tried until something is found.
    """
    scenario = replace(SCENARIOS[name], youth=("hello there",))
    await fire.grow([scenario])
    meddling(f"CREATE TRIGGER broken {broken}")(fire.youths[name])
    for when in range(1, 6):
        await fire.run(scenario, (Kill.parse(kill.format(when)),))
        if kinds := set(fire.rows[name].verdict.problems):
            return kinds
    return set()


async def test_a_turn_that_is_not_taken_up_again_after_the_disk_failed_is_seen_as_a_loss(fire: Fire) -> None:
    drop = (
        "AFTER UPDATE OF attempt ON turn BEGIN UPDATE turn SET state = 'stopped' WHERE id = NEW.id; "
        "UPDATE inbox SET state = 'ignored' WHERE turn = NEW.id; END"
    )
    assert "lost" in await found_on_a_bad_disk(fire, "one message", "pwrite64:{}=ENOSPC*3@model:1", drop)


@pytest.mark.long
async def test_a_send_that_is_forgotten_when_the_disk_fails_is_seen_as_a_double(fire: Fire) -> None:
    forget = (
        "AFTER UPDATE OF state ON outbox WHEN NEW.state = 'sent' AND NEW.attempt = 1 AND NEW.id > 1 "
        "BEGIN UPDATE outbox SET state = 'ready' WHERE id = NEW.id; END"
    )
    assert "doubled" in await found_on_a_bad_disk(fire, "one message", "pwrite64:{}=EIO*1@telegram:1", forget)


async def test_an_act_that_nobody_approved_is_seen(fire: Fire) -> None:
    by_nobody = meddling(
        "UPDATE approval SET state = 'approved', decided_by = 'nobody' WHERE state = 'pending'",
        "UPDATE turn SET state = 'running', suspended_at = NULL WHERE state = 'suspended'",
        "UPDATE outbox SET state = 'dead' WHERE state = 'ready' AND text LIKE '%/approve %'",  # or a yes may come before the act
    )
    for name in ("asked and approved", "asked and denied"):
        assert await fire.run(SCENARIOS[name], (Kill("after-suspend", 1),), between=by_nobody)
        assert "without a yes" in fire.rows[name].verdict.problems


async def test_a_decision_that_is_forgotten_is_seen(fire: Fire) -> None:
    forget = meddling("UPDATE approval SET state = 'expired' WHERE state = 'approved'")
    assert await fire.run(SCENARIOS["asked and approved"], (Kill("after-decide", 1),), between=forget)
    assert "approval lost" in fire.rows["asked and approved"].verdict.problems


@pytest.mark.long
async def test_forgetting_that_an_approved_act_was_begun_is_seen_as_a_second_deed(fire: Fire) -> None:
    forget = meddling("DELETE FROM tool_call")
    assert "effect twice" in await found(fire, "asked and approved", "before-transcript", between=forget)


@parametrize_some(
    1,
    ("statements", "kinds"),
    [
        (
            (
                "UPDATE job SET state = 'active', next_at = coalesce(last_at, next_at)",
                "DELETE FROM job_run",
                "UPDATE inbox SET skey = skey || 'again', pkey = pkey || 'again' WHERE account = 'schedule'",
            ),
            {"automation"},
        ),
        (("DELETE FROM job WHERE state = 'active'", "DELETE FROM inbox WHERE account = 'schedule'"), {"lost", "automation"}),
    ],
    ids=["forgotten", "never"],
)
async def test_jobs_that_fire_again_or_never_are_seen(fire: Fire, statements: tuple[str, ...], kinds: set[str]) -> None:
    scenario = SCENARIOS["by itself"]
    await fire.grow([scenario])
    assert await fire.run(scenario, (Kill("after-step", 3),), between=meddling("PRAGMA foreign_keys = OFF", *statements))
    assert kinds <= set(fire.rows["by itself"].verdict.problems)
