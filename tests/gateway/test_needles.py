"""Facts said once are found again after compactions, fresh starts and flushes that fail; and the run can tell when they are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.needles import run
from tests.sampling import parametrize_some

SMALL = {"count": 24, "tokens": 100_000, "resets": 2, "window": 32_000}


@parametrize_some(1, "seed", [1, 2])
async def test_what_was_said_once_is_found_again(tmp_path: Path, seed: int) -> None:
    found = await run(tmp_path, seed=seed, **SMALL)
    assert found["compactions"] > 0
    assert found["flush"] > 2
    assert found["any"] >= 0.95 * found["of"]


async def test_without_the_flush_much_of_it_is_lost(tmp_path: Path) -> None:
    found = await run(tmp_path, off="flush", **SMALL)
    assert found["any"] < 0.8 * found["of"]


def test_asked_for_help_it_explains_itself_and_measures_nothing() -> None:
    program = Path(__file__).resolve().parents[2] / "benchmarks" / "needles.py"
    asked = subprocess.run([sys.executable, program, "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert "--small" in asked.stdout
