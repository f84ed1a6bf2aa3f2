"""Messages that nobody asked for, in the ledger: held in quiet hours, kept beyond the number of a day, sent once and in order."""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec.structs import replace

from channels.messages import ChatAddress, OutboundFile
from gateway.base.clock import ManualClock
from gateway.base.errors import InvalidTransition
from gateway.ledger.rows import Arrival, NewApproval, NewOutbound, Unasked
from gateway.ledger.sqlite import SqliteLedger
from gateway.outbound.unasked_messages import kept_text
from gateway.settings.quiet_hours import DailyHours, UnaskedRule
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from gateway.ledger.rows import OutboxRow

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = DailyHours(start="22:00", end="07:00")
RULE = UnaskedRule(zone=BERLIN, quiet=NIGHT, per_day=3)
EVENING = datetime(2026, 11, 23, 21, tzinfo=BERLIN).astimezone(UTC)
ACCOUNT = "telegram:default"
CHAT, OTHER = (ChatAddress(channel="telegram", kind="direct", id=name) for name in ("1", "2"))


def unasked(*, agent: str = "main", source: str = "job:abcde", ruled: UnaskedRule = RULE, counts: bool = True) -> Unasked:
    return Unasked(agent=agent, source=source, name="water the plants", rule=ruled, counts=counts)


def chunk(text: str, place: ChatAddress = CHAT, **further: Any) -> NewOutbound:
    return NewOutbound(conversation=place, text=text, **{"unasked": unasked(), "ttl": timedelta(hours=9), **further})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(EVENING)


@pytest.fixture
async def ledger(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteLedger]:
    opened = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
    yield opened
    await opened.close()


async def deliver(ledger: SqliteLedger) -> list[str]:
    """Send what is due, as the delivery does."""
    sent = []
    while due := await ledger.outbox.due([ACCOUNT]):
        for row in due:
            await ledger.outbox.sending(row.id)
            await ledger.outbox.sent(row.id, f"p{row.id}")
            sent.append(row.text)
    return sent


async def test_a_night_of_messages_arrives_in_the_morning_in_order(ledger: SqliteLedger, clock: ManualClock) -> None:
    await ledger.outbox.enqueue([chunk("evening")])
    assert await deliver(ledger) == ["evening"]
    clock.set(EVENING + timedelta(hours=2))
    await ledger.outbox.enqueue([chunk("one"), chunk("one, continued")])
    await ledger.outbox.enqueue([chunk("two", key="job:2")])
    await ledger.outbox.enqueue([chunk("two again", key="job:2")])
    await ledger.outbox.enqueue([NewOutbound(conversation=CHAT, text="an answer")])
    assert await deliver(ledger) == ["an answer"], "replies are never held"
    assert [(row.state, row.text, row.chunks) for row in await ledger.unasked.waiting()] == [
        ("held", "one", 2),
        ("held", "two", 1),
    ]
    assert await ledger.unasked.release({"main": RULE}) == 0
    clock.set(EVENING + timedelta(hours=10))
    await ledger.outbox.enqueue([chunk("in the morning")])
    assert await deliver(ledger) == ["one", "one, continued", "two", "in the morning"], "the scheduler was not there yet"
    assert await ledger.unasked.waiting() == []


async def test_the_scheduler_sends_held_messages_once(ledger: SqliteLedger, clock: ManualClock) -> None:
    clock.set(EVENING + timedelta(hours=2))
    await ledger.outbox.enqueue([chunk("held", ttl=timedelta(minutes=30))])
    clock.set(EVENING + timedelta(hours=10))
    told: list[None] = []
    ledger.outbox.on_outbound(lambda _: told.append(None))
    assert await ledger.unasked.release({"main": RULE}) == 1
    assert told, "the delivery is woken"
    (row,) = await ledger.outbox.due([ACCOUNT])
    assert row.expires == clock.now() + timedelta(minutes=30), "its time begins when it is queued"
    assert await ledger.unasked.release({"main": RULE}) == 0
    assert await deliver(ledger) == ["held"]


async def test_the_conversation_is_told_of_a_held_message_once_it_is_queued(ledger: SqliteLedger, clock: ManualClock) -> None:
    async def lines() -> list[str]:
        return [event.line for event in await ledger.context_events.pending(CHAT.address)]

    announce = ledger.context_events.announce
    assert await announce(chunk("at once", key="hook:1"), "[one]", agent="main", sources=["webhook:alarm"])
    assert await lines() == ["[one]"]
    clock.set(EVENING + timedelta(hours=2))
    assert await announce(chunk("held", key="hook:2"), "[two]", agent="work", sources=["webhook:alarm"])
    assert await announce(chunk("wanted", key="hook:3"), "[three]", agent="main")
    assert await lines() == ["[one]"], "its people have not read it"
    await ledger.unasked.send((await ledger.unasked.waiting())[1].id)
    assert await lines() == ["[one]", "[three]"]
    clock.set(EVENING + timedelta(hours=10))
    await ledger.outbox.enqueue([chunk("in the morning")])
    await ledger.unasked.release({"main": RULE})
    await ledger.unasked.release({"main": RULE})
    assert await lines() == ["[one]", "[three]", "[two]"]
    assert [event.sources for event in await ledger.context_events.pending(CHAT.address)][2] == ("webhook:alarm",)


async def test_messages_of_an_agent_that_is_gone_are_not_held_for_ever(ledger: SqliteLedger, clock: ManualClock) -> None:
    clock.set(EVENING + timedelta(hours=2))
    await ledger.outbox.enqueue([chunk("held")])
    assert await ledger.unasked.release({}) == 1


async def test_what_the_platform_did_not_take_before_the_night_waits_for_the_morning(
    ledger: SqliteLedger, clock: ManualClock
) -> None:
    await ledger.outbox.enqueue([chunk("late"), chunk("and its end")])
    await ledger.outbox.enqueue([NewOutbound(conversation=CHAT, text="an answer", ttl=timedelta(hours=9))])
    clock.set(EVENING + timedelta(minutes=59))
    (row,) = await ledger.outbox.due([ACCOUNT])
    await ledger.outbox.sending(row.id)
    await ledger.outbox.retry_later(row.id, clock.now() + timedelta(seconds=50))
    clock.set(EVENING + timedelta(hours=1))
    assert [row.text for row in await ledger.outbox.due([ACCOUNT])] == ["an answer"], "and it stops nothing behind it"
    assert (await ledger.outbox.due_in(CHAT.address) or row).text == "an answer"
    assert await ledger.unasked.release({"main": RULE}) == 0
    assert await deliver(ledger) == ["an answer"]
    assert [row.text for row in await ledger.unasked.waiting()] == ["late"]
    clock.set(EVENING + timedelta(hours=10))
    assert await ledger.unasked.release({"main": RULE}) == 2
    assert await deliver(ledger) == ["late", "and its end"]


async def test_a_message_that_was_begun_is_sent_to_its_end(ledger: SqliteLedger, clock: ManualClock) -> None:
    await ledger.outbox.enqueue([chunk("late"), chunk("and its end")])
    clock.set(EVENING + timedelta(minutes=59, seconds=59))
    (row,) = await ledger.outbox.due([ACCOUNT])
    await ledger.outbox.sending(row.id)
    clock.move(1)
    await ledger.outbox.sent(row.id, "p")
    await ledger.unasked.release({"main": RULE})
    assert await deliver(ledger) == ["and its end"]


async def test_quiet_hours_that_are_set_later_hold_what_is_not_sent_yet(ledger: SqliteLedger, clock: ManualClock) -> None:
    clock.set(EVENING + timedelta(hours=2))
    open_rule = replace(RULE, quiet=None)
    await ledger.outbox.enqueue([chunk("late", unasked=unasked(ruled=open_rule))])
    assert await ledger.unasked.release({"main": RULE}) == 0
    assert await deliver(ledger) == []
    assert await ledger.unasked.release({"main": open_rule}) == 1


async def test_beyond_the_number_of_a_day_messages_are_kept_and_told_of(ledger: SqliteLedger, clock: ManualClock) -> None:
    for number in range(6):
        await ledger.outbox.enqueue([chunk(f"{number}"), chunk("its end")])
    await ledger.outbox.enqueue([chunk("another agent's", unasked=unasked(agent="work"))])
    await ledger.outbox.enqueue([chunk("a question", unasked=unasked(counts=False))])
    assert await deliver(ledger) == ["0", "its end", "1", "its end", "2", "its end", "another agent's", "a question"]
    assert [(row.state, row.text) for row in await ledger.unasked.waiting()] == [("kept", "3"), ("kept", "4"), ("kept", "5")]
    (kept,) = await ledger.unasked.untold({"main": "2026-11-23"})
    assert (kept.agent, kept.day, kept.count) == ("main", "2026-11-23", 3)
    line = NewOutbound(conversation=CHAT, text=kept_text(kept, 3))
    await ledger.unasked.tell(kept, line)
    await ledger.unasked.tell(kept, line)
    (told,) = await deliver(ledger)
    assert told.startswith("📥 3 messages that you had not asked for were kept on 2026-11-23")
    assert "of 3 a day" in told
    assert "homebody outbox held" in told
    assert "Further ones of today are kept, too" in told, "or the number would not be true for long"
    await ledger.outbox.enqueue([chunk("6")])
    assert await ledger.unasked.untold({"main": "2026-11-23"}) == [], "the day is told of once"
    clock.set(EVENING + timedelta(hours=12))
    (kept,) = await ledger.unasked.untold({"main": "2026-11-24"})
    assert kept.count == 4, "and once more when it is over"
    assert "Further" not in kept_text(kept, 3)
    await ledger.unasked.tell(kept, line)
    assert await ledger.unasked.untold({"main": "2026-11-24"}) == []
    await ledger.outbox.enqueue([chunk("a new day")])
    assert (await deliver(ledger))[-1] == "a new day"
    assert (await ledger.tally()).kept == 4


async def test_a_held_or_kept_message_can_be_sent_now(ledger: SqliteLedger, clock: ManualClock) -> None:
    clock.set(EVENING + timedelta(hours=2))
    await ledger.outbox.enqueue([chunk("held")])
    (row,) = await ledger.unasked.waiting()
    await ledger.unasked.send(row.id)
    await ledger.unasked.release({"main": RULE})
    assert await deliver(ledger) == ["held"]
    with pytest.raises(InvalidTransition):
        await ledger.unasked.send(row.id)
    clock.set(EVENING + timedelta(hours=10))
    for _ in range(4):
        await ledger.outbox.enqueue([chunk("more")])
    assert [row.state for row in await ledger.unasked.waiting()] == ["kept"], "it does not count"


async def test_the_end_of_a_turn_and_its_held_reply_are_one(ledger: SqliteLedger, clock: ManualClock) -> None:
    clock.set(EVENING + timedelta(hours=2))
    arrival = Arrival(
        key="k", alias="a", conversation=CHAT.address, session="s", sender="x", payload="{}", received_at=clock.now()
    )
    (row,) = (await ledger.inbox.accept("schedule", [arrival])).rows
    turn = await ledger.turns.claim("s", "main", [row.id])
    assert (await ledger.turns.finish(turn.id, "done", [chunk("watered")])).keys == ()
    with pytest.raises(InvalidTransition):
        await ledger.turns.finish(turn.id, "done", [chunk("watered")])
    assert [row.text for row in await ledger.unasked.waiting()] == ["watered"]


async def test_a_question_that_was_decided_meanwhile_is_not_asked(ledger: SqliteLedger, clock: ManualClock) -> None:
    clock.set(EVENING + timedelta(hours=2))
    arrivals = [
        Arrival(key=f"k{n}", alias=f"a{n}", conversation="c", session="s", sender="x", payload="{}", received_at=clock.now())
        for n in range(2)
    ]
    for n, row in enumerate((await ledger.inbox.accept("schedule", arrivals)).rows):
        turn = await ledger.turns.claim("s", "main", [row.id])
        question = NewApproval(
            id=f"q{n}", round=1, session="s", transcript="t", agent="main", place=CHAT, call="c", payload="{}", fingerprint="f",
            expires=clock.now() + timedelta(hours=12),
        )  # fmt: skip
        marked = unasked(source=f"approval:q{n}", counts=False)
        await ledger.turns.suspend(turn.id, [question], [chunk(f"may I? {n}", unasked=marked)])
    await ledger.approvals.decide("q0", 1, "approved", by="the command line")
    clock.set(EVENING + timedelta(hours=10))
    await ledger.unasked.release({"main": RULE})
    assert await deliver(ledger) == ["may I? 1"]


async def test_files_of_held_messages_are_not_cleared_away(ledger: SqliteLedger, clock: ManualClock, tmp_path: Path) -> None:
    clock.set(EVENING + timedelta(hours=2))
    picture = OutboundFile(path=tmp_path / "a.png", name="a.png", media_type="image/png")
    await ledger.outbox.enqueue([chunk("", enclosure=picture)])
    assert await ledger.outbox.files() == [picture.path]
    assert [row.text for row in await ledger.unasked.waiting()] == ["📎 a.png"]
    clock.set(EVENING + timedelta(hours=10))
    await ledger.unasked.release({"main": RULE})
    (row,) = await ledger.outbox.due([ACCOUNT])
    assert row.enclosure == picture


async def test_what_was_queued_or_kept_long_ago_is_deleted_and_what_is_held_later(
    ledger: SqliteLedger, clock: ManualClock
) -> None:
    for number in range(4):
        await ledger.outbox.enqueue([chunk(f"{number}")])
    clock.set(EVENING + timedelta(hours=2))
    await ledger.outbox.enqueue([chunk("held")])
    clock.set(EVENING + timedelta(days=60, hours=2))
    await ledger.sweep()
    assert [row.text for row in await ledger.unasked.waiting()] == ["held"]
    clock.set(EVENING + timedelta(days=91))
    await ledger.sweep()
    assert await ledger.unasked.waiting() == []


@dataclass
class Told:
    """A message in the model."""

    text: str
    kind: str
    chat: int
    sent: int = 0


RULES = [
    RULE,
    UnaskedRule(zone=BERLIN, quiet=DailyHours(start="22:00", end="02:30"), per_day=None),
    UnaskedRule(zone=ZoneInfo("America/New_York"), quiet=NIGHT, per_day=5),
    UnaskedRule(zone=BERLIN, quiet=None, per_day=2),
]
STARTS = [EVENING, *(datetime(2027, month, day, 20, tzinfo=BERLIN).astimezone(UTC) for month, day in ((3, 27), (10, 30)))]


class Nights(RuleBasedStateMachine):
    """Any history of messages, clock changes, settings and restarts: none is lost, none doubled, and none disturbs the owner's night."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock(EVENING)
        self.rule = RULE
        self.said: list[Told] = []
        self.arrived: dict[int, list[Told]] = defaultdict(list)
        self.by_day: dict[str, int] = defaultdict(int)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    @initialize(start=st.sampled_from(STARTS), rule=st.sampled_from(RULES))
    def begin(self, start: datetime, rule: UnaskedRule) -> None:
        self.clock = ManualClock(start)
        self.rule = rule
        self.open()

    def open(self) -> None:
        self.ledger = self.do(SqliteLedger.open(Path(self.folder.name) / "ledger.sqlite", self.clock))

    @rule(chat=st.integers(0, 1), kind=st.sampled_from(["unasked", "unasked", "unasked", "urgent", "reply"]))
    def say(self, chat: int, kind: str) -> None:
        told = Told(f"{len(self.said)}", kind, chat)
        self.said.append(told)
        marked = unasked(ruled=self.rule) if kind == "unasked" else None
        place = (CHAT, OTHER)[chat]
        self.do(
            self.ledger.outbox.enqueue([chunk(told.text, place, unasked=marked, key=f"k{told.text}", ttl=timedelta(days=99))])
        )

    @rule(again=st.integers(0, 100))
    def say_again(self, again: int) -> None:
        if self.said:
            told = self.said[again % len(self.said)]
            marked = unasked(ruled=self.rule) if told.kind == "unasked" else None
            self.do(
                self.ledger.outbox.enqueue([chunk(told.text, (CHAT, OTHER)[told.chat], unasked=marked, key=f"k{told.text}")])
            )

    @rule(minutes=st.sampled_from([1, 20, 59, 60, 61, 180, 480, 1440]))
    def time_passes(self, minutes: int) -> None:
        self.clock.move(60 * minutes)

    @rule(minutes=st.sampled_from([5, 90, 1440]))
    def the_clock_is_set_back(self, minutes: int) -> None:
        now = self.clock.now() - timedelta(minutes=minutes)
        self.do(self.ledger.close())
        self.clock = ManualClock(now)
        self.open()
        self.do(self.ledger.outbox.clock_set_back(60 * minutes))  # as the delivery does when it sees it
        self.tick()

    @rule(rule=st.sampled_from(RULES))
    def settings_change(self, rule: UnaskedRule) -> None:
        self.rule = rule
        self.tick()

    @rule()
    def tick(self) -> None:
        self.do(self.ledger.unasked.release({"main": self.rule}))

    @rule()
    def restart(self) -> None:
        self.do(self.ledger.close())
        self.open()

    @rule(fails=st.booleans())
    def deliver_one(self, *, fails: bool) -> None:
        due = self.do(self.ledger.outbox.due([ACCOUNT]))
        for row in due[:1]:
            self.deliver(row, fails=fails)

    def deliver(self, row: OutboxRow, *, fails: bool = False) -> None:
        self.do(self.ledger.outbox.sending(row.id))
        if fails:
            self.do(self.ledger.outbox.retry_later(row.id, self.clock.now() + timedelta(seconds=5)))
            return
        self.do(self.ledger.outbox.sent(row.id, f"p{row.id}"))
        told = self.said[int(row.text)]
        told.sent += 1
        assert told.sent == 1, "once"
        if told.kind == "unasked":
            assert self.rule.quiet_until(self.clock.now()) is None, "not in quiet hours"
        self.arrived[told.chat].append(told)

    def teardown(self) -> None:
        try:
            if hasattr(self, "ledger"):
                self.finish()
        finally:
            if hasattr(self, "ledger"):
                self.do(self.ledger.close())
            self.loop.close()
            self.folder.cleanup()

    def finish(self) -> None:
        """In the end, a day with no night: everything is there or is told of, in order."""
        self.rule = UnaskedRule(zone=BERLIN)
        self.clock.move(2 * 86_400)
        self.tick()
        while due := self.do(self.ledger.outbox.due([ACCOUNT])):
            for row in due:
                self.deliver(row)
        kept = {row.text for row in self.do(self.ledger.unasked.waiting())}
        for told in self.said:
            assert told.sent == (0 if told.text in kept else 1), told
            assert told.text not in kept or told.kind == "unasked"
        for arrived in self.arrived.values():
            for unasked_ones in (True, False):
                numbers = [int(told.text) for told in arrived if (told.kind == "unasked") == unasked_ones]
                assert numbers == sorted(numbers), "in order"


TestNights = Nights.TestCase
TestNights.settings = settings(max_examples=examples(60), stateful_step_count=40)


async def test_each_day_has_its_number_whatever_is_held(ledger: SqliteLedger, clock: ManualClock) -> None:
    """Held ones count on the day on which they are sent."""
    clock.set(EVENING + timedelta(hours=2))
    for number in range(5):
        await ledger.outbox.enqueue([chunk(f"{number}")])
    clock.set(EVENING + timedelta(hours=10))
    assert await ledger.unasked.release({"main": RULE}) == 3
    assert await deliver(ledger) == ["0", "1", "2"]
    assert [row.text for row in await ledger.unasked.waiting()] == ["3", "4"]
