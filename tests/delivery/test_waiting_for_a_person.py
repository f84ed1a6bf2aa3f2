"""Messages that a platform takes only once their person has written, and messages that it took and did not deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.errors import NotSent
from tests.delivery.test_delivery import conversation, scene

if TYPE_CHECKING:
    from pathlib import Path

HELD = NotSent("they have to write first", held=True)
DAY = 24 * 3600


async def test_a_held_message_waits_for_days_and_goes_out_when_the_channel_says_so(tmp_path: Path) -> None:
    async with scene(tmp_path, *[HELD] * 100) as s:
        await s.say("one", "two")
        await s.still()
        await s.later(2 * DAY, step=600)
        assert s.texts == []
        assert 40 <= len(s.platform.attempts) <= 70, "it is tried about once an hour"
        assert {attempt.text for attempt in s.platform.attempts} == {"one"}, "and what is behind it waits too"
        assert not any(attempt.uncertain for attempt in s.platform.attempts)
        assert set(s.told.waits) == {("telegram:default:direct:42", "they have to write first")}
        assert not s.told.outages, "the account works"
        s.platform.script.clear()
        s.delivery.ready("telegram", "default")
        await s.still()
        assert s.texts == ["one", "two"]


async def test_a_held_conversation_holds_up_no_other(tmp_path: Path) -> None:
    async with scene(tmp_path, HELD) as s:
        await s.say("one")
        await s.still()
        await s.say("other", chat="7")
        await s.still()
        assert s.texts == ["other"]


async def test_what_was_taken_and_not_delivered_is_queued_again_in_its_place(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.say("one")
        await s.still()
        [first] = s.platform.attempts
        assert await s.delivery.bounced(conversation(), first.key, HELD)
        s.platform.script += [HELD]
        await s.say("two")
        await s.later(7200, step=600)
        assert s.told.waits == [("telegram:default:direct:42", "they have to write first")] * 2
        assert s.texts == ["one", "one", "two"], "in its old place, by the next hourly attempt at the latest"
        assert not s.platform.attempts[1].uncertain, "it certainly did not arrive, so it has no mark"


async def test_what_was_refused_afterwards_is_given_up_and_told(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.say("one")
        await s.still()
        refused = NotSent("no such number", permanent=True, hint="look it up")
        assert await s.delivery.bounced(conversation(), s.platform.attempts[0].key, refused)
        assert s.told.refusals == [("telegram:default:direct:42", "no such number: look it up")]
        [row] = await s.ledger.outbox.latest(["dead"])
        assert row.text == "one"
        assert not await s.delivery.bounced(conversation(), s.platform.attempts[0].key, refused), "it is told once"
        assert not await s.delivery.bounced(conversation("7"), "unknown", HELD)
