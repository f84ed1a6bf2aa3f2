"""Copies of a ledger in use: whole, rotated, private; and what they are good for when the file itself is lost."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.messages import Cursor
from gateway.base.clock import ManualClock
from gateway.ledger.ledger_backup import KEPT, PAGES, copies_of
from gateway.ledger.rows import IN_DOUBT, NewOutbound
from gateway.ledger.schema import STEPS
from gateway.ledger.sqlite import SqliteLedger
from tests.full_disk import no_file_may_grow
from tests.ledger.test_recovery import (
    ACCOUNT,
    DAMAGE,
    MESSAGES,
    NOON,
    OPEN,
    REPLIES,
    Original,
    arrival,
    harmed,
    lived,
    nothing_twice,
    opened_again,
    place,
    table,
    zeros,
)
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable


def rubbish(path: Path) -> None:
    path.write_bytes(random.Random(3).randbytes(30 * 4096))


def gone(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


async def copied(path: Path, messages: int = 0) -> Path:
    """Open a ledger, accept messages, copy and close it; return the copy."""
    ledger = await SqliteLedger.open(path, ManualClock(NOON))
    await ledger.inbox.accept(ACCOUNT, [arrival(2000 + number) for number in range(messages)])
    copy = await ledger.backup()
    assert copy is not None
    await ledger.close()
    return copy


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a life behind it and one copy, closed in order."""
    path = tmp_path_factory.mktemp("original") / "ledger.sqlite"
    asyncio.run(lived(path))
    asyncio.run(copied(path))
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / original.name


def check(copy: Path) -> None:
    assert copy.stat().st_mode & 0o777 == 0o600
    db = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
    assert db.pragma("integrity_check") == "ok"
    assert db.pragma("journal_mode") == "delete", "it needs no file beside it"
    db.close()


async def test_a_copy_is_made_when_something_changed_and_the_newest_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = await SqliteLedger.open(path, ManualClock(NOON))
    made = [await ledger.backup()]
    assert await ledger.backup() is None, "nothing changed"
    for number in range(KEPT + 1):
        await ledger.inbox.accept(ACCOUNT, [arrival(number)])
        made.append(await ledger.backup())
        assert await ledger.backup() is None, "nothing changed"
    assert copies_of(path) == made[: -KEPT - 1 : -1]
    for copy in copies_of(path):
        check(copy)
    assert len(table(copies_of(path)[0], MESSAGES)) == KEPT + 1
    await ledger.close()
    assert set(os.listdir(tmp_path)) == {"ledger.sqlite", *(copy.name for copy in copies_of(path))}  # noqa: PTH208
    again = await SqliteLedger.open(path, ManualClock(NOON))
    assert await again.backup() is None, "nothing changed since the last process copied it"
    await again.inbox.accept(ACCOUNT, [arrival(100)])
    assert await again.backup() is not None
    assert copies_of(path)[0].name > str(made[-1]).rpartition("/")[2]
    await again.close()


async def test_nothing_of_the_ledger_stays_in_memory_behind_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = await SqliteLedger.open(path, ManualClock(NOON))
    for number in range(80):
        await ledger.outbox.enqueue([NewOutbound(conversation=place(number), text="x" * 100_000)])
    before = apsw.memory_used()
    assert await ledger.backup() is not None
    assert apsw.memory_used() < before - 1_000_000
    await ledger.close()


async def test_what_is_written_while_a_copy_is_made_is_whole_in_it(tmp_path: Path) -> None:
    """Larger than one step, so that calls come between."""
    path = tmp_path / "ledger.sqlite"
    ledger = await SqliteLedger.open(path, ManualClock(NOON))
    long = "x" * 100_000
    for number in range(3 * PAGES * 4096 // 100_000):
        await ledger.outbox.enqueue([NewOutbound(conversation=place(number), text=long)])
    copying = asyncio.create_task(ledger.backup())
    written = 0
    while not copying.done():
        await ledger.inbox.accept(ACCOUNT, [arrival(written)], Cursor(name="offset", value=str(written)))
        written += 1
    copy = copying.result()
    assert copy is not None
    check(copy)
    messages = table(copy, MESSAGES)
    assert set(messages) == {f"m:{number}" for number in range(len(messages))}
    assert table(copy, "SELECT name, value FROM cursor").get("offset", ("-1",)) == (str(len(messages) - 1),)
    assert len(await ledger.inbox.waiting()) == written
    await ledger.close()


async def test_a_copy_that_the_disk_refuses_leaves_the_older_ones_and_the_ledger_as_they_were(path: Path) -> None:
    (older,) = copies_of(path)
    before = older.read_bytes()
    ledger = await SqliteLedger.open(path, ManualClock(NOON))
    await ledger.inbox.accept(ACCOUNT, [arrival(3000)])
    with no_file_may_grow():
        assert await ledger.backup() is None
    assert copies_of(path) == [older]
    assert not list(path.parent.glob("*.part*")), "it takes no room"
    assert older.read_bytes() == before
    await ledger.inbox.accept(ACCOUNT, [arrival(3001)])
    assert await ledger.backup() is not None, "the next one is tried anew"
    assert await ledger.backup() is None
    await ledger.close()


async def test_a_ledger_that_is_closed_while_it_is_copied_is_closed_all_the_same(path: Path) -> None:
    ledger = await SqliteLedger.open(path, ManualClock(NOON))
    await ledger.inbox.accept(ACCOUNT, [arrival(3000)])
    copying = asyncio.create_task(ledger.backup())
    await asyncio.sleep(0)
    await ledger.close()
    await copying
    for copy in copies_of(path):
        check(copy)
    again = await SqliteLedger.open(path, ManualClock(NOON))
    assert again.warning is None
    await again.close()


async def test_a_ledger_that_was_not_closed_in_order_is_copied_though_nothing_changes(path: Path) -> None:
    ledger = await SqliteLedger.open(path, ManualClock(NOON))
    await ledger.inbox.accept(ACCOUNT, [arrival(3000)])
    killed = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    await ledger.close()
    for name, data in killed.items():
        (path.parent / name).write_bytes(data)
    again = await SqliteLedger.open(path, ManualClock(NOON))
    copy = await again.backup()
    assert copy is not None
    assert "m:3000" in table(copy, MESSAGES)
    await again.close()


@pytest.mark.parametrize("harm", [rubbish, gone, emptied])
def test_what_is_lost_altogether_comes_from_the_copy_and_nothing_open_in_it_goes_on_by_itself(
    path: Path, harm: Callable[[Path], None]
) -> None:
    messages, replies = table(path, MESSAGES), table(path, REPLIES)
    people, spent = table(path, "SELECT sender, role FROM approved"), table(path, "SELECT id, tokens, cost FROM spending")
    harm(path)
    told = opened_again(path)
    assert told is not None
    assert "What could not be read was taken from the copy ledger.sqlite.copy-000001" in told
    assert "7 messages may have been answered already or not: `homebody inbox missed`" in told
    assert "Ben" in told, "who may have been revoked since must pair again"
    after = {key: row for key, row in table(path, MESSAGES).items() if key != "m:5000"}
    assert after.keys() == messages.keys(), "each is known, so that none is answered twice"
    assert not {state for state, *_ in after.values()} & OPEN
    reasons = table(path, "SELECT skey, reason FROM inbox")
    assert {key for key, row in reasons.items() if row[0] == IN_DOUBT} == {
        key for key, row in messages.items() if row[0] in OPEN
    }
    said = {key: row for key, row in table(path, REPLIES).items() if row[1] != "the house speaks"}
    assert {key: row[1:3] for key, row in said.items()} == {key: row[1:3] for key, row in replies.items()}
    assert {state for state, *_ in said.values()} == {"sent", "dead"}
    assert all(row[3] for key, row in said.items() if replies[key][0] in OPEN), (
        "it is marked as repeated when somebody asks for it"
    )
    assert table(path, "SELECT sender, role FROM approved") == {who: row for who, row in people.items() if row[0] == "owner"}
    assert table(path, "SELECT id, tokens, cost FROM spending") == spent
    assert table(path, "SELECT former, present FROM moved") == {"-1": ("-2",)}
    assert table(path, "SELECT name, value FROM cursor") == {}, "what came after the copy would be heard again"


async def go_on(path: Path) -> None:
    """Answer and send everything that was open when the copy was made, and revoke an approval."""
    ledger = await SqliteLedger.open(path, ManualClock(NOON + timedelta(seconds=1)))
    for turn in await ledger.turns.unfinished():
        await ledger.turns.finish(turn.id, "done")
    for row in await ledger.inbox.waiting():
        await ledger.inbox.settle([row.id], "answered")
    while due := await ledger.outbox.due([ACCOUNT]):
        for out in due:
            await ledger.outbox.sending(out.id)
            await ledger.outbox.sent(out.id, "seen")
    await ledger.pairing.revoke("telegram", "ben")
    await ledger.inbox.accept(ACCOUNT, [arrival(4000)])
    await ledger.close()


@pytest.fixture(scope="module")
def went_on(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Original:
    folder = tmp_path_factory.mktemp("went on")
    shutil.copytree(original.parent, folder, dirs_exist_ok=True)
    asyncio.run(go_on(folder / original.name))
    return Original.read(folder / original.name)


@settings(max_examples=examples(30), deadline=None)
@given(damage=DAMAGE, cut=st.none() | st.integers(0, 10**7), header=st.booleans())
def test_what_was_done_since_the_copy_is_not_done_again(
    went_on: Original, damage: list[tuple[Callable[..., None], int, int]], cut: int | None, header: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = harmed(went_on, Path(folder), [*damage, (zeros, 0, 0)] if header else damage, cut)
        opened_again(path)
        nothing_twice(path, went_on)
        known = {key for key, (state, *_) in table(path, MESSAGES).items() if state not in OPEN}
        assert known >= went_on.messages.keys() - {"m:4000"}, "all that the copy knows is known"


def test_what_happened_since_the_copy_counts_where_the_file_can_be_read(path: Path) -> None:
    async def live() -> None:
        ledger = await SqliteLedger.open(path, ManualClock(NOON + timedelta(seconds=1)))
        for row in await ledger.inbox.waiting():
            await ledger.inbox.settle([row.id], "answered")
        for out in await ledger.outbox.due([ACCOUNT]):
            await ledger.outbox.sending(out.id)
            await ledger.outbox.sent(out.id, "seen")
        await ledger.pairing.revoke("telegram", "anna")
        await ledger.close()

    asyncio.run(live())
    messages, replies = table(path, MESSAGES), table(path, REPLIES)
    data = bytearray(path.read_bytes())
    data[:100] = bytes(100)
    path.write_bytes(data)
    told = opened_again(path)
    assert told is not None
    assert "Anna" not in told
    after = table(path, MESSAGES)
    for key, row in messages.items():
        assert after[key][0] == row[0] or (row[0] == "claimed" and after[key][0] == "failed"), key
    said = table(path, REPLIES)
    assert all(said[key][0] == "sent" for key, row in replies.items() if row[0] == "sent")
    assert table(path, "SELECT sender, role FROM approved") == {"ben": ("peer",)}


def test_a_copy_that_is_damaged_or_of_a_later_version_is_passed_over(path: Path) -> None:
    asyncio.run(copied(path, messages=1))
    asyncio.run(copied(path, messages=2))
    third, second, _ = copies_of(path)
    rubbish(third)
    db = apsw.Connection(str(second))
    db.pragma("user_version", len(STEPS) + 1)
    db.close()
    rubbish(path)
    told = opened_again(path)
    assert told is not None
    assert "from the copy ledger.sqlite.copy-000001" in told
    assert "m:0" in table(path, MESSAGES)


@settings(max_examples=examples(15), deadline=None)
@given(flips=st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 7)), min_size=1, max_size=40))
def test_flipped_bits_in_a_copy_keep_no_gateway_from_starting(
    original: Path, tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("flips")
    shutil.copytree(original.parent, folder, dirs_exist_ok=True)
    (copy,) = copies_of(folder / original.name)
    data = bytearray(copy.read_bytes())
    for at, bit in flips:
        data[at % len(data)] ^= 1 << bit
    copy.write_bytes(data)
    rubbish(folder / original.name)
    opened_again(folder / original.name)
    shutil.rmtree(folder)


async def test_a_first_start_beside_no_copies_is_told_of_nothing(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    assert ledger.warning is None
    await ledger.close()
