"""Damage anywhere in a ledger and its write-ahead log, behind a process that was killed: nothing is lost untold, nothing is said again."""

from __future__ import annotations

import asyncio
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.base.clock import ManualClock
from gateway.ledger.rows import IN_DOUBT
from gateway.ledger.sqlite import SqliteLedger
from gateway.ledger.sqlite_engine import CHECKPOINT_AT, FRAME_HEADER, HEADER, Mark, read_log
from tests.ledger.test_recovery import ACCOUNT, MESSAGES, NOON, OPEN, REPLIES, arrival, lived, opened_again, table
from tests.properties import examples
from tests.sampling import parametrize_some

LOG, MARK = "-wal", "-open"


class Killed:
    """A ledger as a killed process left it, and what was in it."""

    def __init__(self, folder: Path, *, messages: int) -> None:
        path = folder / "ledger.sqlite"
        self.files: dict[str, bytes] = {}
        asyncio.run(self._live(path, messages))
        self.messages, self.replies = table(path, MESSAGES), table(path, REPLIES)

    async def _live(self, path: Path, messages: int) -> None:
        await lived(path, messages=messages, before_end=lambda: self._keep(path.parent))

    def _keep(self, folder: Path) -> None:
        self.files = {one.name: one.read_bytes() for one in folder.iterdir()}

    def put(self, folder: Path) -> Path:
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        return folder / "ledger.sqlite"


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """Everything is in the log, as behind any short life."""
    found = Killed(tmp_path_factory.mktemp("killed"), messages=20)
    assert len(found.files[f"ledger.sqlite{LOG}"]) > 20 * len(found.files["ledger.sqlite"])
    return found


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """Some of it is in the file, and the log was begun anew over its former frames."""
    found = Killed(tmp_path_factory.mktemp("longer"), messages=70)
    log = read_log(found.files[f"ledger.sqlite{LOG}"])
    assert 0 < log.committed < len(found.files[f"ledger.sqlite{LOG}"]) // log.size - 200
    return found


def harm(data: bytes, how: str, at: int, size: int) -> bytes:
    """``at`` in thousandths of the file."""
    place = len(data) * at // 1000
    changed = bytearray(data)
    if how == "cut":
        return bytes(changed[:place])
    if how == "flip":
        changed[min(place + size % 4096, len(data) - 1)] ^= 1 << size % 8
    elif how == "zero":
        changed[place : place + size] = bytes(len(changed[place : place + size]))
    return bytes(changed)


def judge(path: Path, was: Any, told: str | None) -> None:
    """What must hold whatever was damaged; a message counts as lost when it is not there, or ended without a word."""
    messages, replies = table(path, MESSAGES), table(path, REPLIES)
    reasons = table(path, "SELECT skey, reason FROM inbox")
    for key, (state, *_) in was.messages.items():
        now = messages.get(key)
        kept = now is not None and (now[0] == state or now[0] in OPEN if state in OPEN else now[0] not in OPEN)
        asked = now is not None and reasons[key][0] == IN_DOUBT
        assert kept or told is not None, f"{key} was {state}, is {now}, and nobody is told"
        assert kept or asked or now is None or state not in OPEN, f"{key} was {state} and is {now}"
        assert state in OPEN or now is None or now[0] not in OPEN, f"{key} was answered, and is to be answered again"
    for key, (state, *_) in was.replies.items():
        now = replies.get(key)
        if state == "sent" and now is not None:
            assert now[0] not in OPEN, f"{key} was sent, and is to be said again"
        if state in OPEN:
            assert now is not None or told is not None, f"{key} was {state} and is gone, and nobody is told"


HARM = st.tuples(st.sampled_from(("flip", "zero", "cut")), st.integers(0, 999), st.integers(1, 12_000))


DAMAGE = st.fixed_dictionaries(
    {
        LOG: st.lists(HARM, max_size=2),
        "": st.lists(HARM.filter(lambda one: one[0] != "flip"), max_size=1),
        MARK: st.sampled_from(("whole", "whole", "gone", "cut")),
    }
)
"""A flipped bit within a word of the file itself stays flipped: SQLite keeps no checksums there."""


@settings(max_examples=examples(60), deadline=None)
@given(long=st.booleans(), damage=DAMAGE)
def test_no_damage_loses_a_message_untold_or_says_an_answer_again(
    killed: Killed, longer: Killed, long: bool, damage: dict[str, Any]
) -> None:
    was, log, main, mark = longer if long else killed, damage[LOG], damage[""], damage[MARK]
    with tempfile.TemporaryDirectory() as folder:
        path = was.put(Path(folder))
        for side, harms in ((LOG, log), ("", main)):
            place = Path(f"{path}{side}")
            for one in harms:
                place.write_bytes(harm(place.read_bytes() or b"\0", *one))
        if mark != "whole":
            beside = Path(f"{path}{MARK}")
            beside.unlink() if mark == "gone" else beside.write_bytes(beside.read_bytes()[:9])
        if mark != "whole" and any(how == "cut" for how, *_ in log):
            return  # where its mark is damaged too, nothing says how long the log was
        told = opened_again(path)
        judge(path, was, told)


@parametrize_some(
    4,
    ("how", "at", "size"),
    [
        *(("flip", at, 0) for at in (10, 300, 600, 800, 950)),
        ("zero", 500, 4096),
        ("zero", 850, 4096),
        ("cut", 500, 0),
        ("cut", 900, 0),
        ("cut", 0, 0),
        ("zero", 0, 32),
    ],
)
def test_a_damaged_log_is_told_and_what_was_open_is_asked_about(
    killed: Killed, tmp_path: Path, how: str, at: int, size: int
) -> None:
    path = killed.put(tmp_path)
    log = Path(f"{path}{LOG}")
    log.write_bytes(harm(log.read_bytes(), how, at, size))
    told = opened_again(path)
    assert told is not None
    assert "write-ahead log" in told
    judge(path, killed, told)


def test_one_flipped_bit_costs_one_page_of_the_log(killed: Killed, tmp_path: Path) -> None:
    path = killed.put(tmp_path)
    log = Path(f"{path}{LOG}")
    data = log.read_bytes()
    whole = read_log(data)
    frames = (len(data) - HEADER) // (FRAME_HEADER + whole.size)
    found = read_log(harm(data, "flip", 300, 100))
    assert whole.committed == frames
    assert not whole.behind
    assert 0 < found.committed < whole.committed
    assert found.behind
    assert set(found.pages) == set(whole.pages), "later states of the page are there"


@pytest.mark.parametrize("also_the_log", [False, True])
def test_a_ledger_that_is_gone_while_it_was_in_use_is_told(killed: Killed, tmp_path: Path, also_the_log: bool) -> None:
    path = killed.put(tmp_path)
    path.unlink()
    if also_the_log:
        Path(f"{path}{LOG}").unlink()
    told = opened_again(path)
    assert told is not None
    assert "the file is gone" in told
    judge(path, killed, told)
    if not also_the_log:
        assert table(path, MESSAGES).keys() >= killed.messages.keys(), "its log held everything"


def test_an_emptied_ledger_is_told_too(killed: Killed, tmp_path: Path) -> None:
    path = killed.put(tmp_path)
    path.write_bytes(b"")
    told = opened_again(path)
    assert told is not None
    judge(path, killed, told)


def test_a_killed_ledger_without_damage_is_taken_as_it_is(killed: Killed, tmp_path: Path) -> None:
    path = killed.put(tmp_path)
    assert opened_again(path) is None
    after = table(path, MESSAGES)
    assert {key: after[key] for key in killed.messages} == killed.messages


def test_frames_that_no_commit_followed_are_no_damage(killed: Killed, tmp_path: Path) -> None:
    """A process that is killed in the midst of a write leaves some, whole or not."""
    path = killed.put(tmp_path)
    log = Path(f"{path}{LOG}")
    data = log.read_bytes()
    step = FRAME_HEADER + read_log(data).size
    for torn in (data + data[-step:-10], data + bytes(24), data + data[HEADER : HEADER + 3 * step]):
        log.write_bytes(torn)
        assert opened_again(path) is None
        for one in tmp_path.glob("ledger*"):
            one.unlink()
        killed.put(tmp_path)


def test_the_mark_follows_the_log_through_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    log, mark = Path(f"{path}{LOG}"), Path(f"{path}{MARK}")
    keep: dict[str, bytes] = {}
    lengths: list[int] = []

    def look(*, log_too: bool) -> None:
        noted = Mark.read(mark)
        assert noted is not None
        lengths.append(noted.committed)
        if log_too:
            found = read_log(log.read_bytes())
            assert (noted.salts, noted.committed) == (found.salts, found.committed)

    def held() -> dict[str, bytes]:
        return {one.name: one.read_bytes() for one in tmp_path.glob("ledger*")}

    async def live() -> None:
        ledger = await SqliteLedger.open(path, ManualClock(NOON))
        for day in range(CHECKPOINT_AT):
            await ledger.spending.first_time(f"day {day}", "x" * 3000)
            look(log_too=day % 100 == 0)
        keep.update(held())
        await ledger.close()

    asyncio.run(live())
    assert any(later < earlier for earlier, later in pairwise(lengths)), "the log was begun anew"
    assert len(keep[log.name]) < 2 * CHECKPOINT_AT * 4200
    assert not mark.exists()
    for name, data in keep.items():
        (tmp_path / name).write_bytes(data)
    log.unlink()
    told = opened_again(path)
    assert told is not None
    assert "its write-ahead log is gone" in told, "also where the log was begun anew since the start"


def test_a_message_that_its_index_has_lost_is_noticed(killed: Killed, tmp_path: Path) -> None:
    path = killed.put(tmp_path)
    db = apsw.Connection(str(path))
    db.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
    db.execute("UPDATE sqlite_schema SET sql = replace(sql, '''waiting''', '''nothing''') WHERE name = 'inbox_waiting'")
    db.close()
    db = apsw.Connection(str(path))
    db.execute("REINDEX inbox_waiting")
    db.config(apsw.SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1)
    db.execute("UPDATE sqlite_schema SET sql = replace(sql, '''nothing''', '''waiting''') WHERE name = 'inbox_waiting'")
    db.close()
    told = opened_again(path)
    assert told is not None
    judge(path, killed, told)


async def test_a_ledger_that_was_written_anew_is_whole_behind_a_kill(tmp_path: Path) -> None:
    for name, more in (("at-once", False), ("later", True)):
        home, left = tmp_path / name, tmp_path / f"{name}-left"
        home.mkdir()
        left.mkdir()
        await lived(home / "ledger.sqlite", messages=20)
        ledger = await SqliteLedger.open(home / "ledger.sqlite", ManualClock(NOON))
        waiting = len(await ledger.inbox.waiting())
        await ledger.leave_no_trace()
        if more:
            await ledger.inbox.accept(ACCOUNT, [arrival(900)])
        for one in home.iterdir():
            (left / one.name).write_bytes(one.read_bytes())
        await ledger.close()
        again = await SqliteLedger.open(left / "ledger.sqlite", ManualClock(NOON))
        assert again.warning is None
        assert len(await again.inbox.waiting()) == waiting + more
        assert [one.name for one in left.glob("*.copy-*")] == [one.name for one in home.glob("*.copy-*")]
        assert len(list(left.glob("*.copy-*"))) == 1
        await again.close()
