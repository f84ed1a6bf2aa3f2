"""The way out: order, back-off, doubt, and what happens when the house or the channel goes away."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.errors import NotSent, Uncertain
from channels.messages import ChatAddress, Outbound, Sent
from gateway.base.clock import ManualClock
from gateway.ledger.rows import NewOutbound
from gateway.outbound.delivery import Delivery
from tests.ledger.engines import open_at
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from datetime import tzinfo
    from pathlib import Path

    from channels.protocol import Channel, InboundSink
    from gateway.ledger.outbox_rows import OutboxLedger
    from gateway.ledger.protocol import Ledger
    from gateway.ledger.rows import OutboxRow

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
Outcome = str | Exception


@dataclass
class Platform:
    """A channel that shows what it is told to, then says what the script says: "sent" when there is none."""

    name: str = "telegram"
    account: str = "default"
    script: list[Outcome] = field(default_factory=list)
    shown: list[tuple[str, str]] = field(default_factory=list)
    attempts: list[Outbound] = field(default_factory=list)
    note: str | None = None
    hold: asyncio.Event | None = None
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    repeats_safely: bool = False
    up: bool = True

    async def answers(self, conversation: ChatAddress) -> bool:
        assert conversation.channel == self.name
        return self.up

    async def run(self, door: InboundSink) -> None:
        door.ready()

    def chunks(self, markdown: str) -> list[str]:
        return [markdown]

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        self.attempts.append(outbound)
        if self.note is not None and outbound.recorded is None:
            await record(self.note)
        if self.hold is not None:
            self.entered.set()
            await self.hold.wait()
        outcome = self.script.pop(0) if self.script else "sent"
        if isinstance(outcome, NotSent):
            raise outcome
        self.shown.append((outbound.conversation.id, outbound.text))
        if isinstance(outcome, Exception):
            raise outcome
        return Sent(platform_id=outbound.key)

    async def typing(self, conversation: ChatAddress) -> None:
        pass

    async def close(self) -> None:
        pass


@dataclass
class Told:
    """What the owner was told of."""

    refusals: list[tuple[str, str]] = field(default_factory=list)
    losses: list[tuple[str, str]] = field(default_factory=list)
    outages: list[tuple[str, str]] = field(default_factory=list)
    waits: list[tuple[str, str]] = field(default_factory=list)

    def refused(self, address: str, reason: str) -> None:
        self.refusals.append((address, reason))

    def given_up(self, address: str, how: str) -> None:
        self.losses.append((address, how))

    def held(self, address: str, reason: str) -> None:
        self.waits.append((address, reason))

    def away(self, account: str, text: str) -> None:
        self.outages.append((account, text))


@dataclass
class Scene:
    ledger: Ledger
    clock: ManualClock
    delivery: Delivery
    platform: Platform
    told: Told

    async def say(self, *texts: str, chat: str = "42") -> list[int]:
        return await self.ledger.outbox.enqueue([NewOutbound(conversation=conversation(chat), text=text) for text in texts])

    async def later(self, seconds: int, step: int = 1) -> None:
        """Let time pass in steps, with everything that is due done at each."""
        await self.still()
        for _ in range(0, seconds, step):
            self.clock.move(step)
            await self.still()

    async def still(self) -> None:
        for _ in range(3):
            await self.delivery.settled()

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.platform.shown]


def conversation(chat: str = "42") -> ChatAddress:
    return ChatAddress(channel="telegram", kind="direct", id=chat)


class SetBack(ManualClock):
    """A clock that can be set back; the time that passes does not know of it."""

    back = timedelta()

    def now(self) -> datetime:
        return super().now() - self.back

    def set_back(self, seconds: float) -> None:
        self.back += timedelta(seconds=seconds)


@asynccontextmanager
async def scene(
    folder: Path,
    *script: Outcome,
    ready: bool = True,
    clock: ManualClock | None = None,
    platform: Platform | None = None,
    zone: tzinfo | None = None,
) -> AsyncIterator[Scene]:
    clock = clock or ManualClock(NOON)
    ledger = await open_at(folder / "ledger.sqlite", clock)
    told = Told()
    delivery = Delivery(ledger.outbox, clock, jitter=lambda: 1.0, listener=told, zone=lambda: zone)
    platform = platform or Platform(script=list(script))
    channel: Channel = platform
    delivery.attach(channel)
    if ready:
        delivery.ready("telegram", "default")
    running = asyncio.create_task(delivery.run())
    try:
        yield Scene(ledger, clock, delivery, platform, told)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await ledger.close()


async def test_replies_go_out_in_order_with_their_keys(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        await s.say("one", "two", "three")
        await s.still()
        assert s.texts == ["one", "two", "three"]
        assert len({attempt.key for attempt in s.platform.attempts}) == 3
        assert [row.text for row in await s.ledger.outbox.latest(["sent"])] == ["one", "two", "three"]


async def test_nothing_is_sent_before_the_channel_is_ready(tmp_path: Path) -> None:
    async with scene(tmp_path, ready=False) as s:
        await s.say("early")
        await s.later(5)
        assert s.texts == []
        s.delivery.ready("telegram", "default")
        await s.still()
        assert s.texts == ["early"]
        assert s.platform.attempts[0].attempt == 1


async def test_a_slow_conversation_does_not_hold_up_another(tmp_path: Path) -> None:
    async with scene(tmp_path, NotSent("no", retry_after=300)) as s:
        await s.say("slow", "behind")
        await s.still()
        await s.say("other", chat="7")
        await s.still()
        assert s.platform.shown == [("7", "other")]


async def test_a_clean_refusal_is_tried_again_with_the_same_key_and_keeps_the_order(tmp_path: Path) -> None:
    async with scene(tmp_path, NotSent("network"), NotSent("network")) as s:
        await s.say("one", "two")
        await s.later(10)
        assert s.texts == ["one", "two"]
        first, second, third, *_ = s.platform.attempts
        assert (first.key, first.attempt) == (second.key, 1) == (third.key, 1)
        assert (second.attempt, third.attempt) == (2, 3)
        assert not third.uncertain


async def test_back_off_doubles(tmp_path: Path) -> None:
    async with scene(tmp_path, *[NotSent("network")] * 5) as s:
        await s.say("one")
        counts = []
        for _ in range(16):
            await s.still()
            counts.append(len(s.platform.attempts))
            s.clock.move(1)
        assert [counts[second] for second in (0, 1, 3, 7, 15)] == [1, 2, 3, 4, 5]
        assert counts[2] == 2


async def test_the_time_that_the_platform_names_is_kept_even_when_it_is_ready_again(tmp_path: Path) -> None:
    async with scene(tmp_path, NotSent("flood", retry_after=40)) as s:
        await s.say("one")
        await s.later(20)
        s.delivery.ready("telegram", "default")
        await s.later(19)
        assert s.texts == []
        await s.later(2)
        assert s.texts == ["one"]


async def test_a_channel_that_is_ready_again_cuts_our_own_back_off_short(tmp_path: Path) -> None:
    async with scene(tmp_path, *[NotSent("nobody is attached")] * 4) as s:
        await s.say("one")
        await s.later(8)
        assert len(s.platform.attempts) == 4
        s.delivery.ready("telegram", "default")
        await s.still()
        assert s.texts == ["one"]


async def test_what_is_refused_for_good_is_dead_and_does_not_block(tmp_path: Path) -> None:
    async with scene(tmp_path, NotSent("blocked by the person.", permanent=True, hint="Ask them to unblock it.")) as s:
        await s.say("one", "two")
        await s.still()
        assert s.texts == ["two"]
        reason = "blocked by the person. Ask them to unblock it."
        assert [(row.text, row.reason) for row in await s.ledger.outbox.latest(["dead"])] == [("one", reason)]


async def test_a_doubtful_send_is_repeated_and_marked_as_such(tmp_path: Path) -> None:
    async with scene(tmp_path, Uncertain("time-out")) as s:
        await s.say("one", "two")
        await s.later(3)
        assert s.texts == ["one", "one", "two"]
        assert [attempt.uncertain for attempt in s.platform.attempts] == [False, True, False]


async def test_doubt_waits_longer_each_time(tmp_path: Path) -> None:
    async with scene(tmp_path, *[Uncertain("502")] * 5) as s:
        await s.say("one", "two")
        times = []
        for second in range(460):
            await s.still()
            times += [second] * (len(s.platform.attempts) - len(times))
            s.clock.move(1)
        assert times == [0, 1, 6, 36, 156, 456, 456]
        assert s.texts[-1] == "two"
        assert not await s.ledger.outbox.latest(["dead", "ambiguous", "ready"])


async def test_the_eighth_doubt_ends_it_and_both_the_person_and_the_owner_are_told(tmp_path: Path) -> None:
    async with scene(tmp_path, *[Uncertain("time-out")] * 8) as s:
        await s.say("one", "two")
        await s.later(1200, step=10)
        assert s.texts[:8] == ["one"] * 8
        assert "- one (may have arrived)" in s.texts[8]
        assert s.texts[9:] == ["two"]
        assert s.told.losses == [("telegram:default:direct:42", "may or may not have arrived, and is not sent again")]


async def test_nothing_is_repeated_to_a_platform_that_does_not_answer(tmp_path: Path) -> None:
    async with scene(tmp_path, Uncertain("cut")) as s:
        s.platform.up = False
        await s.say("one")
        await s.later(1000, step=20)
        assert s.texts == ["one"]
        s.platform.up = True
        await s.later(31)
        assert s.texts == ["one", "one"]
        assert [(one.uncertain, one.restarted) for one in s.platform.attempts] == [(False, False), (True, False)]


async def test_a_notice_never_dies_of_doubt(tmp_path: Path) -> None:
    async with scene(tmp_path, ready=False) as s:
        await s.say("one")
        s.clock.move(3700)
        s.platform.script = [Uncertain("502")] * 30
        s.delivery.ready("telegram", "default")
        await s.later(10_000, step=50)
        assert len(s.texts) == 31
        assert all("- one" in text for text in s.texts)
        assert [row.state for row in await s.ledger.outbox.latest(["sent"])] == ["sent"]


async def test_what_was_given_up_is_sent_again_when_its_owner_wants_it_to(tmp_path: Path) -> None:
    async with scene(tmp_path, *[Uncertain("time-out")] * 8) as s:
        (row,) = await s.say("one")
        await s.later(1200, step=10)
        s.platform.script = [Uncertain("time-out")]
        await s.ledger.outbox.revive(row)
        await s.later(10)
        assert s.texts[-2:] == ["one", "one"]
        assert [(one.uncertain, one.restarted) for one in s.platform.attempts[-2:]] == [(True, False)] * 2
        assert "one" in [one.text for one in await s.ledger.outbox.latest(["sent"])]


async def test_a_silent_platform_takes_no_other_platforms_places(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        s.platform.hold = asyncio.Event()
        other = Platform(name="slack")
        s.delivery.attach(other)
        s.delivery.ready("slack", "default")
        for chat in range(20):
            await s.say("hello", chat=str(chat))
        await s.platform.entered.wait()
        place = ChatAddress(channel="slack", kind="direct", id="U1")
        for text in ("one", "two"):
            await s.ledger.outbox.enqueue([NewOutbound(conversation=place, text=text)])
        while len(other.shown) < 2:  # noqa: ASYNC110  (by the delivery alone)
            await asyncio.sleep(0)
        assert len(s.platform.attempts) == 8
        s.platform.hold.set()


async def test_the_owner_hears_of_an_account_that_fails_for_a_minute_once(tmp_path: Path) -> None:
    async with scene(tmp_path, *[NotSent("no network.")] * 9) as s:
        await s.say("one")
        await s.later(59)
        assert (s.told.outages, s.delivery.health.failing("telegram:default")) == ([], True)
        await s.later(120)
        ((account, line),) = s.told.outages
        assert account == "telegram:default"
        assert "since 2026-03-01T12:00:00+00:00: no network. Messages are kept" in line
        assert s.delivery.health.failing("telegram:default")
        await s.later(120)
        assert not s.delivery.health.failing("telegram:default")
        assert s.delivery.health.line("telegram:default") == ""


async def test_a_terminal_that_nobody_has_open_is_no_trouble(tmp_path: Path) -> None:
    async with scene(tmp_path, ready=False) as s:
        terminal = Platform(name="terminal", script=[NotSent("nobody is attached")] * 20)
        s.delivery.attach(terminal)
        s.delivery.ready("terminal", "default")
        place = ChatAddress(channel="terminal", kind="direct", id="main")
        await s.ledger.outbox.enqueue([NewOutbound(conversation=place, text="one")])
        await s.later(120)
        assert len(terminal.attempts) > 5
        assert (s.told.outages, s.delivery.health.line("terminal:default")) == ([], "")


async def test_the_owner_hears_of_what_waited_too_long(tmp_path: Path) -> None:
    async with scene(tmp_path, ready=False) as s:
        await s.say("one", "two")
        s.clock.move(3700)
        s.delivery.ready("telegram", "default")
        await s.still()
        assert s.told.losses == [("telegram:default:direct:42", "could not be delivered in time")]


@pytest.mark.parametrize("back", [1800.0, 86_400.0])
async def test_a_clock_set_back_blocks_nothing(tmp_path: Path, back: float) -> None:
    async with scene(tmp_path, NotSent("flood", retry_after=4), clock=SetBack(NOON)) as s:
        await s.say("one", "two")
        await s.still()
        assert isinstance(s.clock, SetBack)
        s.clock.set_back(back)
        await s.later(3)
        assert s.texts == []
        await s.later(30)
        assert s.texts == ["one", "two"]


async def test_a_clock_set_back_while_nobody_looked_blocks_nothing_for_longer_than_an_hour(tmp_path: Path) -> None:
    async with scene(tmp_path, NotSent("flood", retry_after=4)) as s:
        await s.say("one")
        await s.still()
    async with scene(tmp_path, clock=ManualClock(NOON - timedelta(days=1))) as s:
        await s.later(1)
        assert s.texts == ["one"]


async def test_a_wait_of_hours_that_a_platform_asks_for_is_tried_after_one(tmp_path: Path) -> None:
    async with scene(tmp_path, NotSent("flood", retry_after=9000), NotSent("flood", retry_after=9000)) as s:
        place = conversation()
        await s.ledger.outbox.enqueue([NewOutbound(conversation=place, text="one", ttl=None)])
        await s.later(3590, step=10)
        assert len(s.platform.attempts) == 1
        await s.later(20)
        assert len(s.platform.attempts) == 2


async def test_an_answer_waits_beyond_its_hour_for_a_time_within_two_that_a_platform_names(tmp_path: Path) -> None:
    async with scene(tmp_path, NotSent("flood", retry_after=5000), NotSent("flood", retry_after=1400)) as s:
        await s.say("one", "two")
        await s.later(4990, step=10)
        assert s.texts == []
        assert len(s.platform.attempts) == 2
        await s.later(30, step=10)
        assert s.texts == ["one", "two"]
        assert s.told.losses == []


async def test_an_answer_is_tried_once_more_before_it_expires_under_a_wait_of_a_day(tmp_path: Path) -> None:
    async with scene(tmp_path, *[NotSent("flood", retry_after=86_400)] * 2) as s:
        await s.say("one")
        await s.later(3500, step=10)
        assert len(s.platform.attempts) == 1
        await s.later(90, step=10)
        assert len(s.platform.attempts) == 2
        await s.later(60, step=10)
        assert [row.reason for row in await s.ledger.outbox.latest(["dead"])] == ["expired"]


async def test_a_wait_that_a_platform_asks_for_is_told_with_its_end_in_the_owners_zone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(
        tmp_path, NotSent("flood", retry_after=600), NotSent("flood", retry_after=20), zone=ZoneInfo("Asia/Tokyo")
    ) as s:
        await s.say("one", "two")
        await s.still()
        await s.say("other", chat="7")
        await s.still()
        until = NOON + timedelta(seconds=600)
        [wait] = await s.ledger.outbox.firm_waits()
        assert (wait.account, wait.count, wait.until) == ("telegram:default", 2, until)
        shown = until.astimezone(ZoneInfo("Asia/Tokyo"))
        assert f"telegram:default asks to wait until {shown.isoformat(timespec='seconds')}" in caplog.text
        [row, _] = [row for row in await s.ledger.outbox.latest(["ready"]) if row.text in {"one", "two"}]
        assert s.delivery.why_waits(row) == f"it is tried again at {shown:%H:%M:%S}"
        await s.later(620, step=10)
        assert await s.ledger.outbox.firm_waits() == []


@pytest.mark.parametrize("safe", ["the channel repeats safely", "the channel noted a handle"])
async def test_doubt_is_repeated_as_often_as_needed_where_it_is_safe(tmp_path: Path, safe: str) -> None:
    async with scene(tmp_path, *[Uncertain("time-out")] * 4) as s:
        s.platform.repeats_safely = safe == "the channel repeats safely"
        s.platform.note = None if s.platform.repeats_safely else "message 17"
        await s.say("one")
        await s.later(30)
        assert s.texts == ["one"] * 5
        assert len(await s.ledger.outbox.latest(["sent"])) == 1
        if not s.platform.repeats_safely:
            assert [attempt.recorded for attempt in s.platform.attempts] == [None, *["message 17"] * 4]


async def test_a_defect_in_a_channel_counts_as_doubt_and_stops_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path, RuntimeError("a defect")) as s:
        await s.say("one")
        await s.say("other", chat="7")
        await s.later(3)
        assert sorted(set(s.texts)) == ["one", "other"]
        assert len(await s.ledger.outbox.latest(["sent"])) == 2


async def test_replies_to_a_channel_that_is_away_become_one_notice(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        s.delivery.detach("telegram", "default")
        await s.say("one", "two")
        await s.later(70)
        s.clock.move(3600)
        s.delivery.attach(s.platform)
        s.delivery.ready("telegram", "default")
        await s.still()
        (notice,) = s.texts
        assert "2 messages" in notice


async def test_a_send_cut_off_at_the_end_is_doubtful_at_the_next_start(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        s.platform.hold = asyncio.Event()
        await s.say("one")
        await s.platform.entered.wait()
        await s.delivery.drain(0)
    async with scene(tmp_path) as s:
        await s.still()
        assert s.texts == ["one"]
        assert (s.platform.attempts[0].uncertain, s.platform.attempts[0].restarted) == (True, True)


async def test_what_waits_for_the_platforms_limits_at_the_end_is_in_no_doubt(tmp_path: Path) -> None:
    class Limited(Platform):
        async def paced(self, conversation: ChatAddress) -> None:
            self.entered.set()
            await asyncio.Event().wait()

    async with scene(tmp_path) as s:
        slow = Limited()
        s.delivery.attach(slow)
        await s.say("one")
        await slow.entered.wait()
        await s.delivery.drain(0)
    async with scene(tmp_path) as s:
        await s.still()
        assert s.texts == ["one"]
        assert not s.platform.attempts[0].uncertain


async def test_draining_sends_what_is_due_and_ends_the_run(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    ledger = await open_at(tmp_path / "ledger.sqlite", clock)
    delivery, platform = Delivery(ledger.outbox, clock, jitter=lambda: 1.0), Platform()
    delivery.attach(platform)
    delivery.ready("telegram", "default")
    running = asyncio.create_task(delivery.run())
    await ledger.outbox.enqueue([NewOutbound(conversation=conversation(), text=str(number)) for number in range(5)])
    await delivery.drain(10)
    await running
    await ledger.close()
    assert [text for _, text in platform.shown] == ["0", "1", "2", "3", "4"]


class HeldUp:
    """The outbox of a ledger that never answers the first time it is told of a send, whether it has stored that or not."""

    def __init__(self, outbox: OutboxLedger, *, stores: bool) -> None:
        self.outbox, self.stores, self.asked = outbox, stores, asyncio.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self.outbox, name)

    async def sent(self, row: int, platform_id: str) -> OutboxRow | None:
        if self.asked.is_set():
            return await self.outbox.sent(row, platform_id)
        if self.stores:
            await self.outbox.sent(row, platform_id)
        self.asked.set()
        return await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("stores", [True, False])
async def test_that_a_chunk_was_sent_is_stored_though_the_gateway_stops_in_that_moment(tmp_path: Path, *, stores: bool) -> None:
    clock = ManualClock(NOON)
    ledger = await open_at(tmp_path / "ledger.sqlite", clock)
    outbox = HeldUp(ledger.outbox, stores=stores)
    delivery, platform = Delivery(outbox, clock, jitter=lambda: 1.0), Platform()  # type: ignore[arg-type]
    delivery.attach(platform)
    delivery.ready("telegram", "default")
    running = asyncio.create_task(delivery.run())
    await ledger.outbox.enqueue([NewOutbound(conversation=conversation(), text="one")])
    await outbox.asked.wait()
    running.cancel()
    await asyncio.wait([running])
    assert [one.text for one in await ledger.outbox.latest(["sent"])] == ["one"]
    assert await ledger.outbox.latest(["sending", "ambiguous"]) == []
    await ledger.close()


async def test_a_chunk_dropped_by_hand_while_it_is_sent_stops_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path) as s:
        s.platform.hold = asyncio.Event()
        (row, _) = await s.say("one", "two")
        await s.platform.entered.wait()
        await s.ledger.outbox.dead(row, "dropped")
        s.platform.hold.set()
        await s.still()
        assert s.texts == ["one", "two"]
        assert [one.text for one in await s.ledger.outbox.latest(["sent"])] == ["two"]


OUTCOMES = st.sampled_from(["sent", "refused", "doubt", "permanent", "flood"])


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(OUTCOMES, max_size=7), chats=st.lists(st.sampled_from("ab"), min_size=1, max_size=6))
async def test_whatever_the_platform_answers_each_chunk_is_shown_in_order_and_doubled_only_after_a_doubt(
    tmp_path_factory: pytest.TempPathFactory, script: list[str], chats: list[str]
) -> None:
    made = {
        "sent": "sent",
        "refused": NotSent("no"),
        "doubt": Uncertain("?"),
        "permanent": NotSent("never", permanent=True),
        "flood": NotSent("wait", retry_after=3),
    }
    async with scene(tmp_path_factory.mktemp("outbox"), *[made[name] for name in script]) as s:
        for number, chat in enumerate(chats):
            await s.say(f"{number}", chat=chat)
        await s.later(1500, step=30)  # seven doubts in a row are waited out in 1,056 s
        open_rows = await s.ledger.outbox.latest(["ready", "sending", "ambiguous"])
        assert open_rows == []
        dead = {row.text for row in await s.ledger.outbox.latest(["dead"])}
        for chat in set(chats):
            seen = [text for where, text in s.platform.shown if where == chat and text.isdigit()]
            wanted = [str(number) for number, where in enumerate(chats) if where == chat]
            assert seen == sorted(seen, key=int)
            assert set(wanted) - dead <= set(seen)
            marked = [attempt.text for attempt in s.platform.attempts if attempt.uncertain]
            assert all(seen.count(text) <= 1 + marked.count(text) for text in seen)


class Poisoned(Platform):
    """A platform that fails on one text, whatever else it takes."""

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        if outbound.text == "poison":
            self.attempts.append(outbound)
            raise Uncertain("HTTP 500")
        return await super().send(outbound, record)


@pytest.mark.parametrize("safe", [False, True])
async def test_a_message_that_a_platform_fails_on_while_others_go_through_is_given_up_within_minutes(
    tmp_path: Path, *, safe: bool
) -> None:
    async with scene(tmp_path, platform=Poisoned(repeats_safely=safe)) as s:
        await s.say("poison", "behind it")
        for number in range(20):
            await s.say(f"to Ben {number}", chat="43")
            await s.later(15)
        mine = [text for chat, text in s.platform.shown if chat == "42"]
        assert mine[1:] == ["behind it"]
        assert "- poison" in mine[0], "the notice names it"
        assert "/missed" in mine[0]
        assert [how for _, how in s.told.losses] == ["failed again and again while other messages went through"]
        [dead] = await s.ledger.outbox.latest(["dead"])
        assert dead.text == "poison", "it is kept, and comes with /missed"


async def test_in_an_outage_of_everything_no_message_is_given_up_early(tmp_path: Path) -> None:
    async with scene(tmp_path, platform=Poisoned(repeats_safely=True)) as s:
        await s.say("poison")
        await s.say("poison", chat="43")
        await s.later(600, 10)
        assert s.told.losses == []
        assert await s.ledger.outbox.latest(["dead"]) == []


@pytest.mark.parametrize("wait", [1e12, 1e300, float("nan"), float("inf"), -5.0, 10**400, "soon"])
async def test_a_wait_that_no_clock_can_follow_holds_one_conversation_for_an_hour_at_most(tmp_path: Path, wait: Any) -> None:
    async with scene(tmp_path, NotSent("wait", retry_after=wait)) as s:
        await s.say("one")
        await s.still()
        await s.say("two", chat="43")
        await s.still()
        assert "two" in s.texts
        await s.later(3700, step=100)
        assert any("one" in text for text in s.texts), "it comes, or is told as one that can be had by /missed"


async def test_a_defect_in_one_sending_ends_neither_the_others_nor_the_delivery(tmp_path: Path) -> None:
    class Broken(Platform):
        times = 0

        async def paced(self, place: ChatAddress) -> None:
            if place.id == "42" and self.times < 2:
                self.times += 1
                raise OverflowError("a defect")

    async with scene(tmp_path, platform=Broken()) as s:
        await s.say("one")
        await s.still()
        await s.say("two", chat="43")
        await s.still()
        assert s.texts == ["two"]
        await s.later(300, step=5)
        assert s.texts == ["two", "one"]
        assert [row.text for row in await s.ledger.outbox.latest(["sent"])] == ["one", "two"]
