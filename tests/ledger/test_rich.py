"""What the ledger keeps beside plain messages: edits of what waits, asides, buttons and files, groups that moved."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.messages import Button, ChatAddress, OutboundFile
from gateway.base.clock import ManualClock
from gateway.ledger import schema
from gateway.ledger.context_lines import KEPT
from gateway.ledger.job_rows import NewJob
from gateway.ledger.rows import Arrival, NewOutbound, Unasked
from gateway.ledger.values import read_payload, write_payload
from gateway.settings.quiet_hours import DailyHours, UnaskedRule
from tests.ledger.engines import open_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.ledger.protocol import Ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ACCOUNT = "telegram:default"
HALL = ChatAddress(channel="telegram", kind="group", id="-7", thread=None)
GONE = Path("/nowhere/report.pdf")


@asynccontextmanager
async def opened(folder: Path, clock: ManualClock | None = None) -> AsyncIterator[Ledger]:
    ledger = await open_at(folder / "ledger.sqlite", clock or ManualClock(NOON))
    try:
        yield ledger
    finally:
        await ledger.close()


def message(number: int, payload: str = "{}", *, sender: str = "42", takes: tuple[int, ...] = ()) -> Arrival:
    return Arrival(
        key=f"u:{number}",
        alias=f"m:{number}",
        conversation=HALL.address,
        session="s",
        sender=sender,
        payload=payload,
        received_at=NOON,
        message=str(number),
        takes=takes,
    )


def edit(number: int, of: int, text: str, *, sender: str = "42", place: ChatAddress = HALL) -> Arrival:
    return Arrival(
        key=f"u:{number}",
        alias=f"e:{number}",
        conversation=place.address,
        session="s",
        sender=sender,
        payload="{}",
        received_at=NOON,
        aside=f"[edited: {text}]",
        edits=str(of),
        reword=lambda old: f"{old} became {text}",
    )


async def test_an_edit_of_a_waiting_message_changes_it_once_and_stays_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        await ledger.inbox.accept(ACCOUNT, [message(1, "one"), message(2, "two")])
        first = await ledger.inbox.accept(ACCOUNT, [edit(3, 1, "uno")])
        again = await ledger.inbox.accept(ACCOUNT, [edit(3, 1, "uno")])
        assert (first.rows, again.rows) == ((), ())
    async with opened(tmp_path) as ledger:
        assert [row.payload for row in await ledger.inbox.waiting()] == ["one became uno", "two"]
        assert await ledger.context_events.pending(HALL.address) == []


async def test_an_edit_that_comes_with_its_message_changes_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        accepted = await ledger.inbox.accept(ACCOUNT, [message(1, "one"), edit(2, 1, "uno")])
        assert [row.alias for row in accepted.rows] == ["m:1"]
        assert [row.payload for row in await ledger.inbox.waiting()] == ["one became uno"]


async def test_an_edit_of_a_message_that_is_being_answered_is_kept_as_an_aside(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        (row,) = (await ledger.inbox.accept(ACCOUNT, [message(1, "one")])).rows
        await ledger.turns.claim("s", "main", [row.id])
        await ledger.inbox.accept(ACCOUNT, [edit(2, 1, "uno")])
        (kept,) = await ledger.inbox.rows([row.id])
        assert kept.payload == "one"
        assert [aside.line for aside in await ledger.context_events.pending(HALL.address)] == ["[edited: uno]"]
        assert await ledger.inbox.waiting() == []


async def test_where_untrusted_words_of_an_edit_come_from_is_kept_with_its_line(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        await ledger.inbox.accept(ACCOUNT, [replace(edit(2, 1, "uno"), aside_sources=("forwarded:@gif",))])
    async with opened(tmp_path) as ledger:
        (kept,) = await ledger.context_events.pending(HALL.address)
        assert (kept.line, kept.sources) == ("[edited: uno]", ("forwarded:@gif",))


async def test_what_somebody_wrote_is_found_by_the_platforms_id_and_its_sender(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        await ledger.inbox.accept(ACCOUNT, [message(1, "one"), edit(2, 1, "uno")])
        found = await ledger.inbox.written_as(HALL.address, "1", "42")
        assert found is not None
        assert found.payload == "one became uno"
        for place, number, sender in (
            (HALL.address, "1", "43"),
            (HALL.address, "2", "42"),
            ("telegram:default:group:-8", "1", "42"),
        ):
            assert await ledger.inbox.written_as(place, number, sender) is None


async def test_a_turn_says_which_of_its_messages_were_edited_while_they_waited(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        rows = (await ledger.inbox.accept(ACCOUNT, [message(n, str(n)) for n in range(1, 5)])).rows
        await ledger.inbox.accept(ACCOUNT, [edit(5, 2, "dos"), edit(6, 4, "cuatro"), edit(7, 4, "vier")])
        turn = await ledger.turns.claim("s", "main", [row.id for row in rows[:2]])
        assert turn.edited == (rows[1].id,)
        await ledger.inbox.accept(ACCOUNT, [edit(8, 1, "too late")])
        assert (await ledger.turns.join(turn.id, [rows[2].id])).edited == (rows[1].id,)
        assert (await ledger.turns.join(turn.id, [rows[3].id])).edited == (rows[1].id, rows[3].id)
        await ledger.turns.release(turn.id)
        again = await ledger.turns.claim("s", "main", [row.id for row in rows])
        assert again.edited == (rows[1].id, rows[3].id), "also when a turn was undone in between"


async def test_nobody_edits_what_another_wrote_or_what_lies_elsewhere(tmp_path: Path) -> None:
    elsewhere = ChatAddress(channel="telegram", kind="group", id="-8")
    async with opened(tmp_path) as ledger:
        await ledger.inbox.accept(ACCOUNT, [message(1, "one")])
        await ledger.inbox.accept(ACCOUNT, [edit(2, 1, "ha", sender="66"), edit(3, 1, "ha", place=elsewhere)])
        assert [row.payload for row in await ledger.inbox.waiting()] == ["one"]


async def test_asides_go_with_the_message_that_tells_them_in_one_step(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        await ledger.inbox.accept(ACCOUNT, [edit(2, 1, "a"), edit(3, 1, "b")])
        first, _ = await ledger.context_events.pending(HALL.address)
        await ledger.inbox.accept(ACCOUNT, [message(4, takes=(first.id,))])
        assert [aside.line for aside in await ledger.context_events.pending(HALL.address)] == ["[edited: b]"]


async def test_the_line_of_a_held_message_waits_with_it(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    rule = UnaskedRule(zone=ZoneInfo("UTC"), quiet=DailyHours(start="11:00", end="14:00"))
    held = Unasked(agent="main", source="hook:alarm", name="alarm", rule=rule, counts=True)
    async with opened(tmp_path, clock) as ledger:
        for number in (1, 2):
            text = NewOutbound(conversation=HALL, text=f"held {number}", key=f"hook:{number}", unasked=held)
            assert await ledger.context_events.announce(text, f"[line {number}]", agent="main", sources=["webhook:alarm"])
        assert await ledger.context_events.pending(HALL.address) == []
        await ledger.unasked.send((await ledger.unasked.waiting())[1].id)
        assert [event.line for event in await ledger.context_events.pending(HALL.address)] == ["[line 2]"]
        clock.move(3 * 3600)
        assert await ledger.unasked.release({"main": rule}) == 1
        assert await ledger.unasked.release({"main": rule}) == 0
        assert [event.line for event in await ledger.context_events.pending(HALL.address)] == ["[line 2]", "[line 1]"]


async def test_alarms_that_a_person_removed_and_jobs_that_were_paused_are_known(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    new = NewJob(
        agent="main", name="Train", schedule="cron 0 9 * * *", kind="message", text="Train: 9:00", created_by="calendar:a:1"
    )
    async with opened(tmp_path, clock) as ledger:
        jobs = [
            await ledger.jobs.add(one, NOON, "UTC")
            for one in (new, replace(new, created_by="calendar:b:1"), replace(new, created_by=""))
        ]
        await ledger.jobs.remove(jobs[0].id, by_person=True)
        await ledger.jobs.remove(jobs[1].id)
        assert await ledger.jobs.removed_alarms("calendar:") == {"calendar:a:1": "Train: 9:00"}
        assert await ledger.jobs.removed_alarms("calendar:b:") == {}
        await ledger.jobs.pause(jobs[2].id, "its chat is gone")
        assert [(job.id, job.reason) for job in await ledger.jobs.stopped(5)] == [(jobs[2].id, "its chat is gone")]
        clock.move(4 * 86_400)
        later = await ledger.jobs.add(replace(new, created_by="calendar:a:2"), NOON, "UTC")
        await ledger.jobs.remove(later.id, by_person=True)
        assert await ledger.jobs.removed_alarms("calendar:") == {"calendar:a:2": "Train: 9:00"}, "an old one is forgotten"


async def test_a_message_that_is_known_takes_no_asides(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        await ledger.inbox.accept(ACCOUNT, [message(4), edit(2, 1, "a")])
        (aside,) = await ledger.context_events.pending(HALL.address)
        await ledger.inbox.accept(ACCOUNT, [message(4, takes=(aside.id,))])
        assert await ledger.context_events.pending(HALL.address) == [aside]


async def test_asides_are_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        await ledger.inbox.accept(ACCOUNT, [edit(number, 1, str(number)) for number in range(2, KEPT + 10)])
        lines = [aside.line for aside in await ledger.context_events.pending(HALL.address)]
        assert lines == [f"[edited: {number}]" for number in range(10, KEPT + 10)]


async def test_a_platforms_id_is_known_where_it_belongs(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        await ledger.inbox.accept(ACCOUNT, [message(1)])
        (row,) = await ledger.outbox.enqueue([NewOutbound(conversation=HALL, text="here it is")])
        await ledger.outbox.sending(row)
        await ledger.outbox.sent(row, "99")
        assert [await ledger.inbox.knows(HALL.address, one) for one in ("1", "99", "2")] == [True, True, False]
        assert not await ledger.inbox.knows("telegram:default:group:-8", "1")
        assert await ledger.outbox.find_sent(HALL.address, "99") == ("here it is", HALL)
        assert await ledger.outbox.find_sent(HALL.address, "1") is None


async def test_a_message_in_a_thread_is_known_to_its_whole_group_and_to_no_other_thread(tmp_path: Path) -> None:
    thread, longer = replace(HALL, thread="5"), ChatAddress(channel="telegram", kind="group", id="-77")
    async with opened(tmp_path) as ledger:
        (row,) = await ledger.outbox.enqueue([NewOutbound(conversation=thread, text="here it is")])
        await ledger.outbox.sending(row)
        await ledger.outbox.sent(row, "99")
        assert await ledger.outbox.find_sent(HALL.address, "99") == ("here it is", thread)
        for place in (HALL, thread):
            assert await ledger.inbox.knows(place.address, "99")
        for place in (longer, replace(HALL, thread="55"), replace(HALL, thread="6")):
            assert not await ledger.inbox.knows(place.address, "99")
            assert await ledger.outbox.find_sent(place.address, "99") is None


async def test_buttons_and_a_file_come_out_as_they_went_in(tmp_path: Path) -> None:
    new = NewOutbound(
        conversation=HALL,
        text="",
        buttons=(Button(label="On", value="/verbose on"),),
        enclosure=OutboundFile(path=GONE, name="report.pdf", media_type="application/pdf"),
    )
    async with opened(tmp_path) as ledger:
        await ledger.outbox.enqueue([new, NewOutbound(conversation=HALL, text="plain")])
    async with opened(tmp_path) as ledger:
        rich, plain = await ledger.outbox.latest(["ready"])
        assert (rich.buttons, rich.enclosure) == (new.buttons, new.enclosure)
        assert (plain.buttons, plain.enclosure) == ((), None)
        assert await ledger.outbox.files() == [GONE]
        await ledger.outbox.sending(rich.id)
        await ledger.outbox.sent(rich.id, "1")
        assert await ledger.outbox.files() == []


async def test_a_file_without_words_is_named_in_the_notice_and_can_be_revived(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    enclosure = OutboundFile(path=GONE, name="report.pdf", media_type="application/pdf")
    async with opened(tmp_path, clock) as ledger:
        (row,) = await ledger.outbox.enqueue([NewOutbound(conversation=HALL, text="", enclosure=enclosure)])
        clock.move(3601)
        await ledger.outbox.poll([])
        (told,) = await ledger.outbox.latest(["ready"])
        assert "📎 report.pdf" in told.text
        await ledger.outbox.revive(row)
        assert await ledger.outbox.files() == [GONE]
        await ledger.outbox.dead(row, "no")
        clock.move(8 * 86_400)
        await ledger.sweep()
        assert await ledger.outbox.files() == []


async def test_what_has_a_name_of_its_own_is_queued_once_also_after_a_restart(tmp_path: Path) -> None:
    named = [NewOutbound(conversation=HALL, text=text, key=f"0123456789abcdef.{n}.0") for n, text in enumerate(("one", "two"))]
    async with opened(tmp_path) as ledger:
        (row,) = (await ledger.inbox.accept(ACCOUNT, [message(1)])).rows
        turn = await ledger.turns.claim("s", "main", [row.id])
        await ledger.outbox.enqueue_for_turn(turn.id, named[:1])
        first = (await ledger.outbox.latest(["ready"]))[0]
        await ledger.outbox.sending(first.id)
        await ledger.outbox.sent(first.id, "1")
    async with opened(tmp_path) as ledger:
        await ledger.outbox.enqueue_for_turn(turn.id, named)
        await ledger.turns.finish(turn.id, "done", [NewOutbound(conversation=HALL, text="three")])
        assert [row.text for row in await ledger.outbox.latest(["ready", "sent"])] == ["one", "two", "three"]


async def test_an_edit_changes_every_row_of_a_message_that_several_agents_answer(tmp_path: Path) -> None:
    async with opened(tmp_path) as ledger:
        await ledger.inbox.accept(ACCOUNT, [message(1, "one"), replace(message(1, "one"), key="u:1@b", alias="m:1@b")])
        await ledger.inbox.accept(ACCOUNT, [edit(2, 1, "uno")])
        assert [row.payload for row in await ledger.inbox.waiting()] == ["one became uno"] * 2


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.files
@given(st.lists(st.builds(Button, label=texts, value=texts), max_size=3), st.none() | texts.filter(lambda t: "\0" not in t))
def test_extras_read_back_as_they_were_written(buttons: list[Button], name: str | None) -> None:
    enclosure = (
        None if name is None else OutboundFile(path=Path("/a") / (name.replace("/", "") or "b"), name=name, media_type=name)
    )
    assert read_payload(write_payload(buttons, enclosure)) == (tuple(buttons), enclosure)
    if enclosure is not None:
        album = replace(enclosure, album=(replace(enclosure, caption=f"of {name}"), enclosure))
        assert read_payload(write_payload(buttons, album)) == (tuple(buttons), album)


async def test_what_waits_for_a_group_follows_it_in_order_and_so_does_what_comes_later(tmp_path: Path) -> None:
    old, new = (ChatAddress(channel="telegram", kind="group", id=one, thread="5") for one in ("-7", "-1007"))
    other = ChatAddress(channel="telegram", kind="group", id="-77")
    async with opened(tmp_path) as ledger:
        await ledger.outbox.enqueue([NewOutbound(conversation=old, text="one"), NewOutbound(conversation=other, text="else")])
        await ledger.inbox.accept(ACCOUNT, [edit(1, 1, "a", place=old), edit(2, 1, "b", place=other)])
        await ledger.chat_migrations.record(ACCOUNT, "-7", "-1007")
    async with opened(tmp_path) as ledger:
        await ledger.outbox.enqueue([NewOutbound(conversation=old, text="two")])
        rows = await ledger.outbox.latest(["ready"])
        assert [(row.text, row.conversation) for row in rows] == [("one", new), ("else", other), ("two", new)]
        assert [aside.line for aside in await ledger.context_events.pending(new.address)] == ["[edited: a]"]
        assert [aside.line for aside in await ledger.context_events.pending(other.address)] == ["[edited: b]"]
        (due, _) = await ledger.outbox.due([ACCOUNT])
        assert due.text == "one"


async def test_a_group_that_moves_twice_is_found_under_its_last_id_from_each_former_one(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    async with opened(tmp_path, clock) as ledger:
        for former, present in (("a", "b"), ("b", "c"), ("b", "c"), ("c", "c")):
            await ledger.chat_migrations.record(ACCOUNT, former, present)
            clock.move(1)
        assert [(move.former, move.present) for move in await ledger.chat_migrations.all()] == [("a", "c"), ("b", "c")]
        await ledger.chat_migrations.record(ACCOUNT, "c", "a")
        assert {(move.former, move.present) for move in await ledger.chat_migrations.all()} == {("b", "a"), ("c", "a")}
        await ledger.outbox.enqueue(
            [NewOutbound(conversation=ChatAddress(channel="telegram", kind="direct", id="b"), text="x")]
        )
        assert [row.conversation.id for row in await ledger.outbox.latest(["ready"])] == ["b"]


@pytest.mark.files
async def test_a_ledger_of_the_version_before_is_taken_along(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    db = apsw.Connection(str(path))
    for step in schema.STEPS[:2]:
        db.execute(step)
    db.execute("INSERT INTO meta VALUES ('epoch', 'e')")
    db.execute(
        "INSERT INTO outbox (place, key, account, conversation, target, text, state, epoch, created_at, not_before, expires) "
        """VALUES (1, 'k', 'telegram:default', ?, '{"channel": "telegram", "kind": "group", "id": "-7"}', 'old', 'ready', 'e', """
        "0, 0, 9000000000000000)",
        (HALL.address,),
    )
    db.execute("PRAGMA user_version = 2")
    db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    db.close()
    async with opened(tmp_path) as ledger:
        (row,) = await ledger.outbox.latest(["ready"])
        assert (row.text, row.buttons, row.enclosure, row.conversation) == ("old", (), None, HALL)
        assert await ledger.chat_migrations.all() == []


@pytest.mark.files
async def test_messages_that_waited_in_a_ledger_of_the_version_before_count_as_not_edited(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    db = apsw.Connection(str(path))
    for step in schema.STEPS[:4]:
        db.execute(step)
    db.execute("INSERT INTO meta VALUES ('epoch', 'e')")
    db.execute(
        "INSERT INTO inbox (account, pkey, skey, conversation, session, sender, payload, received_at, message, state) "
        "VALUES (?, 'u:1', 'm:1', ?, 's', '42', 'one', 0, '1', 'waiting')",
        (ACCOUNT, HALL.address),
    )
    db.execute("PRAGMA user_version = 4")
    db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    db.close()
    async with opened(tmp_path) as ledger:
        (row,) = await ledger.inbox.waiting()
        turn = await ledger.turns.claim("s", "main", [row.id])
        assert (row.payload, turn.inbox, turn.edited) == ("one", (row.id,), ())


async def test_moves_of_one_account_leave_another_alone(tmp_path: Path) -> None:
    other = ChatAddress(channel="telegram", account="second", kind="group", id="-7")
    async with opened(tmp_path) as ledger:
        await ledger.outbox.enqueue([NewOutbound(conversation=other, text="x", ttl=timedelta(hours=1))])
        await ledger.chat_migrations.record(ACCOUNT, "-7", "-1007")
        assert [row.conversation for row in await ledger.outbox.latest(["ready"])] == [other]
