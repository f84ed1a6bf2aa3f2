"""The ledger, step by step: what each call promises, also across a restart."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.messages import ChatAddress, Cursor
from gateway.base.clock import ManualClock
from gateway.base.errors import InvalidTransition, StorageFailed
from gateway.ledger.rows import Arrival, NewOutbound
from tests.full_disk import no_file_may_hold_more_than
from tests.ledger.engines import open_at
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.ledger.protocol import Ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHAT = ChatAddress(channel="telegram", kind="direct", id="42")
OTHER = ChatAddress(channel="telegram", kind="direct", id="43")
ACCOUNT = "telegram:default"


def arrival(key: int, alias: int | None = None, *, session: str = "agent:main:main", payload: str = "{}") -> Arrival:
    return Arrival(
        key=f"u:{key}",
        alias=f"m:{key if alias is None else alias}",
        conversation=CHAT.address,
        session=session,
        sender="42",
        payload=payload,
        received_at=NOON,
    )


def chunk(text: str, conversation: ChatAddress = CHAT, ttl: timedelta | None = timedelta(hours=1)) -> NewOutbound:
    return NewOutbound(conversation=conversation, text=text, ttl=ttl)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@asynccontextmanager
async def opened(folder: Path, clock: ManualClock) -> AsyncIterator[Ledger]:
    ledger = await open_at(folder / "state" / "ledger.sqlite", clock)
    try:
        yield ledger
    finally:
        await ledger.close()


@pytest.mark.files
async def test_the_sqlite_ledger_is_a_ledger(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as sqlite:
        ledger: Ledger = sqlite
        assert (await ledger.tally()).waiting == 0


async def test_a_redelivered_message_is_taken_once(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        first = await ledger.inbox.accept(ACCOUNT, [arrival(1), arrival(1), arrival(2)])
        again = await ledger.inbox.accept(ACCOUNT, [arrival(2), arrival(9, alias=1)])
        assert [row.alias for row in first.rows] == ["m:1", "m:2"]
        assert again.rows == ()
        assert [row.alias for row in await ledger.inbox.waiting()] == ["m:1", "m:2"]


async def test_a_known_number_with_another_message_is_taken_as_a_renumbering(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        await ledger.inbox.accept(ACCOUNT, [arrival(7, alias=1)])
        taken = await ledger.inbox.accept(ACCOUNT, [arrival(7, alias=2)])
        assert [row.alias for row in taken.rows] == ["m:2"]
        assert taken.renumbered == 1
        assert (await ledger.inbox.accept(ACCOUNT, [arrival(7, alias=2), arrival(7, alias=1)])).rows == ()


async def test_messages_and_cursor_survive_a_restart_together(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        await ledger.inbox.accept(ACCOUNT, [arrival(1, payload='{"text":"\\ud83d hi"}')], Cursor(name="offset", value="2"))
    async with opened(tmp_path, clock) as ledger:
        (row,) = await ledger.inbox.waiting()
        assert (row.payload, row.received_at, row.session) == ('{"text":"\\ud83d hi"}', NOON, "agent:main:main")
        assert await ledger.inbox.cursor(ACCOUNT, "offset") == "2"
        assert await ledger.inbox.cursor("telegram:other", "offset") is None


async def test_a_lone_surrogate_in_a_key_does_not_stop_the_inbox(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        odd = Arrival(
            key="u:\ud800",
            alias="m:\ud800",
            conversation="c\udc00",
            session=None,
            sender="\udfff",
            payload="{}",
            received_at=NOON,
        )
        assert len((await ledger.inbox.accept(ACCOUNT, [odd])).rows) == 1
        assert (await ledger.inbox.accept(ACCOUNT, [odd])).rows == ()


async def test_a_message_keeps_its_uid_in_a_fresh_ledger(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path / "a", clock) as ledger:
        uid = (await ledger.inbox.accept(ACCOUNT, [arrival(1), arrival(2)])).rows[1].uid
    async with opened(tmp_path / "b", clock) as ledger:
        assert (await ledger.inbox.accept(ACCOUNT, [arrival(2)])).rows[0].uid == uid


async def test_a_turn_claims_waiting_messages_only(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        rows = (await ledger.inbox.accept(ACCOUNT, [arrival(1), arrival(2)])).rows
        turn = await ledger.turns.claim("agent:main:main", "main", [rows[0].id])
        assert (turn.attempt, turn.inbox, turn.state) == (1, (rows[0].id,), "running")
        with pytest.raises(InvalidTransition):
            await ledger.turns.claim("agent:main:main", "main", [rows[0].id, rows[1].id])
        assert await ledger.turns.unfinished() == [turn]
        assert [row.id for row in await ledger.inbox.waiting()] == [rows[1].id]


async def test_finishing_answers_the_message_and_queues_the_reply_once(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        rows = (await ledger.inbox.accept(ACCOUNT, [arrival(1)])).rows
        turn = await ledger.turns.claim("s", "main", [rows[0].id])
        await ledger.turns.finish(turn.id, "done", [chunk("one"), chunk("two")])
        with pytest.raises(InvalidTransition):
            await ledger.turns.finish(turn.id, "done", [chunk("again")])
    async with opened(tmp_path, clock) as ledger:
        assert await ledger.turns.unfinished() == []
        assert await ledger.inbox.waiting() == []
        assert [row.text for row in await ledger.outbox.latest(["ready"])] == ["one", "two"]


async def test_a_retry_counts_and_our_own_interruption_does_not(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        rows = (await ledger.inbox.accept(ACCOUNT, [arrival(1)])).rows
        turn = await ledger.turns.claim("s", "main", [rows[0].id])
        await ledger.turns.interrupted(turn.id)
    async with opened(tmp_path, clock) as ledger:
        assert (await ledger.turns.retry(turn.id)).attempt == 1
        assert (await ledger.turns.retry(turn.id)).attempt == 2
        await ledger.turns.finish(turn.id, "failed", reason="three attempts")
        with pytest.raises(InvalidTransition):
            await ledger.turns.retry(turn.id)


@pytest.mark.files
async def test_an_effect_that_was_running_is_unknown_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        turn = await ledger.turns.claim("s", "main", [])
        for call, effect in (("a", "effect"), ("b", "pure"), ("c", "idempotent"), ("d", "effect"), ("e", "effect")):
            assert await ledger.turns.begin_call(turn.id, call, "tool", "hash", effect) is None
        await ledger.turns.end_call(turn.id, "e", "result-1")
        assert await ledger.turns.begin_call(turn.id, "a", "tool", "hash", "effect") == "started"
    db = apsw.Connection(str(tmp_path / "state" / "ledger.sqlite"))
    db.execute("UPDATE tool_call SET state = 'planned' WHERE call_id = 'd'")  # as earlier versions recorded it
    db.close()
    async with opened(tmp_path, clock) as ledger:
        await ledger.turns.retry(turn.id)
        states = {call: await ledger.turns.tool_call(turn.id, call) for call in "abcdef"}
        assert {call: found and found.state for call, found in states.items()} == {
            "a": "unknown",
            "b": "started",
            "c": "started",
            "d": "planned",
            "e": "done",
            "f": None,
        }
        for call, effect, before, after in (
            ("a", "effect", "unknown", "unknown"),
            ("b", "pure", "started", "started"),
            ("c", "idempotent", "started", "started"),
            ("d", "effect", "planned", "started"),
            ("e", "effect", "done", "done"),
            ("f", "effect", None, "started"),
        ):
            assert await ledger.turns.begin_call(turn.id, call, "tool", "hash", effect) == before
            found = await ledger.turns.tool_call(turn.id, call)
            assert found is not None
            assert found.state == after
        await ledger.turns.end_call(turn.id, "a", "result-2")
        await ledger.turns.end_call(turn.id, "never begun")
        states = {call: await ledger.turns.tool_call(turn.id, call) for call in ("a", "e", "never begun")}
        assert {call: found and (found.state, found.result_ref) for call, found in states.items()} == {
            "a": ("unknown", None),
            "e": ("done", "result-1"),
            "never begun": None,
        }


async def test_no_call_begins_in_a_turn_that_has_ended(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        turn = await ledger.turns.claim("s", "main", [])
        await ledger.turns.finish(turn.id, "done")
        with pytest.raises(InvalidTransition):
            await ledger.turns.begin_call(turn.id, "a", "tool", "hash", "effect")
        assert await ledger.turns.tool_call(turn.id, "a") is None


async def test_only_the_first_open_chunk_of_a_conversation_is_due(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        await ledger.outbox.enqueue([chunk("a1"), chunk("b1", OTHER), chunk("a2")])
        due = await ledger.outbox.due([ACCOUNT])
        assert [row.text for row in due] == ["a1", "b1"]
        await ledger.outbox.sending(due[0].id)
        assert [row.text for row in await ledger.outbox.due([ACCOUNT])] == ["b1"]
        await ledger.outbox.retry_later(due[0].id, NOON + timedelta(seconds=9))
        assert [row.text for row in await ledger.outbox.due([ACCOUNT])] == ["b1"]
        clock.move(9)
        assert [row.text for row in await ledger.outbox.due([ACCOUNT])] == ["a1", "b1"]
        await ledger.outbox.sending(due[0].id)
        await ledger.outbox.sent(due[0].id, "p1")
        assert [row.text for row in await ledger.outbox.due([ACCOUNT])] == ["b1", "a2"]
        assert await ledger.outbox.due(["discord:default"]) == []


async def test_a_send_cut_off_by_a_crash_is_ambiguous(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        (row,) = await ledger.outbox.enqueue([chunk("hello")])
        sending = await ledger.outbox.sending(row)
        await ledger.outbox.recorded(row, "placeholder 17")
        assert (sending.attempt, sending.doubts) == (1, 0)
    async with opened(tmp_path, clock) as ledger:
        (due,) = await ledger.outbox.due([ACCOUNT])
        assert (due.state, due.doubts, due.recorded, due.key) == ("ambiguous", 1, "placeholder 17", sending.key)
        assert (await ledger.outbox.sending(row)).attempt == 2
        await ledger.outbox.sent(row, "17")
        with pytest.raises(InvalidTransition):
            await ledger.outbox.sending(row)


async def test_a_key_fits_the_shortest_platform_limit(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        await ledger.outbox.enqueue([chunk("a"), chunk("b")])
        keys = {row.key for row in await ledger.outbox.latest(["ready"])}
        assert len(keys) == 2
        assert all(len(key) <= 25 for key in keys)


async def test_what_waited_too_long_becomes_one_notice_in_its_place(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        await ledger.outbox.enqueue([chunk("old **one**"), chunk("old two"), chunk("elsewhere", OTHER)])
        clock.move(3000)
        await ledger.outbox.enqueue([chunk("fresh")])
        clock.move(600)
        assert (await ledger.outbox.poll([])).expired == 3
        due = await ledger.outbox.due([ACCOUNT])
        (told,) = [row for row in due if row.conversation == CHAT]
        assert "2 messages" in told.text
        assert "- old one\n- old two" in told.text
        await ledger.outbox.sending(told.id)
        await ledger.outbox.sent(told.id, "p")
        assert [row.text for row in await ledger.outbox.due([ACCOUNT]) if row.conversation == CHAT] == ["fresh"]


async def test_notices_of_missed_messages_do_not_pile_up(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        for hour in range(30):
            await ledger.outbox.enqueue([chunk(f"reply {hour}")])
            clock.move(3600)
            await ledger.outbox.poll([])
        (told,) = await ledger.outbox.due([ACCOUNT])
        assert "30 messages" in told.text
        assert "(20 earlier ones)" in told.text
        assert "reply 29" in told.text
        clock.move(8 * 24 * 3600)
        assert (await ledger.outbox.poll([])).expired == 1
        assert await ledger.outbox.due([ACCOUNT]) == []


async def test_what_was_missed_comes_after_all_when_it_is_asked_for(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        await ledger.outbox.enqueue([chunk("one"), chunk("two"), chunk("elsewhere", OTHER)])
        (maybe,) = await ledger.outbox.enqueue([chunk("refused")])
        await ledger.outbox.sending((await ledger.outbox.due([ACCOUNT]))[0].id)
        await ledger.outbox.retry_later((await ledger.outbox.latest(["sending"]))[0].id, NOON)
        await ledger.outbox.dead(maybe, "the chat is gone")
        clock.move(3700)
        await ledger.outbox.poll([])
        (told,) = [row for row in await ledger.outbox.due([ACCOUNT]) if row.conversation == CHAT]
        assert [button.value for button in told.buttons] == ["/missed"]
        await ledger.outbox.sending(told.id)
        await ledger.outbox.sent(told.id, "p")
        assert await ledger.outbox.revive_expired(CHAT.address) == 3
        assert await ledger.outbox.revive_expired(CHAT.address) == 0
        await ledger.outbox.enqueue([chunk("newer")])
        came = []
        while here := [row for row in await ledger.outbox.due([ACCOUNT]) if row.conversation == CHAT]:
            came.append(here[0].text)
            await ledger.outbox.sending(here[0].id)
            await ledger.outbox.sent(here[0].id, "p")
        assert came == ["one", "two", "refused", "newer"]
        clock.move(8 * 24 * 3600)
        assert await ledger.outbox.revive_expired(OTHER.address) == 0


async def test_a_chunk_given_up_in_doubt_is_told_with_the_doubt(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        (row,) = await ledger.outbox.enqueue([chunk("maybe")])
        await ledger.outbox.sending(row)
        await ledger.outbox.ambiguous(row, NOON)
        await ledger.outbox.sending(row)
        await ledger.outbox.dead(row, "no answer", tell=True)
        (told,) = await ledger.outbox.due([ACCOUNT])
        assert "- maybe (may have arrived)" in told.text
        await ledger.outbox.revive(row)
        assert [one.text for one in await ledger.outbox.due([ACCOUNT])] == ["maybe"]


@pytest.mark.files
async def test_after_a_restore_nothing_old_is_sent_by_itself(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        (row,) = await ledger.outbox.enqueue([chunk("stale")])
    db = apsw.Connection(str(tmp_path / "state" / "ledger.sqlite"))
    db.execute("UPDATE meta SET value = 'restored' WHERE name = 'epoch'")
    db.close()
    async with opened(tmp_path, clock) as ledger:
        assert await ledger.outbox.due([ACCOUNT]) == []
        await ledger.outbox.poll([])
        (dead,) = await ledger.outbox.latest(["dead"])
        assert dead.id == row
        await ledger.outbox.enqueue([chunk("new")])
        assert [one.text for one in await ledger.outbox.due([ACCOUNT])] == ["new"]


async def test_settled_messages_need_no_turn_and_are_settled_once(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        (row,) = (await ledger.inbox.accept(ACCOUNT, [arrival(1)])).rows
        await ledger.inbox.settle([row.id], "answered", reply=[chunk("stopped")])
        await ledger.inbox.settle([row.id], "answered", reply=[chunk("stopped")])
        assert await ledger.inbox.waiting() == []
        assert [one.text for one in await ledger.outbox.latest(["ready"])] == ["stopped"]
        assert (await ledger.inbox.accept(ACCOUNT, [arrival(1)])).rows == ()


async def test_listeners_hear_of_new_outbound(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        heard: list[int] = []
        ledger.outbox.on_outbound(lambda _: heard.append(1))
        await ledger.inbox.accept(ACCOUNT, [arrival(1)])
        assert heard == []
        await ledger.outbox.enqueue([chunk("x")])
        assert heard == [1]


async def test_listeners_are_to_look_where_what_has_expired_stands_before_a_new_chunk(
    tmp_path: Path, clock: ManualClock
) -> None:
    async with opened(tmp_path, clock) as ledger:
        heard: list[Any] = []
        ledger.outbox.on_outbound(heard.append)
        await ledger.outbox.enqueue([chunk("late", ttl=timedelta(minutes=1))])
        clock.move(timedelta(minutes=2).total_seconds())
        await ledger.outbox.enqueue([chunk("next")])
        assert [None if due is None else [one.text for one in due] for due in heard] == [["late"], None]
        assert (await ledger.outbox.poll([ACCOUNT])).expired == 1


async def test_payloads_are_cleared_but_keys_are_remembered(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        (row,) = (await ledger.inbox.accept(ACCOUNT, [arrival(1, payload='{"secret":1}')])).rows
        await ledger.inbox.accept(ACCOUNT, [arrival(2, payload='{"open":1}')])
        turn = await ledger.turns.claim("s", "main", [row.id])
        await ledger.turns.finish(turn.id, "done", [chunk("hi")])
        assert await ledger.sweep() == 0
        clock.move(timedelta(days=8).total_seconds())
        assert await ledger.sweep() > 0
        assert [found.payload for found in await ledger.inbox.rows([row.id])] == [""]
        assert [found.payload for found in await ledger.inbox.waiting()] == ['{"open":1}']
        clock.move(timedelta(days=40).total_seconds())
        while await ledger.sweep():
            pass
        assert (await ledger.inbox.accept(ACCOUNT, [arrival(1)])).rows == ()


async def test_keys_beyond_the_last_ones_are_forgotten_after_thirty_days(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        assert ledger.keep_last == 100_000
        ledger.keep_last = 200
        rows = (await ledger.inbox.accept(ACCOUNT, [arrival(number) for number in range(203)])).rows
        await ledger.inbox.settle([row.id for row in rows], "ignored")
        clock.move(timedelta(days=31).total_seconds())
        while await ledger.sweep():
            pass
        back = await ledger.inbox.accept(ACCOUNT, [arrival(number) for number in range(10)])
        assert [row.alias for row in back.rows] == ["m:0", "m:1", "m:2"]


async def test_calls_that_share_a_commit_do_not_disturb_each_other(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        results = await asyncio.gather(
            *(ledger.inbox.accept(ACCOUNT, [arrival(number)]) for number in range(50)),
            ledger.turns.retry("no such turn"),
            *(ledger.inbox.accept(ACCOUNT, [arrival(number)]) for number in range(50, 100)),
            return_exceptions=True,
        )
        assert [type(result).__name__ for result in results if isinstance(result, BaseException)] == ["InvalidTransition"]
        assert [row.alias for row in await ledger.inbox.waiting()] == [f"m:{number}" for number in range(100)]


async def test_a_cancelled_caller_does_not_stop_the_ledger(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        tasks = [asyncio.create_task(ledger.inbox.accept(ACCOUNT, [arrival(number)])) for number in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        kept = {row.alias for row in await ledger.inbox.waiting()}
        assert {f"m:{number}" for number in range(1, 20, 2)} <= kept
        assert sum(isinstance(one, asyncio.CancelledError) for one in done) == 10


@pytest.mark.files
async def test_only_the_owner_may_read_the_files(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        await ledger.inbox.accept(ACCOUNT, [arrival(1)])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state").iterdir()}
        assert modes == {"ledger.sqlite": 0o600, "ledger.sqlite-wal": 0o600, "ledger.sqlite-open": 0o600}


@pytest.mark.files
async def test_a_second_connection_is_kept_out(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock):
        with pytest.raises(StorageFailed) as caught:
            await open_at(tmp_path / "state" / "ledger.sqlite", clock)
        assert caught.value.hint


@pytest.mark.files
@pytest.mark.parametrize("damage", ["garbage", "foreign", "page"])
async def test_a_damaged_file_is_set_aside_and_told(tmp_path: Path, clock: ManualClock, damage: str) -> None:
    path = tmp_path / "state" / "ledger.sqlite"
    async with opened(tmp_path, clock) as ledger:
        assert ledger.warning is None
        await ledger.inbox.accept(ACCOUNT, [arrival(number) for number in range(500)])
    if damage == "garbage":
        path.write_bytes(b"not a database at all" * 1000)
    elif damage == "foreign":
        path.unlink()
        foreign = apsw.Connection(str(path))
        foreign.execute("CREATE TABLE theirs (x)")
        foreign.close()
    else:
        with path.open("r+b") as file:
            file.seek(8192)
            file.write(os.urandom(20_000))
    before = path.read_bytes()
    async with opened(tmp_path, clock) as ledger:
        assert ledger.warning is not None
        assert "ledger.sqlite.bad-20260301T120000Z" in ledger.warning
        assert len((await ledger.inbox.accept(ACCOUNT, [arrival(1000)])).rows) == 1
    assert (tmp_path / "state" / "ledger.sqlite.bad-20260301T120000Z").read_bytes() == before
    async with opened(tmp_path, clock) as ledger:
        assert ledger.warning is None


@pytest.mark.files
async def test_a_file_that_was_only_begun_is_no_damage(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "state" / "ledger.sqlite"
    path.parent.mkdir()
    begun = apsw.Connection(str(path))
    begun.pragma("journal_mode", "WAL")
    begun.close()
    async with opened(tmp_path, clock) as ledger:
        assert ledger.warning is None
        assert len((await ledger.inbox.accept(ACCOUNT, [arrival(1)])).rows) == 1


@pytest.mark.files
async def test_a_full_disk_is_told_and_nothing_is_half_done(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        (first,) = (await ledger.inbox.accept(ACCOUNT, [arrival(1)])).rows
        turn = await ledger.turns.claim("s", "main", [first.id])
        large = "x" * 200_000
        with no_file_may_hold_more_than(100_000 + max(file.stat().st_size for file in ledger.path.parent.iterdir())):
            results = await asyncio.gather(
                ledger.inbox.accept(ACCOUNT, [arrival(2, payload=large)], Cursor(name="offset", value="3")),
                ledger.turns.finish(turn.id, "done", [chunk(large)]),
                ledger.turns.begin_call(turn.id, "call", "tool", "hash", "effect"),
                return_exceptions=True,
            )
        assert [type(result) for result in results[:2]] == [StorageFailed, StorageFailed]
        assert not isinstance(results[2], BaseException), "a small call suffered for a large one"
        assert await ledger.inbox.waiting() == []
        assert await ledger.inbox.cursor(ACCOUNT, "offset") is None
        assert [one.id for one in await ledger.turns.unfinished()] == [turn.id]

        assert len((await ledger.inbox.accept(ACCOUNT, [arrival(2, payload=large)])).rows) == 1
        await ledger.turns.finish(turn.id, "done", [chunk(large)])
        assert [row.text for row in await ledger.outbox.latest(["ready"])] == [large]


@pytest.mark.files
async def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "state" / "ledger.sqlite"
    async with opened(tmp_path, clock):
        pass
    db = apsw.Connection(str(path))
    db.pragma("user_version", 99)
    db.close()
    with pytest.raises(StorageFailed, match="version 99") as caught:
        await open_at(path, clock)
    assert "newer" in caught.value.hint
    assert path.exists()


async def test_a_closed_ledger_says_so(tmp_path: Path, clock: ManualClock) -> None:
    async with opened(tmp_path, clock) as ledger:
        pass
    with pytest.raises(StorageFailed, match="closed"):
        await ledger.inbox.waiting()


@pytest.mark.files
@given(steps=st.lists(st.tuples(st.sampled_from(["ask", "approve", "revoke", "read"]), st.sampled_from("123")), max_size=12))
@settings(max_examples=examples(40), deadline=None)
def test_who_is_approved_is_what_the_file_says_however_reads_and_changes_overlap(steps: list[tuple[str, str]]) -> None:
    async def live(folder: Path) -> None:
        async with opened(folder, ManualClock(NOON)) as ledger:

            async def step(kind: str, sender: str) -> None:
                if kind == "ask":
                    await ledger.pairing.request(CHAT, sender, "", f"code{sender}", "hello")
                elif kind == "approve":
                    await ledger.pairing.approve(CHAT.channel, f"code{sender}", "peer", "welcome")
                elif kind == "revoke":
                    await ledger.pairing.revoke(CHAT.channel, sender)
                else:
                    await ledger.pairing.approved()

            await asyncio.gather(*(step(*one) for one in steps))
            kept = [one.sender for one in await ledger.pairing.approved()]
        async with opened(folder, ManualClock(NOON)) as ledger:
            assert kept == [one.sender for one in await ledger.pairing.approved()]

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder)))
