"""Settings of any size are checked in time that grows with their size."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gateway.config.load import check

if TYPE_CHECKING:
    from pathlib import Path


def test_thousands_of_unknown_keys_are_told_in_little_time(tmp_path: Path) -> None:
    text = "".join(f"unknownKey{number}: {number}\n" for number in range(2000))
    check(text[:100], tmp_path / "homebody.yaml", {})
    before = time.process_time()
    checked = check(text, tmp_path / "homebody.yaml", {})
    assert time.process_time() - before < 4
    assert len(checked.warnings) == 2000


def test_a_key_that_stands_in_the_wrong_place_is_still_named_with_its_right_one(tmp_path: Path) -> None:
    [warning] = check("softThresholdTokens: 4000\n", tmp_path / "homebody.yaml", {}).warnings
    assert "agents.defaults.compaction.memoryFlush.softThresholdTokens" in warning.as_text()
