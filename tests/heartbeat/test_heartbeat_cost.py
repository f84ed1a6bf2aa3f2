"""What heartbeats cost, at the wire: through the real SDK against the peer that keeps a prompt cache and writes the bill."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from benchmarks.cost import week
from benchmarks.heartbeat_cost import dollars, run

if TYPE_CHECKING:
    from pathlib import Path

TURNS = week(random.Random(11))[:4]


async def test_with_the_shipped_file_no_request_leaves_the_house(tmp_path: Path) -> None:
    peer = await run(TURNS, tmp_path, days=1, every="30m", tasks="")
    assert "heartbeat" not in peer.bills
    assert peer.bills["turns"].calls >= len(TURNS)


async def test_a_day_of_heartbeats_reads_its_prompt_from_the_cache(tmp_path: Path) -> None:
    without = await run(TURNS, tmp_path / "without", days=1, every=0)
    peer = await run(TURNS, tmp_path / "with", days=1, every="30m")
    beats = [bill for _, label, bill in peer.each if label == "heartbeat"]
    assert len(beats) >= 40
    whole = [bill for bill in beats if not bill.read]
    assert len(whole) <= 2, "the prompt is written once, and once more after the night's fresh session"
    usual = [bill for bill in beats if bill.read and not bill.written_1h]
    assert max(map(dollars, usual)) <= 0.003
    assert all(bill.fresh <= 50 for bill in usual), "nothing but the time is new"
    more = dollars(peer.bill) - dollars(without.bill)
    assert more <= 0.25, "a day of its own pays for two writes; benchmarks/heartbeat_cost.py has the week"
