"""A ledger that is really damaged: what can be read of it is saved, nothing is made up, and nothing is said or answered again."""

from __future__ import annotations

import asyncio
import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.messages import ChatAddress, Cursor
from gateway.api.handlers.queues import QueueHandlers
from gateway.base.clock import ManualClock
from gateway.base.errors import UsageError
from gateway.ledger.ledger_file import examined
from gateway.ledger.rows import IN_DOUBT, Arrival, NewApproval, NewOutbound
from gateway.ledger.schema import shape
from gateway.ledger.spending_rows import NewCall, Spent
from gateway.ledger.sqlite import SqliteLedger
from tests.ledger.test_spending_totals import totals_of
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.ledger.rows import InboxRow

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ACCOUNT = "telegram:default"
PAGE = 4096
VERSION = range(60, 64)
"""Where the header has the version of the tables."""
WORDS = "many words of somebody, so that rows are long and pages are full. " * 12


def place(number: int) -> ChatAddress:
    return ChatAddress(channel="telegram", kind="direct", id=str(number % 5))


def arrival(number: int) -> Arrival:
    long = WORDS * 12 if number % 9 == 0 else WORDS
    return Arrival(
        key=f"u:{number}",
        alias=f"m:{number}",
        conversation=place(number).address,
        session=f"s{number % 5}",
        sender=str(number % 5),
        payload=f'{{"v": 1, "text": "message {number} {long}"}}',
        received_at=NOON,
        message=str(number),
    )


async def lived(path: Path, *, messages: int = 60, before_end: Callable[[], None] = lambda: None) -> None:
    """A ledger with a life behind it: most messages answered, some of the last ones open in each way that there is."""
    clock = ManualClock(NOON)
    ledger = await SqliteLedger.open(path, clock)
    for number in range(messages):
        (row,) = (await ledger.inbox.accept(ACCOUNT, [arrival(number)], Cursor(name="offset", value=str(number)))).rows
        if number >= messages - 4:  # nobody came to it yet
            continue
        turn = await ledger.turns.claim(f"s{number % 5}", "main", [row.id])
        if number >= messages - 7:  # being answered
            if number > messages - 7:  # and waiting for its owner, who has decided one of the two
                await ledger.turns.suspend(turn.id, [question(number, clock)], [])
            continue
        text = f"answer {number} {WORDS * 10 if number % 7 == 0 else WORDS}"
        await ledger.turns.finish(turn.id, "done", [NewOutbound(conversation=place(number), text=text, ttl=timedelta(days=1))])
        call = NewCall(day="2026-03-01", agent="main", session="s", model="m", background=False, tokens=100, usd=0.01)
        reserved = (await ledger.spending.reserve(call, [])).row
        assert reserved is not None
        await ledger.spending.settle_call(reserved, Spent(input=60, output=7, cost=0.005, estimated=number % 2 == 0))
        if number < messages - 9:
            for out in await ledger.outbox.due([ACCOUNT]):
                await ledger.outbox.sending(out.id)
                await ledger.outbox.sent(out.id, f"p{out.id}")
    decided = await ledger.approvals.decide(f"q{messages - 5}", 1, "approved", by="owner")
    assert decided is not None
    assert decided.resumed
    (first, *_) = await ledger.outbox.due([ACCOUNT])
    await ledger.outbox.sending(first.id)  # and nobody knows whether it arrived
    for name in ("anna", "ben"):
        request = await ledger.pairing.request(replace(place(1), id=name), name, name.title(), f"code-{name}", "hello")
        assert request is not None
        await ledger.pairing.approve("telegram", f"code-{name}", "owner" if name == "anna" else "peer", "welcome")
    await ledger.chat_migrations.record(ACCOUNT, "-1", "-2")
    before_end()
    await ledger.close()


def question(number: int, clock: ManualClock) -> NewApproval:
    return NewApproval(
        id=f"q{number}",
        round=1,
        session=f"s{number % 5}",
        transcript="t",
        agent="main",
        place=place(number),
        call="1/c",
        payload='{"summary": "run rm"}',
        fingerprint="f",
        expires=clock.now() + timedelta(minutes=30),
    )


def table(path: Path, query: str) -> dict[Any, tuple[Any, ...]]:
    db = apsw.Connection(str(path))
    try:
        return {row[0]: row[1:] for row in db.execute(query)}
    finally:
        db.close()


MESSAGES = "SELECT skey, state, payload, sender, conversation FROM inbox"
REPLIES = "SELECT key, state, text, target, doubts FROM outbox"
OPEN = {"waiting", "claimed", "ready", "sending", "ambiguous"}


class Original:
    """One ledger on which many are modelled, and what was in it."""

    def __init__(self, folder: Path) -> None:
        asyncio.run(lived(folder / "ledger.sqlite"))
        self.take(folder / "ledger.sqlite")

    @classmethod
    def read(cls, path: Path) -> Original:
        """One that was made already."""
        original = cls.__new__(cls)
        original.take(path)
        return original

    def take(self, path: Path) -> None:
        self.files = {one.name: one.read_bytes() for one in path.parent.iterdir()}
        self.messages, self.replies = table(path, MESSAGES), table(path, REPLIES)
        self.people = table(path, "SELECT sender, role FROM approved")
        self.questions = table(path, "SELECT id, state FROM approval")
        self.spent = table(path, "SELECT id, tokens, cost FROM spending")

    def put(self, folder: Path) -> Path:
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        return folder / "ledger.sqlite"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return Original(tmp_path_factory.mktemp("closed"))


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Original:
    """Its log is whole, and its mark lies beside it, as behind a process that was killed."""
    folder = tmp_path_factory.mktemp("crashed")
    path = folder / "ledger.sqlite"
    keep: dict[str, bytes] = {}

    async def live() -> None:
        clock = ManualClock(NOON)
        await lived(path)
        ledger = await SqliteLedger.open(path, clock)  # what was written so far is in the file itself
        await ledger.inbox.accept(ACCOUNT, [arrival(1000)])
        for out in await ledger.outbox.due([ACCOUNT], limit=1):
            await ledger.outbox.sending(out.id)
            await ledger.outbox.sent(out.id, "seen")
        keep.update({one.name: one.read_bytes() for one in folder.iterdir()})
        await ledger.close()

    asyncio.run(live())
    original = Original.__new__(Original)
    original.messages, original.replies = table(path, MESSAGES), table(path, REPLIES)
    original.people = table(path, "SELECT sender, role FROM approved")
    original.questions = table(path, "SELECT id, state FROM approval")
    original.spent = table(path, "SELECT id, tokens, cost FROM spending")
    original.files = keep
    assert "ledger.sqlite-wal" in keep
    assert "ledger.sqlite-open" in keep
    return original


def opened_again(path: Path) -> str | None:
    """Open the ledger as a house does, ask it all that a house asks, and close it; return what its owner is told."""

    async def live() -> str | None:
        ledger = await SqliteLedger.open(path, ManualClock(NOON + timedelta(minutes=1)))
        await ledger.inbox.waiting()
        await ledger.outbox.due([ACCOUNT])
        await ledger.outbox.poll([])
        await ledger.pairing.approved()
        await ledger.spending.usage("2026-01-01")
        await ledger.pairing.pending()
        await ledger.chat_migrations.all()
        await ledger.outbox.files()
        await ledger.inbox.accept(ACCOUNT, [arrival(5000)])
        await ledger.outbox.enqueue([NewOutbound(conversation=place(1), text="the house speaks")])
        await ledger.sweep()
        await ledger.close()
        return ledger.warning

    return asyncio.run(live())


def nothing_twice(path: Path, was: Original) -> None:
    """Hold what must be true of every ledger that was saved from the original."""
    messages, replies = table(path, MESSAGES), table(path, REPLIES)
    for key, (state, payload, sender, conversation) in messages.items():
        if key == "m:5000":
            continue
        before = was.messages[key]
        assert (sender, conversation) == before[2:]
        assert payload in (None, before[1])
        if state in OPEN:
            assert before[0] in OPEN, f"{key} was {before[0]}, and is to be answered again"
    for key, (state, text, target, doubts) in replies.items():
        if text == "the house speaks":
            continue
        before = was.replies[key]
        assert (text, target) == before[1:3]
        if state in OPEN:
            assert before[0] in OPEN, f"{key} was {before[0]}, and is to be said again"
        if before[0] in {"sending", "ambiguous"}:
            assert state != "ready"
            assert doubts or state == "dead"
    saved = not list(path.parent.glob("ledger.sqlite.bad-*"))
    for name, (state,) in table(path, "SELECT id, state FROM approval").items():
        assert name in was.questions
        assert state == was.questions[name][0] if saved else state not in {"pending", "approved"}, f"{name}: its turn is gone"
    assert table(path, "SELECT sender, role FROM approved").items() <= was.people.items()
    assert table(path, "SELECT id, tokens, cost FROM spending").items() <= was.spent.items()
    if not saved:  # what is flipped in a file that can be used may be in any figure
        db = apsw.Connection(str(path))
        totals_of(db)
        db.close()


def rubbish(data: bytearray, at: int, seed: int) -> None:
    data[at : at + PAGE] = random.Random(seed).randbytes(len(data[at : at + PAGE]))


def zeros(data: bytearray, at: int, _seed: int) -> None:
    data[at : at + PAGE] = bytes(len(data[at : at + PAGE]))


DAMAGE = st.lists(
    st.tuples(st.sampled_from((rubbish, zeros)), st.integers(0, 400), st.integers(0, 9)),
    min_size=1,
    max_size=6,
)


def damaged(path: Path, damage: list[tuple[Callable[..., None], int, int]]) -> Path:
    """Damage pages of a closed ledger in place."""
    data = bytearray(path.read_bytes())
    for harm, page, seed in damage:
        harm(data, page % (len(data) // PAGE) * PAGE, seed)
    path.write_bytes(data)
    return path


def harmed(was: Original, folder: Path, damage: list[tuple[Callable[..., None], int, int]], cut: int | None) -> Path:
    path = damaged(was.put(folder), damage)
    if cut is not None:
        data = path.read_bytes()
        path.write_bytes(data[: max(PAGE, cut % len(data))])
    return path


@settings(max_examples=examples(20), deadline=None)
@given(damage=DAMAGE, cut=st.none() | st.integers(0, 10**7))
def test_what_is_saved_was_there_and_nothing_is_said_again(
    closed: Original, damage: list[tuple[Callable[..., None], int, int]], cut: int | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = harmed(closed, Path(folder), damage, cut)
        opened_again(path)
        nothing_twice(path, closed)


@settings(max_examples=examples(20), deadline=None)
@given(damage=DAMAGE, cut=st.none() | st.integers(0, 10**7), log=st.sampled_from(("whole", "gone", "rubbish")))
def test_after_a_crash_nothing_that_was_open_goes_on_by_itself(
    crashed: Original, damage: list[tuple[Callable[..., None], int, int]], cut: int | None, log: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = harmed(crashed, Path(folder), damage, cut)
        if log == "gone":
            Path(f"{path}-wal").unlink()
        elif log == "rubbish":
            Path(f"{path}-wal").write_bytes(random.Random(1).randbytes(9 * PAGE))
        warning = opened_again(path)
        nothing_twice(path, crashed) if log == "whole" else None
        if warning is not None and "set aside" in warning:
            states = {state for key, (state, *_) in table(path, MESSAGES).items() if key != "m:5000"}
            states |= {state for state, text, *_ in table(path, REPLIES).values() if text != "the house speaks"}
            assert not states & OPEN


@settings(max_examples=examples(20), deadline=None)
@given(flips=st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 7)), min_size=1, max_size=40))
@example(flips=[(1794006, 0)])  # in the address of an approved person
def test_flipped_bits_keep_no_house_from_starting(closed: Original, flips: list[tuple[int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = closed.put(Path(folder))
        data = bytearray(path.read_bytes())
        for at, bit in flips:
            if at % len(data) not in VERSION:  # a ledger of a later version is left alone, whoever wrote that number
                data[at % len(data)] ^= 1 << bit
        path.write_bytes(data)
        opened_again(path)
        assert opened_again(path) is None, "what was begun anew is sound"


def test_a_key_of_an_index_that_lost_a_bit_is_found_at_the_opening_and_not_at_each_change(
    closed: Original, tmp_path: Path
) -> None:
    path = closed.put(tmp_path)
    root = table(path, "SELECT name, rootpage FROM sqlite_schema WHERE name = 'outbox_open'")["outbox_open"][0]
    data = bytearray(path.read_bytes())
    at = data.rindex(b"telegram:default:direct:", (root - 1) * PAGE, root * PAGE)
    data[at] ^= 1
    path.write_bytes(data)
    db = apsw.Connection(str(path))
    assert db.pragma("quick_check") == "ok"
    db.close()
    warning = opened_again(path)
    assert warning is not None
    assert "missing from index outbox_open" in warning
    nothing_twice(path, closed)
    assert opened_again(path) is None


def test_a_reply_whose_address_cannot_be_read_stops_none_of_the_others(closed: Original, tmp_path: Path) -> None:
    path = closed.put(tmp_path)
    (number,) = table(path, "SELECT min(id) FROM outbox WHERE state = 'ready'")
    db = apsw.Connection(str(path))
    db.execute("UPDATE outbox SET target = replace(target, 'kind', 'kine') WHERE id = ?", (number,))
    db.close()
    assert "a row of its table outbox cannot be read" in examined(path).damage
    warning = opened_again(path)
    assert warning is not None
    assert "a row of its table outbox cannot be read" in warning
    states = [state for state, *_ in table(path, "SELECT key, state FROM outbox").values()]
    assert states.count("ready") == sum(row[0] == "ready" for row in closed.replies.values())  # one is lost, one is new
    assert opened_again(path) is None


def test_a_ledger_whose_header_is_gone_is_saved_whole_when_it_was_closed_in_order(closed: Original, tmp_path: Path) -> None:
    path = closed.put(tmp_path)
    data = bytearray(path.read_bytes())
    data[:100] = bytes(100)
    path.write_bytes(data)
    warning = opened_again(path)
    assert warning is not None
    assert "Saved from it: 4 messages that wait, " in warning
    after = table(path, MESSAGES)
    assert closed.messages.keys() <= after.keys()
    assert [key for key, row in after.items() if row[0] == "waiting"] == ["m:56", "m:57", "m:58", "m:59", "m:5000"]
    doubtful = [key for key, row in after.items() if row[0] == "failed"]
    assert doubtful == ["m:53", "m:54", "m:55"], "what was being answered is for the owner to decide"
    replies = table(path, REPLIES)
    assert closed.replies.keys() <= replies.keys()
    was_ready = {key for key, row in closed.replies.items() if row[0] == "ready"}
    assert was_ready
    assert {key for key, row in replies.items() if row[0] == "ready" and row[1] != "the house speaks"} == was_ready
    assert [row[0] for key, row in replies.items() if closed.replies.get(key, ("",))[0] == "sending"] == ["ambiguous"]
    assert table(path, "SELECT sender, role FROM approved") == closed.people
    assert table(path, "SELECT id, tokens, cost FROM spending") == closed.spent
    assert table(path, "SELECT name, value FROM cursor") == {"offset": ("59",)}
    assert table(path, "SELECT former, present FROM moved") == {"-1": ("-2",)}


def test_a_ledger_with_the_root_of_its_messages_gone_is_saved_from_the_pages_that_nothing_leads_to(
    closed: Original, tmp_path: Path
) -> None:
    path = closed.put(tmp_path)
    root = table(path, "SELECT name, rootpage FROM sqlite_schema WHERE name = 'inbox'")["inbox"][0]
    data = bytearray(path.read_bytes())
    zeros(data, (root - 1) * PAGE, 0)
    path.write_bytes(data)
    warning = opened_again(path)
    after = table(path, MESSAGES)
    assert closed.messages.keys() <= after.keys(), "each is known, so that none is heard twice"
    assert sum(row[0] == "waiting" for row in after.values()) == 1, "the one that came since"
    assert sum(row[0] == "failed" for row in after.values()) == 7
    assert warning is not None
    assert "7 messages may have been answered already or not: `homebody inbox missed`" in warning
    reasons = table(path, "SELECT skey, reason FROM inbox")
    assert {key for key, row in reasons.items() if row[0] == IN_DOUBT} == {f"m:{n}" for n in range(53, 60)}


def test_a_log_that_is_gone_is_noticed_though_the_file_itself_is_sound(crashed: Original, tmp_path: Path) -> None:
    path = crashed.put(tmp_path)
    Path(f"{path}-wal").unlink()
    warning = opened_again(path)
    assert warning is not None
    assert "its write-ahead log is gone" in warning
    assert "Other messages and replies may be missing altogether" in warning
    assert "Ben" in warning, "who may have been shut out since must ask anew"
    assert table(path, "SELECT sender, role FROM approved") == {"anna": ("owner",)}
    nothing_twice_but_for_the_log = {state for state, text, *_ in table(path, REPLIES).values() if text != "the house speaks"}
    assert nothing_twice_but_for_the_log <= {"sent", "dead"}


def test_a_crashed_ledger_that_somebody_looked_into_is_no_lost_one(crashed: Original, tmp_path: Path) -> None:
    path = crashed.put(tmp_path)
    assert "m:1000" in table(path, MESSAGES), "SQLite puts the log into the file"
    assert not Path(f"{path}-wal").exists()
    assert opened_again(path) is None


def test_the_newest_states_are_read_out_of_the_log(crashed: Original, tmp_path: Path) -> None:
    path = crashed.put(tmp_path)
    data = bytearray(path.read_bytes())
    data[:16] = bytes(16)
    path.write_bytes(data)
    opened_again(path)
    assert "m:1000" in table(path, MESSAGES), "it was in the log only"
    nothing_twice(path, crashed)


@pytest.mark.parametrize(("ending", "kept"), [("closed", {"offset", "previews"}), ("killed", {"offset"})])
def test_a_preview_that_may_be_an_answer_by_now_is_not_taken_from_a_damaged_ledger(
    tmp_path: Path, ending: str, kept: set[str]
) -> None:
    (made := tmp_path / "made").mkdir()

    async def live() -> dict[str, bytes]:
        ledger = await SqliteLedger.open(made / "ledger.sqlite", ManualClock(NOON))
        for name in ("offset", "previews"):
            await ledger.inbox.accept(ACCOUNT, [], Cursor(name=name, value="1"))
        await ledger.close()
        again = await SqliteLedger.open(made / "ledger.sqlite", ManualClock(NOON)) if ending == "killed" else None
        files = {one.name: one.read_bytes() for one in made.iterdir()}
        if again is not None:
            await again.close()
        return files

    for name, data in asyncio.run(live()).items():
        (tmp_path / name).write_bytes(bytes(16) + data[16:] if name == "ledger.sqlite" else data)
    assert opened_again(tmp_path / "ledger.sqlite") is not None
    assert set(table(tmp_path / "ledger.sqlite", "SELECT name, value FROM cursor")) == kept


def test_a_file_of_nothing_but_rubbish_says_that_nothing_could_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(random.Random(3).randbytes(30 * PAGE))
    warning = opened_again(path)
    assert warning is not None
    assert "Nothing could be saved" in warning


async def test_a_message_in_doubt_is_answered_once_its_owner_asks_for_it(closed: Original, tmp_path: Path) -> None:
    path = closed.put(tmp_path)
    data = bytearray(path.read_bytes())
    data[:100] = bytes(100)
    path.write_bytes(data)
    ledger = await SqliteLedger.open(path, ManualClock(NOON))
    handed: list[InboxRow] = []

    async def hand_out(row: InboxRow) -> None:
        handed.append(row)

    desk = QueueHandlers(ledger, hand_out).calls()
    missed = (await desk["inbox.missed"]())["inbox"]
    assert [(row["reason"], row["state"]) for row in missed] == [(IN_DOUBT, "failed")] * 3
    await desk["inbox.retry"](row=missed[0]["id"])
    assert [row.alias for row in handed] == ["m:53"]
    assert "m:53" in [row.alias for row in await ledger.inbox.waiting()]
    for number in (missed[0]["id"], 1, 4000):
        with pytest.raises(UsageError, match="no message"):
            await desk["inbox.retry"](row=number)
    await ledger.close()


@pytest.mark.parametrize(
    "change",
    [
        "DROP INDEX inbox_of_message; CREATE INDEX inbox_of_message ON inbox (conversation, message)",
        "DROP INDEX outbox_of_platform",
        "CREATE INDEX somebodys ON inbox (state)",
    ],
)
async def test_a_ledger_whose_indexes_are_not_as_they_should_be_gets_them_and_loses_nothing(
    change: str, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.sqlite"
    await lived(path)
    db = apsw.Connection(str(path))
    intended, count = shape(db), db.execute("SELECT count(*) FROM inbox").fetchone()
    db.execute(change)
    assert shape(db) != intended
    db.close()
    ledger = await SqliteLedger.open(path, ManualClock(NOON))
    assert not ledger.warning
    await ledger.close()
    db = apsw.Connection(str(path))
    assert (shape(db), db.execute("SELECT count(*) FROM inbox").fetchone()) == (intended, count)
    db.close()
