"""What a day costs: the same script as the benchmark's, cut short, through the real SDK against the caching peer."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from benchmarks.cost import Turn, run, week
from gateway.skills.catalog import bundled_folder

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_morning_rides_on_the_cache_and_the_first_hello_is_small(tmp_path: Path) -> None:
    morning = week(random.Random(11))[:12]
    found = await run(morning, tmp_path / "on", agent={}, session={})
    without = await run(morning, tmp_path / "off", agent={}, session={}, caching=False)
    assert found["failed"] == 0
    assert found["first"] <= 4000
    assert found["readInBursts"] >= 0.85
    assert found["dollars"] <= 0.6 * without["dollars"]


@pytest.mark.long
async def test_a_day_rides_on_the_cache_and_choices_cost_what_they_should(tmp_path: Path) -> None:
    day = week(random.Random(11))[:30]
    found = await run(day, tmp_path / "on", agent={}, session={})
    assert found["failed"] == 0
    assert found["first"] <= 4000
    assert found["readInBursts"] >= 0.9
    short = await run(day, tmp_path / "short", agent={"cacheRetention": "5m"}, session={})
    without = await run(day, tmp_path / "off", agent={}, session={}, caching=False)
    forgets = {"cacheRefresh": {"hours": 0}}
    cold = await run(day, tmp_path / "cold", agent=forgets, session={})
    untrimmed = await run(day, tmp_path / "long", agent={"contextPruning": {"softTrimRatio": 0.3}, **forgets}, session={})
    assert cold["dollars"] < 0.9 * untrimmed["dollars"], "old results are shown shorter whenever the cache has run out"
    assert found["dollars"] <= cold["dollars"], "a prompt that is kept is not written again"
    assert found["dollars"] < 1.1 * short["dollars"], "the choice of a retention does not count what trimming saves"
    assert short["dollars"] < without["dollars"]
    assert found["dollars"] <= 0.6 * without["dollars"]


async def test_hello_is_small_with_everything_connected(tmp_path: Path) -> None:
    """Mail, calendars and speech are configured, and all seven skills of Homebody listed; nothing of it is reached before it is used."""
    server = {"host": "127.0.0.1", "security": "none", "port": 9}
    account = {"imap": server, "smtp": server, "user": "ada", "password": "no-password-7", "fromAddress": "ada@example.net"}
    calendar = {"url": "http://127.0.0.1:9/", "user": "ada", "password": "no-password-8", "contacts": True}
    sections = {
        "mail": {"accounts": {"home": account}},
        "calendar": {"accounts": {"home": calendar}},
        "messages": {"tts": {"auto": "inbound", "baseUrl": "http://127.0.0.1:9/v1"}},
    }
    (tmp_path / "on" / "workspace").mkdir(parents=True)
    (tmp_path / "on" / "workspace" / "BOOTSTRAP.md").write_text("DONE\n")  # the first conversation is over
    found = await run([Turn(0.0, "hello")], tmp_path / "on", agent={}, session={}, sections=sections)
    assert found["failed"] == 0
    assert found["first"] <= 4000
    assert found["skills"] == sorted(path.parent.name for path in bundled_folder().glob("*/SKILL.md"))
    assert len(found["skills"]) == 7
    assert {"mail", "calendar", "todo"} <= set(found["tools"])
