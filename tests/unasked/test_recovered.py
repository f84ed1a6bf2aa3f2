"""A ledger that was damaged in the night: held messages go on or are kept for their owner to decide, and nothing is sent twice."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from gateway.base.clock import ManualClock
from gateway.ledger.sqlite import SqliteLedger
from tests.ledger.test_recovery import DAMAGE, damaged
from tests.properties import examples
from tests.unasked.test_held_messages import EVENING, RULE, chunk, deliver

if TYPE_CHECKING:
    from collections.abc import Callable

BEFORE = {"evening 0", "evening 1"}
HELD = {f"held {number}" for number in range(4)}


async def evening(path: Path) -> None:
    """Two messages were sent; four are held, one of them since before the last copy was made."""
    clock = ManualClock(EVENING)
    ledger = await SqliteLedger.open(path, clock)
    for text in sorted(BEFORE):
        await ledger.outbox.enqueue([chunk(text, key=text)])
    assert set(await deliver(ledger)) == BEFORE
    clock.move(2 * 3600)
    await ledger.outbox.enqueue([chunk("held 0", key="held 0")])
    await ledger.backup()
    for text in sorted(HELD - {"held 0"}):
        await ledger.outbox.enqueue([chunk(text, key=text)])
    await ledger.close()


async def morning(path: Path) -> tuple[list[str], dict[str, str], str]:
    """What is sent in the morning, what is still held or kept, and what the owner is warned of."""
    clock = ManualClock(EVENING + timedelta(hours=11))
    ledger = await SqliteLedger.open(path, clock)
    for text in (*BEFORE, *HELD):  # asked for once more: their keys are known
        await ledger.outbox.enqueue([chunk(text, key=text)])
    await ledger.unasked.release({"main": RULE})
    sent = await deliver(ledger)
    rows = {row.text: row.state for row in await ledger.unasked.waiting()}
    await ledger.close()
    return sent, rows, ledger.warning or ""


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evening") / "ledger.sqlite"
    asyncio.run(evening(path))
    return path


def test_without_damage_the_night_is_sent_up_to_the_number(closed: Path, tmp_path: Path) -> None:
    shutil.copytree(closed.parent, tmp_path, dirs_exist_ok=True)
    sent, rows, _ = asyncio.run(morning(tmp_path / "ledger.sqlite"))
    assert (sent, rows) == (["held 0", "held 1", "held 2"], {"held 3": "kept"})


def test_of_a_ledger_that_is_gone_the_copy_tells_what_was_held(closed: Path, tmp_path: Path) -> None:
    shutil.copytree(closed.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "ledger.sqlite").write_bytes(b"not a database" * 1000)
    sent, rows, warning = asyncio.run(morning(tmp_path / "ledger.sqlite"))
    assert "held 0" not in sent, "it may have been sent since the copy was made"
    assert rows["held 0"] == "kept"
    assert "1 message that was held may have been sent already or not: `homebody outbox held`" in warning


@settings(max_examples=examples(25), deadline=None)
@given(damage=DAMAGE)
def test_damage_sends_nothing_twice_and_hides_nothing(closed: Path, damage: list[tuple[Callable[..., None], int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(closed.parent, folder, dirs_exist_ok=True)
        path = damaged(Path(folder) / "ledger.sqlite", damage)
        sent, rows, _ = asyncio.run(morning(path))
        assert len(sent) == len(set(sent))
        assert {*sent, *rows} >= HELD, "each is sent or listed"
        assert not rows.keys() & set(sent)
